internal import NearshareBase

/// A received item that waits in the spool until the inbox accepts it.
package struct PendingItem: Sendable, Hashable {
    package let path: String
    /// Size of its content.
    package let byteCount: UInt64
    /// The free space of the inbox, where the item does not fit into it; nil where it fits, and where the inbox cannot be used.
    package let insufficientSpace: UInt64?

    /// The last component of the path.
    package var name: String { path.pathComponents.last ?? path }
}
