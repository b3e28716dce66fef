import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite struct SecureChannelTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let link = MeshLinkID(rawValue: 1)
    /// The one with the lower id, and the other.
    private let identities: [LocalIdentity]

    init() {
        var random = SeededRandom(seed: 12)
        identities = (0..<2).map { _ in LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount)) }
            .sorted { $0.peerID.hex < $1.peerID.hex }
    }

    private func channels(idleTimeout: Duration = .seconds(600)) -> (low: SecureChannel, high: SecureChannel) {
        (
            SecureChannel(identity: identities[0], peerID: identities[1].peerID, idleTimeout: idleTimeout),
            SecureChannel(identity: identities[1], peerID: identities[0].peerID, idleTimeout: idleTimeout)
        )
    }

    private func ephemeral(_ number: UInt8) -> [UInt8] { (0..<32).map { $0 &+ number } }

    private func reply(_ reaction: SecureChannel.Reaction) -> [UInt8]? {
        switch reaction {
        case .reply(let message): message
        case .established(_, let reply): reply
        case .ignore: nil
        }
    }

    /// Runs a handshake that the first channel begins.
    private func connect(_ first: inout SecureChannel, _ second: inout SecureChannel, _ number: UInt8 = 1) throws {
        let started = first.start(now: now, ephemeral: ephemeral(number))
        let one = try #require(started)
        let answer = second.receive(
            handshake: one[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(number + 100))
        let two = try #require(reply(answer))
        let finish = first.receive(handshake: two[...], isSigned: true, from: link, now: now, ephemeral: [])
        let three = try #require(reply(finish))
        guard case .established = second.receive(handshake: three[...], isSigned: true, from: link, now: now, ephemeral: [])
        else {
            Issue.record("not established")
            return
        }
    }

    @Test func `a handshake makes a session that carries messages both ways`() throws {
        var (low, high) = channels()
        try connect(&low, &high)
        #expect(low.isEstablished && high.isEstablished && !low.isInitiating && !high.isResponding)
        #expect(low.peer?.id == identities[1].peerID && high.peer?.id == identities[0].peerID)
        let (fromLow, fromHigh) = (try low.seal([1, 2], now: now), try high.seal([3], now: now))
        let opened = [try high.open(fromLow[...], now: now), try low.open(fromHigh[...], now: now)]
        #expect(opened.map(\.plaintext) == [[1, 2], [3]] && opened.map(\.counter) == [0, 0])
    }

    @Test func `a renewed session still opens messages of the earlier one`() throws {
        var (low, high) = channels()
        try connect(&low, &high)
        let late = try low.seal([7], now: now)
        let started = low.start(now: now, ephemeral: ephemeral(9))
        let first = try #require(started)
        #expect(low.isEstablished && low.isInitiating)
        let answer = high.receive(handshake: first[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(99))
        let second = try #require(reply(answer))
        let finish = low.receive(handshake: second[...], isSigned: true, from: link, now: now, ephemeral: [])
        let third = try #require(reply(finish))
        // A repeated second message gets the same third one.
        let repeated = low.receive(handshake: second[...], isSigned: true, from: link, now: now, ephemeral: [])
        #expect(reply(repeated) == third)
        _ = high.receive(handshake: third[...], isSigned: true, from: link, now: now, ephemeral: [])
        let opened = try high.open(late[...], now: now)
        #expect(opened.plaintext == [7] && opened.counter == nil)
        let sealed = try low.seal([8], now: now)
        let next = try high.open(sealed[...], now: now)
        #expect(next.plaintext == [8] && next.counter == 0)
    }

    @Test func `where both peers begin at once, the one with the lower id stays the initiator`() throws {
        var (low, high) = channels()
        let started = (low.start(now: now, ephemeral: ephemeral(1)), high.start(now: now, ephemeral: ephemeral(2)))
        let (fromLow, fromHigh) = (try #require(started.0), try #require(started.1))
        let ignored = low.receive(handshake: fromHigh[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(3))
        #expect(reply(ignored) == nil)
        let answer = high.receive(handshake: fromLow[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(4))
        let second = try #require(reply(answer))
        let finish = low.receive(handshake: second[...], isSigned: true, from: link, now: now, ephemeral: [])
        let third = try #require(reply(finish))
        _ = high.receive(handshake: third[...], isSigned: true, from: link, now: now, ephemeral: [])
        #expect(low.isEstablished && high.isEstablished && !high.isInitiating)
    }

    @Test func `the first message of a handshake is sent again in time, and the handshake expires`() throws {
        var (low, high) = channels()
        let started = [low.start(now: now, ephemeral: ephemeral(1)), low.start(now: now, ephemeral: ephemeral(2))]
        let first = try #require(started[0])
        #expect(started[1] == nil)
        let retransmissions = [2, 3, 5].map { low.retransmittedFirstMessage(now: now + .seconds($0)) }
        #expect(retransmissions == [nil, first, nil])
        let answer = high.receive(handshake: first[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(3))
        let second = try #require(reply(answer))
        let answers = [500, 1000].map { high.retransmittedSecondMessage(now: now + .milliseconds($0)) }
        #expect(answers == [nil, second])
        low.expire(now: now + SecureChannel.initiatorTimeout)
        high.expire(now: now + HandshakeResponses.timeout)
        #expect(!low.isInitiating && !high.isResponding)
    }

    @Test("K12: a session ends without incoming messages, and a failed message then justifies a new one") func idleTimeout()
        throws
    {
        var (low, high) = channels(idleTimeout: .seconds(10))
        try connect(&low, &high)
        let message = try low.seal([1], now: now + .seconds(9))
        _ = try high.open(message[...], now: now + .seconds(9))
        low.expire(now: now + .seconds(10))
        high.expire(now: now + .seconds(10))
        #expect(!low.isEstablished && high.isEstablished)
        let sealed = try? low.seal([1], now: now + .seconds(10))
        #expect(sealed == nil)
        let failures = [low.recordFailure()] + (0..<3).map { _ in high.recordFailure() }
        #expect(failures == [true, false, false, true])
    }

    @Test("R9: unsigned first messages use up no share of the signed ones, nor one of another link") func shares() throws {
        var (low, _) = channels()
        var answered = 0
        func first(_ number: UInt8) throws -> [UInt8] {
            var other = SecureChannel(identity: identities[1], peerID: identities[0].peerID, idleTimeout: .seconds(1))
            let message = other.start(now: now, ephemeral: ephemeral(number))
            return try #require(message)
        }
        for number in 0..<20 as Range<UInt8> {
            let message = try first(number)
            let reaction = low.receive(
                handshake: message[...], isSigned: false, from: link, now: now, ephemeral: ephemeral(number + 60))
            answered += reply(reaction) == nil ? 0 : 1
        }
        #expect(answered == 10)
        let message = try first(40)
        let signed = low.receive(handshake: message[...], isSigned: true, from: link, now: now, ephemeral: ephemeral(120))
        let other = try first(41)
        let overOtherLink = low.receive(
            handshake: other[...], isSigned: false, from: MeshLinkID(rawValue: 2), now: now, ephemeral: ephemeral(122))
        #expect(reply(overOtherLink) != nil)
        // The same message again is free.
        let again = low.receive(handshake: message[...], isSigned: false, from: link, now: now, ephemeral: ephemeral(121))
        #expect(reply(signed) != nil && reply(again) == reply(signed))
    }
}
