internal import NearshareInterfaces

/// The stored names of complete entries in their order, so that incomplete ones can be found and removed after an interruption.
/// Appended in large blocks; read only when a transfer is resumed. A folder is recorded when it is created, a file when it is
/// complete.
///
///     record:  depth u8 · length u8 · name        depth 0: directly in the item's directory; 255: start of another item
struct CompletedNames {
    static let fileName = "names"
    private static let itemMark: UInt8 = 255
    private static let flushByteCount = 64 << 10

    private let file: FileDescriptor
    private var pending: [UInt8] = []
    /// Written and pending bytes.
    private(set) var byteCount: UInt64

    /// - Parameter byteCount: the size that the file is truncated to.
    init(in directory: FileDescriptor, keeping byteCount: UInt64) throws(StorageError) {
        if let fresh = try directory.createFile(Self.fileName) {
            file = fresh
        } else {
            file = try directory.openForWriting(Self.fileName)
        }
        guard UInt64(try file.status().st_size) >= byteCount else {
            throw StorageError(.failed, "the list of received names is truncated")
        }
        try file.truncate(to: byteCount)
        try file.seek(to: byteCount)
        self.byteCount = byteCount
    }

    mutating func appendItem() throws(StorageError) {
        try append([Self.itemMark, 0])
    }

    mutating func append(_ name: String, depth: Int) throws(StorageError) {
        guard let depth = UInt8(exactly: depth), depth < Self.itemMark, let length = UInt8(exactly: name.utf8.count) else {
            throw StorageError(.rejected, "a name or a path is too long")
        }
        try append([depth, length])
        try append(name.utf8)
    }

    private mutating func append(_ bytes: some Collection<UInt8>) throws(StorageError) {
        pending.append(contentsOf: bytes)
        byteCount += UInt64(bytes.count)
        if pending.count >= Self.flushByteCount { try flush() }
    }

    mutating func flush() throws(StorageError) {
        guard !pending.isEmpty else { return }
        try file.write(pending)
        pending.removeAll(keepingCapacity: true)
    }

    /// The complete names in each folder that was open when the list ended, from the last item's directory down.
    mutating func namesInOpenFolders() throws(StorageError) -> [Set<[UInt8]>] {
        try flush()
        try file.seek(to: 0)
        // Bytes, because two names that strings compare as equal are two files.
        var levels: [Set<[UInt8]>] = []
        var unparsed: [UInt8] = []
        while true {
            let block = try file.read(upTo: Self.flushByteCount)
            if block.isEmpty { break }
            unparsed += block
            var rest = unparsed[...]
            while rest.count >= 2, let depth = rest.first, rest.count >= 2 + Int(rest[rest.startIndex + 1]) {
                let name = rest.dropFirst(2).prefix(Int(rest[rest.startIndex + 1]))
                rest = rest[name.endIndex...]
                if depth == Self.itemMark {
                    levels = []
                    continue
                }
                guard Int(depth) <= levels.count else { throw StorageError(.failed, "the list of received names is damaged") }
                if levels.count > Int(depth) + 1 { levels.removeLast(levels.count - Int(depth) - 1) }
                if levels.count == Int(depth) { levels.append([]) }
                levels[Int(depth)].insert(Array(name))
            }
            unparsed = Array(rest)
        }
        guard unparsed.isEmpty else { throw StorageError(.failed, "the list of received names is truncated") }
        try file.seek(to: byteCount)
        return levels
    }
}
