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

    // Before the start mark, and entries without content (section 6.1).

    /// Mark of a listed file. Number u64, length u16, then an encoded ``EntryHeader``.
    package static let listed: UInt8 = 0x04
    /// Mark of the end of the list.
    package static let listEnd: UInt8 = 0x05
    /// Mark of a candidate's digest, ``FileDigest``.
    package static let fileDigest: UInt8 = 0x06
    /// Mark of an entry whose content is present. Length u16, then an encoded ``EntryHeader``.
    package static let presentEntry: UInt8 = 0x07

    // Entries that the sender can withdraw (section 6.3).

    /// Mark of an entry that is withdrawn. Length u16, then an encoded ``EntryHeader``.
    package static let withdrawnEntry: UInt8 = 0x08
    /// Mark of a file of known size whose content follows in chunks. Length u16, then an encoded ``EntryHeader``.
    package static let chunkedEntry: UInt8 = 0x09

    /// The size of the start mark with its three counts.
    package static let startByteCount = 1 + 8 + 8 + 8
    /// The size of an entry mark with the length of its header.
    package static let entryPrefixByteCount = 1 + 2
    /// The size of the end mark with the number of entries and their digest.
    package static let endByteCount = 1 + 8 + 32
    /// The size of a listed file's mark with the length of its header.
    package static let listedPrefixByteCount = 1 + 8 + 2
    /// The size of a digest with its mark.
    package static let fileDigestByteCount = 1 + 32
    /// The size of a chunk's length.
    package static let chunkLengthByteCount = 4
}
