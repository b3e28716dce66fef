import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@Suite struct ShortCodeTests {
    private let hash = [UInt8](repeating: 5, count: 32)

    private func code(_ role: HandshakeRole, _ byte: UInt8, hash: [UInt8]? = nil) -> ShortAuthenticationString {
        ShortAuthenticationString(role: role, handshakeHash: hash ?? self.hash, nonce: [UInt8](repeating: byte, count: 32))
    }

    /// The codes of both sides after commitments and reveals have been exchanged in order.
    private func texts(_ one: ShortAuthenticationString, _ other: ShortAuthenticationString) throws -> (
        ShortAuthenticationDigits, ShortAuthenticationDigits
    ) {
        var (one, other) = (one, other)
        try one.receive(commitment: other.commitment)
        try other.receive(commitment: one.commitment)
        return (try one.receive(reveal: other.nonce), try other.receive(reveal: one.nonce))
    }

    @Test("K3: both sides see the same eight digits") func same() throws {
        let (initiator, responder) = try texts(code(.initiator, 1), code(.responder, 2))
        #expect(initiator == responder)
        #expect(initiator.digits.count == 8 && initiator.digits.allSatisfy(\.isNumber))
        #expect("\(initiator)".count == 9)
    }

    @Test("K3: every nonce and every handshake gives another code") func differs() throws {
        var seen: Set<ShortAuthenticationDigits> = []
        for byte in 2..<100 as Range<UInt8> { seen.insert(try texts(code(.initiator, 1), code(.responder, byte)).0) }
        #expect(seen.count == 98)
        let other = [UInt8](repeating: 6, count: 32)
        #expect(
            try texts(code(.initiator, 1), code(.responder, 2)).0
                != texts(code(.initiator, 1, hash: other), code(.responder, 2, hash: other)).0)
    }

    @Test("K1: a man in the middle makes the codes differ") func middleman() throws {
        // One handshake with each side, the same nonces passed on as far as the commitments allow.
        var (toAlice, toBob) = (HandshakePair(seed: 1), HandshakePair(seed: 2))
        let aliceHash = try toAlice.complete().initiator.handshakeHash
        let bobHash = try toBob.complete().responder.handshakeHash
        #expect(aliceHash != bobHash)
        let alice = code(.initiator, 1, hash: aliceHash)
        let bob = code(.responder, 2, hash: bobHash)
        let seenByAlice = try texts(alice, code(.responder, 2, hash: aliceHash)).0
        let seenByBob = try texts(code(.initiator, 1, hash: bobHash), bob).1
        #expect(seenByAlice != seenByBob)
        // Merely passing the commitments on does not even get that far.
        var relayed = alice
        try relayed.receive(commitment: bob.commitment)
        #expect(throws: ShortAuthenticationString.Failure.wrongReveal) { try relayed.receive(reveal: bob.nonce) }
    }

    @Test("K3: the machine's table") func table() throws {
        let other = code(.responder, 2)
        // Awaiting the commitment: a reveal is out of order, and nothing is lost by it.
        var machine = code(.initiator, 1)
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try machine.receive(reveal: other.nonce) }
        #expect(throws: ShortAuthenticationString.Failure.reflected) { try machine.receive(commitment: machine.commitment) }
        try machine.receive(commitment: other.commitment)
        // Awaiting the reveal.
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try machine.receive(commitment: other.commitment) }
        for bad in [[], Array(other.nonce.dropLast()), other.nonce + [0], machine.nonce] {
            #expect(throws: ShortAuthenticationString.Failure.wrongReveal) { try machine.receive(reveal: bad) }
        }
        _ = try machine.receive(reveal: other.nonce)
        // Done.
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try machine.receive(reveal: other.nonce) }
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try machine.receive(commitment: other.commitment) }
    }

    @Test("K3: our own nonce under the other role does not pass for theirs") func reflectedNonce() throws {
        var machine = code(.initiator, 1)
        try machine.receive(commitment: code(.initiator, 2).commitment)
        #expect(throws: ShortAuthenticationString.Failure.wrongReveal) {
            try machine.receive(reveal: code(.initiator, 2).nonce)
        }
    }

    @Test("what goes over the wire and what people read, worked out by other means") func knownAnswer() throws {
        let (initiator, responder) = (code(.initiator, 1), code(.responder, 2))
        #expect(
            Hex.encode(initiator.commitment) == "5147cdaf2c0e45920250fd2debfa6b87c6d92e3822bcbed96da45591dd7fdd09")
        #expect("\(try texts(initiator, responder).0)" == "1431 3734")
    }

    @Test("K3: a nonce of another length is rejected, even when it opens the commitment", arguments: [0, 31, 33])
    func nonceLength(_ count: Int) throws {
        let nonce = [UInt8](repeating: 2, count: count)
        var machine = code(.initiator, 1)
        try machine.receive(commitment: SHA256Hasher.digest(Array("nearshare commitment".utf8) + [2] + hash + nonce))
        #expect(throws: ShortAuthenticationString.Failure.wrongReveal) { try machine.receive(reveal: nonce) }
    }
}
