/// The framing of a transfer's content stream (`docs/PROTOCOL.md`, section 6).
///
///     start · { entry · content } · end
///
/// The content of an entry of known size is that many bytes. Content of unknown size is chunked: each chunk has a length of 4
/// bytes, and an empty chunk ends the content.
package enum ContentStreamFormat {
    /// Start mark. Complete entries u64, content bytes in these u64, offset in the next entry u64.
    package static let start: UInt8 = 0x01
    /// Entry mark. Length u16, then an encoded ``EntryHeader``.
    package static let entry: UInt8 = 0x02
    /// End mark. Entries u64, SHA-256 chained over their headers.
    package static let end: UInt8 = 0x03

    /// The size of the start mark with its three counts.
    package static let startByteCount = 1 + 8 + 8 + 8
    /// The size of an entry mark with the length of its header.
    package static let entryPrefixByteCount = 1 + 2
    /// The size of the end mark with the number of entries and their digest.
    package static let endByteCount = 1 + 8 + 32
    /// The size of a chunk's length.
    package static let chunkLengthByteCount = 4
}
