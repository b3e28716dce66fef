package import NearshareBase
package import NearshareCrypto

/// A peer with which packets of the bundle protocol can be exchanged.
package struct BundleNeighbour: Sendable, Hashable {
    package var id: PeerID
    /// The announced and pinned keys.
    package var agreementKey: AgreementPublicKey
    package var signingKey: SigningPublicKey
    /// Whether all its links are Bluetooth links.
    package var isRadio: Bool
    /// Whether it is at the other end of a link, rather than behind phones.
    package var isDirect: Bool
    /// The machine at the other end of the link by which it is reached: its own, or a phone's.
    package var source: MeshLinkSource?
}
