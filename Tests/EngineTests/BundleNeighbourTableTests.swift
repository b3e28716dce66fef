import NearshareBase
import NearshareBundles
import NearshareCrypto
import Testing

@testable import NearshareEngine
@testable import NearshareMesh

@Suite struct BundleNeighbourTableTests {
    private func neighbour(_ number: UInt8, signedBy signer: UInt8? = nil) -> BundleNeighbour {
        let identity = LocalIdentity(seed: [UInt8](repeating: number, count: 64))
        let signing = LocalIdentity(seed: [UInt8](repeating: signer ?? number, count: 64)).signingKey.publicKey
        return BundleNeighbour(
            id: identity.peerID, agreementKey: identity.agreementKey.publicKey, signingKey: signing, isRadio: false,
            isDirect: true)
    }

    @Test func `a signing key under a new agreement key is another neighbour once the old one has disappeared`() {
        var table = BundleNeighbourTable()
        let (old, new) = (neighbour(1), neighbour(2, signedBy: 1))
        let endpoint = EndpointID(of: old.signingKey)
        _ = table.replace(with: [old])
        // While both are present, the first keeps the endpoint, in whatever order they are listed.
        for both in [[old, new], [new, old]] {
            let (removed, added) = table.replace(with: both)
            #expect(removed.isEmpty && added.isEmpty && table.peer(endpoint) == old.id)
        }
        let (removed, added) = table.replace(with: [new])
        #expect(removed == [endpoint] && added.map(\.peer) == [new.id])
        #expect(table.peer(endpoint) == new.id && table.endpoint(of: new.id) == endpoint)
    }
}
