/// The sizes of the record layer (`docs/PROTOCOL.md`, section 4): a length prefix, then that many sealed bytes, which are a
/// frame and its tag. The length is authenticated with the record.
package enum RecordFormat {
    /// The size of the length prefix.
    package static let headerByteCount = 4
    /// The size of the tag of every record cipher.
    package static let tagByteCount = 16
    /// Limit on the content in one frame. Larger records are hardly faster; half of it costs a tenth more processor time.
    package static let maximumContentByteCount = 131_072
    /// The size of a content frame's header: type and transfer id.
    package static let contentHeaderByteCount = 9
    /// Limit on a frame.
    package static let maximumFrameByteCount = contentHeaderByteCount + maximumContentByteCount
    /// Limit on the sealed bytes of a record.
    package static let maximumSealedByteCount = maximumFrameByteCount + tagByteCount
    /// Limit on a record with its length prefix.
    package static let maximumRecordByteCount = headerByteCount + maximumSealedByteCount
    /// The number of records after which both sides ratchet the direction's key. It bounds the data under one key to 128 GiB,
    /// far below the limits of AES-GCM.
    package static let recordsPerKey: UInt64 = 1 << 20
}
