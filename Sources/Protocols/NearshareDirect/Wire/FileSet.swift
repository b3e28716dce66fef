internal import NearshareBase

/// A set of listed files: one bit for each (`docs/PROTOCOL.md`, section 5).
///
///     count u32 · bits, the highest bit of a byte first
package struct FileSet: Sendable, Hashable {
    /// Limit on the files of a list: their headers' digests take 4 MiB at each end.
    package static let maximumCount = 1 << 17

    /// The listed files, in the set or not.
    package private(set) var count = 0
    private var bytes: [UInt8] = []

    /// No listed file.
    package init() {}

    package func contains(_ index: Int) -> Bool {
        index >= 0 && index < count && bytes[index / 8] & Self.bit(index) != 0
    }

    /// The files in the set.
    package var memberCount: Int { bytes.reduce(0) { $0 + $1.nonzeroBitCount } }

    /// Adds the next listed file, which is a member or not.
    package mutating func append(_ isMember: Bool) {
        if count % 8 == 0 { bytes.append(0) }
        if isMember { bytes[count / 8] |= Self.bit(count) }
        count += 1
    }

    /// Adds a listed file to the set.
    package mutating func insert(_ index: Int) {
        if index >= 0, index < count { bytes[index / 8] |= Self.bit(index) }
    }

    /// Removes a listed file from the set.
    package mutating func remove(_ index: Int) {
        if contains(index) { bytes[index / 8] &= ~Self.bit(index) }
    }

    /// Whether no file is in both sets.
    package func isDisjoint(with other: FileSet) -> Bool { !zip(bytes, other.bytes).contains { $0 & $1 != 0 } }

    /// Whether each file of this set is in the other one.
    package func isSubset(of other: FileSet) -> Bool {
        count == other.count && !zip(bytes, other.bytes).contains { $0 & ~$1 != 0 }
    }

    private static func bit(_ index: Int) -> UInt8 { 0x80 >> UInt8(index % 8) }

    // MARK: Wire

    func write(to writer: inout ByteWriter) {
        writer.write(UInt32(count))
        writer.write(bytes)
    }

    init(from reader: inout ByteReader) throws(MalformedInput) {
        let stated: UInt32 = try reader.readInteger()
        guard stated <= Self.maximumCount else { throw MalformedInput("file set: too many files") }
        count = Int(stated)
        bytes = Array(try reader.readBytes((count + 7) / 8))
        guard count % 8 == 0 || bytes.last.map({ $0 & (0xff >> UInt8(count % 8)) == 0 }) ?? true else {
            throw MalformedInput("file set: bits of files that are not listed")
        }
    }
}
