/// The part of an offer that a receiver has kept from an interrupted transfer, in a form that the sender can compare with its
/// source.
package struct ResumePoint: Sendable, Hashable {
    /// The first byte: nothing was kept.
    package static let start = ResumePoint(completeEntries: 0, entriesDigest: [], partialSize: 0, partialDigest: [])

    /// The number of complete entries, from the first in stream order.
    package var completeEntries: UInt64
    /// SHA-256 chained over the headers of these entries (`docs/PROTOCOL.md`, "Resuming"); empty when there are none.
    package var entriesDigest: [UInt8]
    /// The bytes kept of the next entry's content.
    package var partialSize: UInt64
    /// SHA-256 of these bytes; empty when there are none.
    package var partialDigest: [UInt8]

    // Known to the receiver alone, not on the wire: what the sender says about them is compared with these.

    /// The bytes of content in the complete entries.
    package var completeByteCount: UInt64 = 0
    /// The item that was received last; nil when nothing was kept.
    package var lastItem: UInt32?

    /// Describes what was kept. The digests are not checked.
    package init(completeEntries: UInt64, entriesDigest: [UInt8], partialSize: UInt64, partialDigest: [UInt8]) {
        self.completeEntries = completeEntries
        self.entriesDigest = entriesDigest
        self.partialSize = partialSize
        self.partialDigest = partialDigest
    }
}
