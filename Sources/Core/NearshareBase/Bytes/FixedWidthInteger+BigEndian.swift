extension FixedWidthInteger {
    /// Decodes an integer from its big-endian bytes.
    /// - Returns: nil when the number of bytes is not the integer's size.
    @inlinable
    package init?(bigEndianBytes bytes: some Collection<UInt8>) {
        guard bytes.count == MemoryLayout<Self>.size else { return nil }
        self =
            bytes.withContiguousStorageIfAvailable {
                Self(bigEndian: UnsafeRawBufferPointer($0).loadUnaligned(as: Self.self))
            } ?? Self(truncatingBigEndian: bytes)
    }

    /// The value of any number of bytes, most significant first; of more than fit, the last ones count.
    @inlinable
    package init(truncatingBigEndian bytes: some Sequence<UInt8>) {
        self = bytes.reduce(0) { $0 << 8 | Self(truncatingIfNeeded: $1) }
    }

    /// The integer's bytes, most significant first.
    @inlinable
    package var bigEndianBytes: [UInt8] { withUnsafeBytes(of: bigEndian) { Array($0) } }
}
