import NearshareBase
import NearshareCrypto
import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite struct MeshRoutingTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let own = PeerID(fitting: [1])

    private func link(_ number: UInt64) -> MeshLinkID { MeshLinkID(rawValue: number) }

    /// Three links, the first two to the same neighbour.
    private func routing(authenticated: UInt64?, proven: [UInt64]? = [0, 1]) throws -> (MeshRouting, neighbour: PeerID) {
        var random = SeededRandom(seed: 5)
        let identity = LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
        var links = LinkTable()
        for (number, profile) in [MeshLinkProfile.radio, .stream, .radio].enumerated() {
            links.open(link(UInt64(number)), profile: profile, MeshRouter.Settings(), now: now)
        }
        var peers = PeerTable()
        peers.insert(identity.peerID, publicMessageLimiter: TokenBucket(capacity: 1, perSecond: 1, now: now), now: now)
        peers.pin(identity.signingKey.publicKey, for: identity.peerID, now: now)
        for number in [0, 1] as [UInt64] { _ = peers.recordClaim(of: identity.peerID, on: link(number)) }
        if let proven { for number in proven { _ = peers.prove(identity.peerID, on: link(number)) } }
        if let authenticated { peers.recordAuthenticated(identity.peerID, over: link(authenticated), now: now) }
        return (MeshRouting(own: own, peers: peers, links: links), identity.peerID)
    }

    private func packet(to recipient: PeerID?, from sender: PeerID? = nil) -> MeshPacket {
        MeshPacket(type: .noiseEncrypted, timestamp: 1, sender: sender ?? own, recipient: recipient, payload: [])
    }

    @Test func `no link is left out before one is authenticated`() throws {
        let (claimed, neighbour) = try routing(authenticated: nil)
        #expect(claimed.links(for: packet(to: nil)) == [link(0), link(1), link(2)])
        #expect(claimed.links(for: packet(to: neighbour)) == [link(0), link(1)])
        // An announcement alone attracts nothing (M8).
        let (announced, _) = try routing(authenticated: nil, proven: nil)
        #expect(announced.links(for: packet(to: neighbour)) == [link(0), link(1), link(2)])
        let (proven, _) = try routing(authenticated: 1)
        #expect(proven.links(for: packet(to: nil)) == [link(1), link(2)])
        #expect(proven.links(for: packet(to: neighbour)) == [link(1)])
        #expect(proven.links(for: .peer(neighbour)) == [link(1)])
    }

    @Test func `a packet does not return to the neighbour that it came from`() throws {
        let (routing, _) = try routing(authenticated: 1)
        let other = PeerID(fitting: [7])
        #expect(routing.links(for: packet(to: nil, from: other), excluding: link(1)) == [link(2)])
        #expect(routing.links(for: packet(to: nil, from: other), excluding: link(2)) == [link(1)])
    }

    @Test("M5: a route with a repeated hop is not followed") func circularRoute() throws {
        let (routing, neighbour) = try routing(authenticated: nil)
        var circular = packet(to: PeerID(fitting: [9]))
        circular.version = .v2
        circular.route = [own, neighbour, own]
        #expect(routing.links(for: circular).isEmpty)
        circular.route = [own, neighbour]
        #expect(routing.links(for: circular) == [link(0), link(1)])
    }

    @Test func `fragments for an unknown peer are sent on all links`() throws {
        let (routing, _) = try routing(authenticated: 1)
        #expect(routing.links(for: .peer(PeerID(fitting: [9]))) == [link(1), link(2)])
        #expect(routing.links(for: .link(link(2))) == [link(2)] && routing.links(for: .link(link(8))).isEmpty)
    }
}
