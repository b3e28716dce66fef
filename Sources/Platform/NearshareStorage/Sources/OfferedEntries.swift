internal import NearshareBase

/// The headers of all entries of a source when it was offered, by which a later pass recognises those that have changed. Compact:
/// an entry takes about 40 bytes.
struct OfferedEntries: Sendable {
    /// Limit on the bytes of all entries, about 200,000. Beyond it none is kept, and a transfer fails at the first entry that
    /// has changed.
    static let maximumByteCount = 8 << 20

    /// For each entry: item, kind, size, modified, permissions, depth, the last component of its path, and the target of a link.
    /// The other components are those of the folder before it.
    private var bytes: [UInt8] = []
    /// Whether all entries are kept; otherwise none is.
    private(set) var isComplete = true

    /// Appends the next entry in the order of the stream.
    mutating func append(_ header: EntryHeader) {
        guard isComplete, let name = header.path.last else { return }
        guard bytes.count < Self.maximumByteCount else {
            (bytes, isComplete) = ([], false)
            return
        }
        var writer = ByteWriter(reserving: 64)
        writer.write(header.item)
        let kind: UInt8 =
            switch header.kind {
            case .file: 0
            case .folder: 1
            case .link: 2
            }
        writer.write(kind)
        writer.write(header.size ?? 0)
        writer.write(UInt64(bitPattern: header.modified ?? .min))
        writer.write(header.permissions ?? .max)
        writer.write(UInt8(clamping: header.path.count))
        writer.writeCounted(name.bytes, by: UInt8.self)
        if case .link(let target) = header.kind { writer.writeCounted(target, by: UInt16.self) }
        bytes += writer.bytes
    }

    func makeIterator() -> Iterator { Iterator(bytes) }

    struct Iterator {
        private let bytes: [UInt8]
        private var position = 0
        private var path: [ClaimedFileName] = []

        fileprivate init(_ bytes: [UInt8]) { self.bytes = bytes }

        /// - Returns: nil after the last entry.
        mutating func next() -> EntryHeader? {
            guard position < bytes.count else { return nil }
            // `append` wrote the bytes, so decoding never fails.
            return try? decode()
        }

        private mutating func decode() throws(MalformedInput) -> EntryHeader? {
            var reader = ByteReader(bytes[position...], of: "offered entries")
            let item: UInt32 = try reader.readInteger()
            let kind: UInt8 = try reader.readInteger()
            let size: UInt64 = try reader.readInteger()
            let modified = Int64(bitPattern: try reader.readInteger())
            let permissions: UInt16 = try reader.readInteger()
            let depth: UInt8 = try reader.readInteger()
            guard let name = ClaimedFileName(bytes: try reader.readCounted(by: UInt8.self, upTo: 255, field: "name")) else {
                return nil
            }
            let target =
                kind == 2 ? Array(try reader.readCounted(by: UInt16.self, upTo: .max, field: "target")) : []
            position = bytes.count - reader.remaining
            path.removeLast(max(0, path.count - Int(depth) + 1))
            path.append(name)
            return EntryHeader(
                item: item, kind: kind == 0 ? .file : kind == 1 ? .folder : .link(target: target), path: path, size: size,
                modified: modified == .min ? nil : modified, permissions: permissions == .max ? nil : permissions)
        }
    }
}

extension EntryHeader {
    /// Whether an entry comes before another one in the stream.
    func precedes(_ other: EntryHeader) -> Bool {
        guard item == other.item else { return item < other.item }
        return path.lexicographicallyPrecedes(other.path) { $0.bytes.lexicographicallyPrecedes($1.bytes) }
    }

    /// Whether this is the same entry as an offered one, and has content of its size.
    func matches(_ offered: EntryHeader) -> Bool {
        guard item == offered.item, path == offered.path, size == offered.size else { return false }
        return switch (kind, offered.kind) {
        case (.file, .file), (.folder, .folder), (.link, .link): true
        default: false
        }
    }
}
