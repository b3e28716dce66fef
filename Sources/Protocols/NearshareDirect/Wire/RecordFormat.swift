/// Sizes of the record layer (`docs/PROTOCOL.md`, section 4): a 4-byte length, then that many sealed bytes, which are a frame
/// and its 16-byte tag. The length is authenticated with the record.
package enum RecordFormat {
    /// Of the length in front.
    package static let headerByteCount = 4
    /// Of both ciphers.
    package static let tagByteCount = 16
    /// Content in one frame at the most. More per record is hardly faster; less costs a tenth of the processor's time.
    package static let maximumContentByteCount = 131_072
    /// A content frame's own header: its type and the transfer's id.
    package static let contentHeaderByteCount = 9
    /// Content and its header.
    package static let maximumFrameByteCount = contentHeaderByteCount + maximumContentByteCount
    /// A frame and its tag.
    package static let maximumSealedByteCount = maximumFrameByteCount + tagByteCount
    /// With the length in front.
    package static let maximumRecordByteCount = headerByteCount + maximumSealedByteCount
    /// After so many records both sides replace the direction's key by one derived from it. At most 128 GiB stand under one
    /// key, far below what AES-GCM bears.
    package static let recordsPerKey: UInt64 = 1 << 20
}
