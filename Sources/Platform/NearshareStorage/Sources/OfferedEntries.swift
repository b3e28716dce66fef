internal import NearshareBase

/// The headers of all entries of a source when it was offered, by which a later pass recognises those that have changed. Compact:
/// an entry takes about 40 bytes.
struct OfferedEntries: Sendable {
    /// Limit on the bytes of all entries, about 200,000. Beyond it none is kept, and a transfer fails at the first entry that
    /// has changed.
    static let maximumByteCount = 8 << 20

    /// Limit on sampled files. Each costs a system call or two, and up to 137 bytes.
    private static let maximumSampleCount = 1_000

    /// For each entry: item, kind, size, modified, permissions, depth, the last component of its path, and the target of a link, or
    /// the sample of a file. The other components of its path are those of the folder before it.
    private var bytes: [UInt8] = []
    /// Whether all entries are kept; otherwise none is.
    private(set) var isComplete = true
    private var sampleCount = 0

    /// Whether files are still sampled, so that one that grows can be told from one that is rewritten.
    var takesSamples: Bool { isComplete && sampleCount < Self.maximumSampleCount }

    /// Appends the next entry in the order of the stream.
    /// - Parameter file: the file that is sampled; nil for none.
    mutating func append(_ header: EntryHeader, file: FileDescriptor? = nil) {
        guard isComplete, let name = header.path.last else { return }
        var sample: FileSample?
        if takesSamples, header.kind == .file, let file, let size = header.size {
            sample = FileSample(of: file, size: size)
            sampleCount += 1
        }
        guard bytes.count < Self.maximumByteCount else {
            (bytes, isComplete) = ([], false)
            return
        }
        var writer = ByteWriter(reserving: 64)
        writer.write(header.item)
        let kind: UInt8 =
            switch header.kind {
            case .file: sample == nil ? 0 : 3
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
        if let sample {
            writer.write(sample.inode)
            writer.writeCounted(sample.bytes, by: UInt8.self)
        }
        bytes += writer.bytes
    }

    func makeIterator() -> Iterator { Iterator(bytes) }

    struct Iterator {
        private let bytes: [UInt8]
        private var position = 0
        private var path: [ClaimedFileName] = []
        /// The sample of the last entry; nil for none.
        private(set) var sample: FileSample?

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
            sample = nil
            if kind == 3 {
                let inode: UInt64 = try reader.readInteger()
                let ends = Array(try reader.readCounted(by: UInt8.self, upTo: 255, field: "sample"))
                sample = FileSample(inode: inode, bytes: ends)
            }
            position = bytes.count - reader.remaining
            path.removeLast(max(0, path.count - Int(depth) + 1))
            path.append(name)
            return EntryHeader(
                item: item, kind: kind == 1 ? .folder : kind == 2 ? .link(target: target) : .file, path: path, size: size,
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

    /// Whether this is a file that has only grown since it was offered (A10).
    /// - Parameter sample: of the offered file; nil where that is not known.
    func hasGrown(since offered: EntryHeader, _ sample: FileSample?, _ file: FileDescriptor?) -> Bool {
        guard item == offered.item, path == offered.path, kind == .file, offered.kind == .file, let sample, let file,
            let size = offered.size, self.size ?? 0 > size
        else { return false }
        return FileSample(of: file, size: size) == sample
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
