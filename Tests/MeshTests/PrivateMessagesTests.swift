import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct PrivateMessagesTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let peer = PeerID(fitting: [3])

    @Test("a message is sent again after longer and longer pauses until its receipt comes, and then given up")
    func repetition() {
        var messages = PrivateMessages()
        messages.insert([1], id: "A", to: peer, now: now)
        messages.insert([2], id: "B", to: peer, now: now)
        #expect(messages.advance(to: now + .seconds(4)).isEmpty)
        #expect(messages.advance(to: now + .seconds(5)).count == 2)
        messages.recordReceipt("A", from: peer)
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

    @Test("a message that was repeated in vain is repeated when its peer is back, at most four times in all")
    func peerIsBack() {
        var messages = PrivateMessages()
        messages.insert([1], id: "A", to: peer, now: now)
        messages.repeatSoon(to: peer, now: now)
        #expect(messages.advance(to: now + .seconds(4)).isEmpty)
        #expect(messages.advance(to: now + .seconds(5)).count == 1)
        #expect(messages.advance(to: now + .seconds(6)).isEmpty)
        for second in 6...8 {
            messages.repeatSoon(to: peer, now: now + .seconds(second))
            let reactions = messages.advance(to: now + .seconds(second))
            #expect(reactions.contains { if case .resend = $0 { true } else { false } })
        }
        messages.repeatSoon(to: peer, now: now + .seconds(9))
        let last = messages.advance(to: now + .seconds(9))
        #expect(last.contains { if case .failed(messageID: "A", _) = $0 { true } else { false } })
    }

    @Test("messages are sent again in their order") func order() {
        var messages = PrivateMessages()
        for number: UInt8 in 1...3 { messages.insert([number], id: "\(number)", to: peer, now: now) }
        let resent = messages.advance(to: now + .seconds(5)).compactMap { reaction -> UInt8? in
            if case .resend(let payload, _) = reaction { payload.first } else { nil }
        }
        #expect(resent == [1, 2, 3])
    }

    @Test func `the messages to one peer that wait for receipts are bounded`() {
        var messages = PrivateMessages()
        var count = 0
        while messages.hasRoom(for: peer), count < 100 {
            messages.insert([1], id: "\(count)", to: peer, now: now)
            count += 1
        }
        #expect(count == 64)
        for number in 0..<300 { messages.recordAcknowledgement("\(number)", of: peer) }
        #expect(!messages.isAcknowledged("43", of: peer) && messages.isAcknowledged("44", of: peer))
        #expect(messages.removePeer(peer) == (0..<64).map { "\($0)" })
        #expect(!messages.isAcknowledged("299", of: peer) && messages.hasRoom(for: peer))
    }
}
