/// Appends big-endian fields of fixed size.
@usableFromInline package struct ByteWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []

    /// - Parameter capacity: Bytes to reserve, so that writing that many reallocates nothing.
    package init(reserving capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    /// Appends bytes as they are.
    @inlinable
    package mutating func write(_ more: some Sequence<UInt8>) {
        if more.withContiguousStorageIfAvailable({ append(UnsafeRawBufferPointer($0)) }) == nil {
            for byte in more { write(byte) }
        }
    }

    /// Appends an integer in big-endian order.
    @inlinable
    package mutating func write(_ value: some FixedWidthInteger & UnsignedInteger) {
        withUnsafeBytes(of: value.bigEndian) { append($0) }
    }

    @usableFromInline
    mutating func append(_ more: UnsafeRawBufferPointer) {
        bytes.append(contentsOf: more)
    }

    /// Appends the number of bytes in `Length`'s width, then the bytes.
    /// - Precondition: `Length` can represent the count; the caller has bounded it.
    @inlinable
    package mutating func writeCounted<Length: FixedWidthInteger & UnsignedInteger>(
        _ more: some Collection<UInt8>, by: Length.Type
    ) {
        write(Length(more.count))
        write(more)
    }
}
