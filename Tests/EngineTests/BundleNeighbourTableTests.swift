import NearshareBase
import NearshareBundles
import NearshareCrypto
import Testing

@testable import NearshareEngine
@testable import NearshareMesh

@Suite struct BundleNeighbourTableTests {
    private func neighbour(
        _ number: UInt8, signedBy signer: UInt8? = nil, isRadio: Bool = false, isDirect: Bool = true,
        source: MeshLinkSource? = nil
    ) -> BundleNeighbour {
        let identity = LocalIdentity(seed: [UInt8](repeating: number, count: 64))
        let signing = LocalIdentity(seed: [UInt8](repeating: signer ?? number, count: 64)).signingKey.publicKey
        return BundleNeighbour(
            id: identity.peerID, agreementKey: identity.agreementKey.publicKey, signingKey: signing, isRadio: isRadio,
            isDirect: isDirect, source: source)
    }

    @Test func `a signing key under a new agreement key is another neighbour once the old one has disappeared`() {
        var table = BundleNeighbourTable()
        let (old, new) = (neighbour(1), neighbour(2, signedBy: 1))
        let endpoint = EndpointID(of: old.signingKey)
        _ = table.replace(with: [old])
        // While both are present, the first keeps the endpoint, in whatever order they are listed.
        for both in [[old, new], [new, old]] {
            let changes = table.replace(with: both)
            #expect(changes == BundleNeighbourTable.Changes() && table.peer(endpoint) == old.id)
        }
        let changes = table.replace(with: [new])
        #expect(changes.removed == [endpoint] && changes.added.mapValues(\.peer) == [endpoint: new.id])
        #expect(table.peer(endpoint) == new.id && table.endpoint(of: new.id) == endpoint)
    }

    @Test func `a neighbour that is reached by another kind of link stays the same neighbour`() {
        var table = BundleNeighbourTable()
        let endpoint = EndpointID(of: neighbour(1).signingKey)
        let (stream, radio) = (
            BundleLink(isRadio: false), BundleLink(isRadio: true)
        )
        let added = table.replace(with: [neighbour(1, isRadio: true)]).added
        #expect(added.mapValues(\.link) == [endpoint: radio])
        let steps = [(isRadio: false, isDirect: true, stream), (false, false, radio), (true, true, nil), (false, true, stream)]
        for (isRadio, isDirect, link) in steps {
            let changes = table.replace(with: [neighbour(1, isRadio: isRadio, isDirect: isDirect)])
            #expect(changes.removed.isEmpty && changes.added.isEmpty)
            #expect(changes.relinked == (link.map { [endpoint: $0] } ?? [:]))
        }
    }

    @Test func `a neighbour on another link to the same machine has the same host, and on another machine another one`() {
        var table = BundleNeighbourTable()
        let endpoint = EndpointID(of: neighbour(1).signingKey)
        let (here, there) = (MeshLinkSource.address("10.0.0.1"), MeshLinkSource.address("10.0.0.2"))
        let added = table.replace(with: [neighbour(1, source: here), neighbour(2, source: here)]).added
        #expect(added.count == 2 && Set(added.values.map(\.link.host)) == [BundleHost(address: "10.0.0.1")])
        let unchanged = table.replace(with: [neighbour(1, source: here), neighbour(2, source: here)])
        #expect(unchanged == BundleNeighbourTable.Changes())
        let changes = table.replace(with: [neighbour(1, source: there), neighbour(2, source: here)])
        #expect(changes.removed.isEmpty && changes.added.isEmpty)
        #expect(changes.relinked == [endpoint: BundleLink(isRadio: false, host: BundleHost(address: "10.0.0.2"))])
    }
}
