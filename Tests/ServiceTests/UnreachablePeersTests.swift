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
            frameAddresses: [address])
    }

    @Test func `each is told of once`() throws {
        var reported = UnreachablePeers()
        let ben = try peer(1, "ben")
        let notice = try #require(reported.notice(about: ben, TrustStore()))
        #expect(notice.hasPrefix("\"ben\" is announced at 10.0.0.1:29742, but does not answer there"))
        #expect(reported.notice(about: ben, TrustStore()) == nil)
    }

    @Test("R11: of the nodes that any host can announce, few are told of")
    func unknownPeers() throws {
        var reported = UnreachablePeers()
        let notices = try (1...100).compactMap { reported.notice(about: try peer($0, "x"), TrustStore()) }
        #expect(notices.count == UnreachablePeers.unknownCapacity)
    }
}
