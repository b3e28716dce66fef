import Nearshare
import NearshareInterfaces
import Testing

@testable import NearshareService

@Suite("nodes that are announced, but do not answer") struct UnreachablePeersTests {
    private func peer(_ number: UInt8, _ name: String) throws -> NearbyPeer {
        let address = LinkAddress(host: "10.0.0.\(number)", port: 29742)
        return NearbyPeer(
            id: try #require(PeerID(bytes: [UInt8](repeating: number, count: 8))), name: try DisplayName(name),
            addresses: [address],
            meshAddresses: [address])
    }

    @Test func `each is told of once`() throws {
        var reported = UnreachablePeers()
        let ben = try peer(1, "ben")
        let notice = reported.notice(about: ben, TrustStore())
        #expect(notice?.hasPrefix("\"ben\" is announced at 10.0.0.1:29742, but does not answer there") == true)
        let second = reported.notice(about: ben, TrustStore())
        #expect(second == nil)
    }

    @Test("R11: of the nodes that any host can announce, few are told of")
    func unknownPeers() throws {
        var reported = UnreachablePeers()
        let peers = try (1...100).map { try peer($0, "x") }
        let noticeCount = peers.count { reported.notice(about: $0, TrustStore()) != nil }
        #expect(noticeCount == UnreachablePeers.unknownCapacity)
    }
}
