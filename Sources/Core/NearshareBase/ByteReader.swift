/// Why bytes from outside were not understood. The text names the field, never its content.
package struct MalformedInput: Error, Hashable, CustomStringConvertible {
    /// What is wrong, in lower case: "offer: the name is longer than 255 bytes".
    package let description: String

    /// - Parameter description: what it was to be, and what is wrong with it.
    package init(_ description: String) {
        self.description = description
    }
}

/// Reads fixed-size big-endian fields strictly forward. Every shortage throws; nothing is allocated beyond what is there.
package struct ByteReader: ~Copyable {
    private let bytes: ArraySlice<UInt8>
    private var position: Int
    private let what: StaticString

    /// - Parameter what: the name of what is read, for errors.
    package init(_ bytes: ArraySlice<UInt8>, of what: StaticString) {
        self.bytes = bytes
        self.position = bytes.startIndex
        self.what = what
    }

    /// - Parameter what: named when something is wrong.
    package init(_ bytes: [UInt8], of what: StaticString) {
        self.init(bytes[...], of: what)
    }

    /// Bytes that have not been read.
    package var remaining: Int { bytes.endIndex - position }

    /// Exactly so many bytes.
    package mutating func readBytes(_ count: Int) throws(MalformedInput) -> ArraySlice<UInt8> {
        guard count >= 0, count <= remaining else { throw MalformedInput("\(what): cut short") }
        defer { position += count }
        return bytes[position..<position + count]
    }

    /// - Parameter T: of at most 64 bits.
    @inlinable
    package mutating func readInteger<T: FixedWidthInteger & UnsignedInteger>(_: T.Type = T.self) throws(MalformedInput) -> T {
        T(truncatingIfNeeded: try readBigEndian(T.bitWidth / 8))
    }

    /// Not generic: without being specialised in the caller's module, a field would cost as much as all else of its packet.
    @usableFromInline
    mutating func readBigEndian(_ count: Int) throws(MalformedInput) -> UInt64 {
        precondition(count <= 8)
        guard count <= remaining else { throw MalformedInput("\(what): cut short") }
        var value: UInt64 = 0
        for byte in bytes[position..<position + count] { value = value << 8 | UInt64(byte) }
        position += count
        return value
    }

    /// A length of `Length`'s width, then that many bytes.
    /// - Parameter limit: a longer field throws before it is read.
    @inlinable
    package mutating func readCounted<Length: FixedWidthInteger & UnsignedInteger>(
        by: Length.Type, upTo limit: Int, field: StaticString
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        try readCounted(lengthByteCount: Length.bitWidth / 8, upTo: limit, field: field)
    }

    @usableFromInline
    mutating func readCounted(
        lengthByteCount: Int, upTo limit: Int, field: StaticString
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        let count = Int(clamping: try readBigEndian(lengthByteCount))
        guard count <= limit else { throw MalformedInput("\(what): \(field) is longer than \(limit) bytes") }
        return try readBytes(count)
    }

    /// All that is left.
    package mutating func readRemaining() -> ArraySlice<UInt8> {
        defer { position = bytes.endIndex }
        return bytes[position...]
    }

    /// Throws when anything is left over.
    package consuming func finish() throws(MalformedInput) {
        guard remaining == 0 else { throw MalformedInput("\(what): \(remaining) bytes too many") }
    }
}

/// Appends fixed-size big-endian fields.
package struct ByteWriter {
    /// What has been written.
    package private(set) var bytes: [UInt8] = []

    /// - Parameter capacity: so many bytes are written without moving what is there.
    package init(reserving capacity: Int = 0) {
        bytes.reserveCapacity(capacity)
    }

    @inlinable
    package mutating func write(_ more: some Sequence<UInt8>) {
        if more.withContiguousStorageIfAvailable({ append($0) }) == nil {
            for byte in more { appendBigEndian(UInt64(byte), byteCount: 1) }
        }
    }

    /// - Parameter value: of at most 64 bits.
    @inlinable
    package mutating func write(_ value: some FixedWidthInteger & UnsignedInteger) {
        appendBigEndian(UInt64(truncatingIfNeeded: value), byteCount: value.bitWidth / 8)
    }

    @usableFromInline
    mutating func append(_ more: UnsafeBufferPointer<UInt8>) {
        bytes.append(contentsOf: more)
    }

    @usableFromInline
    mutating func appendBigEndian(_ value: UInt64, byteCount: Int) {
        precondition(byteCount <= 8)
        for index in (0..<byteCount).reversed() { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(8 * index))) }
    }

    /// A length of `Length`'s width, then the bytes. The caller has bounded them; more than `Length` can count is our bug.
    @inlinable
    package mutating func writeCounted<Length: FixedWidthInteger & UnsignedInteger>(
        _ more: some Collection<UInt8>, by: Length.Type
    ) {
        write(Length(more.count))
        write(more)
    }
}
