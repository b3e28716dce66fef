import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct PrivateMessagesTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let peer = PeerID(fitting: [3])

    @Test("a message is sent again after longer and longer pauses until its receipt comes, and then given up")
    func repetition() {
        var messages = PrivateMessages()
        _ = messages.insert([1], id: "A", to: peer, now: now)
        _ = messages.insert([2], id: "B", to: peer, now: now)
        #expect(messages.advance(to: now + .seconds(4)).isEmpty)
        #expect(messages.advance(to: now + .seconds(5)).count == 2)
        _ = messages.recordReceipt("A", from: peer, now: now)
        var resent: [Int] = []
        var givenUp: [Int] = []
        for second in 6...300 {
            for reaction in messages.advance(to: now + .seconds(second)) {
                switch reaction {
                case .resend(let payload, _):
                    #expect(payload == [2])
                    resent.append(second)
                case .failed(let id, _):
                    #expect(id == "B")
                    givenUp.append(second)
                }
            }
        }
        #expect(resent == [15, 35, 75] && givenUp == [155])
    }

    @Test("a message that was repeated in vain is repeated when its peer is back, at most five times in all")
    func peerIsBack() {
        var messages = PrivateMessages()
        _ = messages.insert([1], id: "A", to: peer, now: now)
        messages.repeatSoon(to: peer, now: now)
        #expect(messages.advance(to: now + .seconds(4)).isEmpty)
        #expect(messages.advance(to: now + .seconds(5)).count == 1)
        #expect(messages.advance(to: now + .seconds(6)).isEmpty)
        for second in 6...8 {
            messages.repeatSoon(to: peer, now: now + .seconds(second))
            let reactions = messages.advance(to: now + .seconds(second))
            #expect(reactions.contains { if case .resend = $0 { true } else { false } })
        }
        // The fourth may only have asked for a session: one more follows when there is one, and no other.
        messages.repeatSoon(to: peer, now: now + .seconds(9))
        let extra = messages.advance(to: now + .seconds(9))
        #expect(extra.contains { if case .resend = $0 { true } else { false } })
        messages.repeatSoon(to: peer, now: now + .seconds(10))
        #expect(messages.advance(to: now + .seconds(10)).isEmpty)
        let last = messages.advance(to: now + .seconds(400))
        #expect(last.contains { if case .failed(messageID: "A", _) = $0 { true } else { false } })
    }

    @Test("behind relays each message waits for the receipt of the one before, and is given up with it")
    func ordered() {
        var messages = PrivateMessages()
        let areSent = (1...3).map { (number: UInt8) in
            messages.insert([number], id: "\(number)", to: peer, isOrdered: true, now: now)
        }
        #expect(areSent == [true, false, false])
        let next = (0..<2).map { _ in messages.recordReceipt("1", from: peer, now: now + .seconds(1)) }
        #expect(next == [[2], nil])
        let early = messages.advance(to: now + .seconds(5))
        #expect(early.isEmpty)
        var givenUp: [String] = []
        for second in 6...200 {
            for reaction in messages.advance(to: now + .seconds(second)) {
                switch reaction {
                case .resend(let payload, _): #expect(payload == [2])
                case .failed(let id, _): givenUp.append(id)
                }
            }
        }
        #expect(givenUp == ["2", "3"])
        let isSent = messages.insert([4], id: "4", to: peer, isOrdered: true, now: now)
        #expect(isSent)
    }

    @Test("messages behind a file are not repeated until its end")
    func busy() {
        var messages = PrivateMessages()
        _ = messages.insert([1], id: "A", to: peer, now: now)
        let during = (1...60).flatMap { second in messages.advance(to: now + .seconds(second)) { _ in true } }
        #expect(during.isEmpty)
        let after = [64, 65].map { messages.advance(to: now + .seconds($0)).count }
        #expect(after == [0, 1])
    }

    @Test("messages are sent again in their order") func order() {
        var messages = PrivateMessages()
        for number: UInt8 in 1...3 { _ = messages.insert([number], id: "\(number)", to: peer, now: now) }
        let resent = messages.advance(to: now + .seconds(5)).compactMap { reaction -> UInt8? in
            if case .resend(let payload, _) = reaction { payload.first } else { nil }
        }
        #expect(resent == [1, 2, 3])
    }

    @Test func `the messages to one peer that wait for receipts are bounded`() {
        var messages = PrivateMessages()
        var count = 0
        while messages.hasRoom(for: peer), count < 1_000 {
            _ = messages.insert([1], id: "\(count)", to: peer, now: now)
            count += 1
        }
        #expect(count == 256)
        _ = messages.recordReceipt("255", from: peer, now: now)
        #expect(messages.hasRoom(for: peer) && !messages.hasRoom(for: peer, messageCount: 2))
        _ = messages.insert([1], id: "255", to: peer, now: now)
        for number in 0..<300 { messages.recordAcknowledgement("\(number)", of: peer) }
        #expect(!messages.isAcknowledged("43", of: peer) && messages.isAcknowledged("44", of: peer))
        #expect(messages.removePeer(peer) == (0..<256).map { "\($0)" })
        #expect(!messages.isAcknowledged("299", of: peer) && messages.hasRoom(for: peer))
    }
}
