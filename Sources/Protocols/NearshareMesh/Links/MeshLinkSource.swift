/// The host at the other end of a link, as far as it is known. Limits count what it sends over all its links together.
package enum MeshLinkSource: Sendable, Hashable {
    /// An address on the network.
    case address(String)
    /// A host without a known address: its only link.
    case link(MeshLinkID)
}

/// The part of a source's rates that one link at a time has to itself. Of the same source, a link that is opened later may have the
/// share of one that was closed.
package struct MeshLinkShare: Sendable, Hashable {
    package let source: MeshLinkSource
    /// nil for the links of a source that has no more shares, all together.
    let number: Int?
}
