/// The machine at the other end of a link, as far as it is known. Limits count what it sends over all its links together.
package enum MeshLinkSource: Sendable, Hashable {
    /// An address on the network.
    case address(String)
    /// A machine without a known address: its only link.
    case link(MeshLinkID)
}
