import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite("verification links") struct VerificationTests {
    private let now = WallTime(milliseconds: 1_758_319_574_500)
    private let anna = UntrustedPeer(seed: 710)

    private func address(nonce: [UInt8] = Array(0..<16)) throws -> String {
        let name = try DisplayName("Änna & co")
        return try #require(MeshVerificationCode.address(of: anna.identity, name: name, nonce: nonce, now: now))
    }

    private func later(_ seconds: Int64) -> WallTime { WallTime(milliseconds: now.milliseconds + seconds * 1_000) }

    @Test("a link of this implementation is read back within five minutes")
    func lifetime() throws {
        let link = try address()
        let code = try MeshVerificationCode.decode(address: link, now: now)
        #expect(code.nickname == "Änna & co" && code.nonce == "AAECAwQFBgcICQoLDA0ODw")
        #expect(code.agreementKey == anna.identity.agreementKey.publicKey)
        #expect(code.signingKey == anna.identity.signingKey.publicKey)
        for seconds: Int64 in [-300, 300] { _ = try MeshVerificationCode.decode(address: link, now: later(seconds)) }
        for seconds: Int64 in [-301, 302] {
            #expect(throws: MalformedInput.self) { try MeshVerificationCode.decode(address: link, now: later(seconds)) }
        }
    }

    @Test("K16: a link with any changed part is rejected")
    func changed() throws {
        let link = try address()
        for (old, new) in [
            ("nick=", "nick=x"), ("ts=17", "ts=18"), ("nonce=A", "nonce=B"), ("v=1", "v=2"), ("&sig=", "&npub=a&sig="),
        ] {
            #expect(link.contains(old))
            #expect(throws: MalformedInput.self, "\(old)") {
                try MeshVerificationCode.decode(address: link.replacing(old, with: new), now: now)
            }
        }
    }

    @Test("K16: only the owner of both keys proves them, to the challenge that was sent, in its own session")
    func proof() throws {
        var victim = AttackedRouter()
        victim.receive(try anna.announcement(at: victim.now))
        #expect(try UntrustedPeerSession(of: anna, with: &victim) != nil)
        let peer = try #require(victim.router.authenticatedPeer(anna.id))
        let mallory = UntrustedPeer(seed: 711)
        victim.receive(try mallory.announcement(at: victim.now))
        #expect(try UntrustedPeerSession(of: mallory, with: &victim) != nil)
        let other = try #require(victim.router.authenticatedPeer(mallory.id))
        let code = try MeshVerificationCode.decode(address: address(), now: now)
        let challenge = MeshVerification.Challenge(noiseKeyHex: code.noiseKeyHex, nonce: Array(16..<32))
        func response(_ challenge: MeshVerification.Challenge, by signer: UntrustedPeer) -> MeshVerification.Response {
            let bytes = MeshVerification.signedBytes(challenge)
            return .init(challenge: challenge, signature: signer.identity.signingKey.signature(for: bytes))
        }
        #expect(code.isProven(by: response(challenge, by: anna), to: challenge, of: peer))
        #expect(!code.isProven(by: response(challenge, by: mallory), to: challenge, of: peer))
        #expect(!code.isProven(by: response(challenge, by: anna), to: challenge, of: other))
        let earlier = MeshVerification.Challenge(noiseKeyHex: code.noiseKeyHex, nonce: Array(0..<16))
        #expect(!code.isProven(by: response(earlier, by: anna), to: challenge, of: peer))
    }
}
