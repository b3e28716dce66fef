import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("comparing the short authentication string") struct VerificationTests {
    /// Both ends of a link, whose digits are known to both.
    private func pair(revealed: Bool = true) throws -> (Verification, Verification) {
        func end(_ role: HandshakeRole, _ byte: UInt8) -> Verification {
            Verification(
                ShortAuthenticationString(
                    role: role, handshakeHash: Samples.digest,
                    nonce: [UInt8](repeating: byte, count: ShortAuthenticationString.nonceByteCount)))
        }
        var (ada, bea) = (end(.initiator, 1), end(.responder, 2))
        guard revealed else { return (ada, bea) }
        let toBea = try ada.receive(commitment: bea.commitment)
        let toAda = try bea.receive(commitment: ada.commitment)
        guard case .send(.reveal(let adaNonce))? = toBea.first, case .send(.reveal(let beaNonce))? = toAda.first else {
            throw MalformedInput("no reveal")
        }
        _ = try ada.receive(reveal: beaNonce)
        _ = try bea.receive(reveal: adaNonce)
        return (ada, bea)
    }

    @Test func `both ends see the same digits`() throws {
        let (ada, bea) = try pair()
        #expect(ada.digits != nil && ada.digits == bea.digits)
    }

    @Test("K3: each link has one comparison, answered once by each side")
    func once() throws {
        var (ada, bea) = try pair()
        let requested = ada.request()
        #expect(requested == [.send(.compare)])
        let repeated = ada.request()
        #expect(repeated.isEmpty)
        let asked = try bea.receiveRequest()
        #expect(asked == [.verificationRequested])
        #expect(throws: MalformedInput.self) { try bea.receiveRequest() }
        let own = bea.request()
        #expect(own.isEmpty)
        let answered = bea.answer(matches: false)
        #expect(answered == [.send(.compared(isSame: false))])
        let changed = bea.answer(matches: true)
        #expect(changed.isEmpty)
        let heard = try ada.receiveAnswer(matches: false)
        #expect(heard == [.verificationAnswered(matches: false)])
        #expect(throws: MalformedInput.self) { try ada.receiveAnswer(matches: true) }
    }

    @Test("K3: nothing is compared before the digits are known, and nothing answered that was not asked")
    func order() throws {
        var (ada, bea) = try pair(revealed: false)
        let early = ada.request() + ada.answer(matches: true)
        #expect(early.isEmpty)
        #expect(throws: MalformedInput.self) { try bea.receiveRequest() }
        #expect(throws: MalformedInput.self) { try bea.receiveAnswer(matches: true) }
        (ada, bea) = try pair()
        #expect(throws: MalformedInput.self) { try ada.receiveAnswer(matches: true) }
    }

    @Test("K1: a reflected commitment and a wrong reveal are rejected")
    func attacks() throws {
        var (ada, bea) = try pair(revealed: false)
        #expect(throws: MalformedInput.self) { try ada.receive(commitment: ada.commitment) }
        #expect(throws: ShortAuthenticationString.Failure.outOfOrder) { try bea.receive(reveal: Samples.digest) }
        _ = try bea.receive(commitment: ada.commitment)
        #expect(throws: ShortAuthenticationString.Failure.wrongReveal) { try bea.receive(reveal: Samples.digest) }
        #expect(bea.digits == nil)
    }
}
