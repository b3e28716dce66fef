/// The marks between the parts of a transfer's content stream (`docs/PROTOCOL.md`, section 6).
///
///     start · { entry · content } · end
///
/// The content of an entry of known size is that many bytes and nothing around them; of unknown size, it is pieces with a
/// 4-byte length each, the last one empty.
package enum ContentStreamFormat {
    /// Complete entries u64, content bytes in these u64, offset in the next entry u64: where the stream goes on.
    package static let start: UInt8 = 0x01
    /// Length u16, then an encoded ``EntryHeader``.
    package static let entry: UInt8 = 0x02
    /// Entries u64, SHA-256 chained over their headers: the whole is complete.
    package static let end: UInt8 = 0x03

    /// The mark at the start, and its three counts.
    package static let startByteCount = 1 + 8 + 8 + 8
    /// The mark before an entry, and its header's length.
    package static let entryPrefixByteCount = 1 + 2
    /// The mark at the end, the count of entries, and their digest.
    package static let endByteCount = 1 + 8 + 32
    /// In front of a piece of a file without a size.
    package static let pieceLengthByteCount = 4
}
