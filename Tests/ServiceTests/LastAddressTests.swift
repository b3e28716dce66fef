import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("the address at which a peer was last reached")
struct LastAddressTests {
    private static let last = LinkAddress(host: "10.0.0.9", port: 4000)
    private static let other = LinkAddress(host: "10.0.0.8", port: 4000)
    private static let third = LinkAddress(host: "10.0.0.7", port: 4000)

    private let stage = ServiceStage()

    /// Records that `user` has reached a peer at ``last``.
    private func reach(_ peer: StageUser, by user: StageUser) throws {
        let entry = RecentPeers.Entry(id: peer.id, name: peer.name, lastSeen: WallTime(milliseconds: 1))
        try RecentPeers.record([entry], in: user.machine.state)
        try RecentPeers.recordAddress(Self.last, of: peer.id, in: user.machine.state)
    }

    @Test("D1: the last address is tried first where it is announced, and after the first announced one otherwise")
    func inserted() throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try reach(bea, by: ada)
        let lastAddress = LastAddress(on: ada.machine)
        func addresses(
            _ announced: [LinkAddress], of id: PeerID? = nil, isLocalSend: Bool = false,
            on media: Set<LinkAddress.Medium> = [.network, .bluetooth]
        ) -> [LinkAddress] {
            var destination = PeerDestination(addresses: announced, id: id ?? bea.id, name: bea.name)
            destination.isLocalSend = isLocalSend
            return lastAddress.inserted(into: destination, on: media).addresses
        }
        #expect(addresses([Self.other, Self.third]) == [Self.other, Self.last, Self.third])
        #expect(addresses([Self.other, Self.last]) == [Self.last, Self.other])
        #expect(addresses([Self.last]) == [Self.last])
        #expect(addresses([]) == [Self.last])
        // Not for another peer, on another medium, or for a LocalSend device.
        #expect(addresses([Self.other], of: ada.id) == [Self.other])
        #expect(addresses([Self.other], on: [.bluetooth]) == [Self.other])
        #expect(addresses([Self.other], isLocalSend: true) == [Self.other])
    }

    @Test("K2: without an announcement, a last address is used for a known key only, by its id or by a name of one peer")
    func destination() throws {
        let (ada, bea, cleo) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        let lastAddress = LastAddress(on: ada.machine)
        #expect(lastAddress.destination(of: bea.id.hex, knownAs: []) == nil)
        try reach(bea, by: ada)
        #expect(lastAddress.destination(of: bea.id.hex, knownAs: []) == nil)
        try ada.meet([bea, cleo])
        let searches: [(String, Set<PeerID>)] = [(bea.id.hex, Set()), ("bea", Set([bea.id]))]
        for (text, ids) in searches {
            let found = try #require(lastAddress.destination(of: text, knownAs: ids))
            #expect(found.addresses == [Self.last] && found.id == bea.id && found.fingerprint == bea.fingerprint)
        }
        #expect(lastAddress.destination(of: "bea", knownAs: []) == nil)
        #expect(lastAddress.destination(of: "bea", knownAs: [bea.id, cleo.id]) == nil)
        #expect(lastAddress.destination(of: "cleo", knownAs: [cleo.id]) == nil)
    }
}
