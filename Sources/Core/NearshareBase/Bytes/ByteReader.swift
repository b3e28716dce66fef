/// Reads big-endian fields of fixed size strictly forward. Every shortage throws; a length field never allocates more than
/// the input holds.
@usableFromInline package struct ByteReader: ~Copyable {
    @usableFromInline let bytes: ArraySlice<UInt8>
    @usableFromInline var position: Int
    @usableFromInline let inputName: StaticString

    /// - Parameter inputName: The name of the input, for errors.
    @inlinable
    package init(_ bytes: ArraySlice<UInt8>, of inputName: StaticString) {
        self.bytes = bytes
        self.position = bytes.startIndex
        self.inputName = inputName
    }

    /// - Parameter inputName: The name of the input, for errors.
    @inlinable
    package init(_ bytes: [UInt8], of inputName: StaticString) {
        self.init(bytes[...], of: inputName)
    }

    /// The number of bytes that have not been read.
    @inlinable
    package var remaining: Int { bytes.endIndex - position }

    /// Reads exactly `count` bytes.
    @inlinable
    package mutating func readBytes(_ count: Int) throws(MalformedInput) -> ArraySlice<UInt8> {
        guard count >= 0, count <= remaining else { throw truncated() }
        defer { position += count }
        return bytes[position..<position + count]
    }

    /// Reads a big-endian integer.
    @inlinable
    package mutating func readInteger<T: FixedWidthInteger & UnsignedInteger>(_: T.Type = T.self) throws(MalformedInput) -> T {
        let count = MemoryLayout<T>.size
        guard count <= bytes.endIndex - position else { throw truncated() }
        defer { position += count }
        let offset = position - bytes.startIndex
        return T(bigEndian: bytes.withUnsafeBytes { $0.loadUnaligned(fromByteOffset: offset, as: T.self) })
    }

    @usableFromInline
    func truncated() -> MalformedInput { MalformedInput("\(inputName): truncated") }

    /// Reads a length of `Length`'s width, then that many bytes.
    /// - Parameters:
    ///   - limit: A longer field throws before it is read.
    ///   - field: The field's name, for errors.
    @inlinable
    package mutating func readCounted<Length: FixedWidthInteger & UnsignedInteger>(
        by: Length.Type, upTo limit: Int, field: StaticString
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        try readField(ofByteCount: Int(clamping: try readInteger(Length.self)), upTo: limit, field: field)
    }

    @usableFromInline
    mutating func readField(
        ofByteCount count: Int, upTo limit: Int, field: StaticString
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        guard count <= limit else { throw MalformedInput("\(inputName): \(field) is longer than \(limit) bytes") }
        return try readBytes(count)
    }

    /// Reads all remaining bytes.
    package mutating func readRemaining() -> ArraySlice<UInt8> {
        defer { position = bytes.endIndex }
        return bytes[position...]
    }

    /// Throws when bytes are left over.
    package consuming func finish() throws(MalformedInput) {
        guard remaining == 0 else { throw MalformedInput("\(inputName): \(remaining) bytes too many") }
    }
}
