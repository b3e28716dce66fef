/// The id of a link to a neighbour, within one node.
package struct MeshLinkID: Sendable, Hashable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }
}
