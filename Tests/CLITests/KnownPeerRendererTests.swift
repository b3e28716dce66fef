import Nearshare
import Testing

@testable import NearshareCLI

@Suite("known peers in a list") struct KnownPeerRendererTests {
    private func key(_ byte: UInt8) -> Fingerprint { Fingerprint(bytes: [UInt8](repeating: byte, count: 32))! }

    private func peers(_ names: [(key: UInt8, claimed: String, given: String?)]) throws -> [KnownPeerRenderer.KnownPeer] {
        var trust = TrustStore()
        for name in names {
            let claimed = try DisplayName(name.claimed)
            let given = try name.given.map { try DisplayName($0) }
            let isKept = trust.introduce(
                key(name.key), claiming: claimed, as: given ?? claimed, at: WallTime(milliseconds: 1_000))
            #expect(isKept)
            if given == nil { trust.rename(key(name.key), to: nil) }
        }
        return KnownPeerRenderer.sorted(trust.entries)
    }

    @Test func `peers are sorted by name without regard to case, then by key`() throws {
        let sorted = try peers([(3, "x", "ben"), (2, "x", "Anna"), (4, "x", "Ben"), (1, "x", "ben")])
        #expect(sorted.map { $0.fingerprint } == [key(2), key(1), key(3), key(4)])
    }

    @Test func `a row has the claimed name as well where the user has given another one`() throws {
        let peer = try #require(try peers([(1, "ben", "Ben S")]).first)
        #expect(
            KnownPeerRenderer.row(peer, trust: "verified") == ["Ben S", key(1).peerID.hex, "verified", "calls itself ben"])
        let other = try #require(try peers([(2, "ben", nil)]).first)
        #expect(KnownPeerRenderer.row(other, trust: "seen") == ["ben", key(2).peerID.hex, "seen", ""])
    }

    @Test("T1: claimed names are escaped in rows")
    func hostile() throws {
        let peer = try #require(try peers([(1, "a\u{1b}[2Jnna", "anna")]).first)
        #expect(!KnownPeerRenderer.row(peer, trust: "seen").joined().contains("\u{1b}"))
    }

    @Test func `JSON has names as they are, and the time in milliseconds`() throws {
        let peer = try #require(try peers([(1, "ben", "Ben S")]).first)
        let members = try encoded(.object(KnownPeerRenderer.jsonMembers(peer)))
        #expect(members.contains(#""claimed_name":"ben""#) && members.contains(#""name":"Ben S""#))
        #expect(members.contains(#""last_seen":1000"#) && members.contains(#""fingerprint":"\#(key(1).hex)""#))
    }
}
