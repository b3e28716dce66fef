internal import FoundationEssentials
internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// What is known of a transfer that is being written aside, as it stands in the file `journal` beside it: enough to go on
/// after a restart. It is written seldom, and may lag behind what is there, never run ahead of it.
///
/// A loss of power may keep the journal and lose the content that it speaks of. So one written since the machine started
/// counts only until it is started again, and now and then, after a sync, a durable one is written beside it.
struct TransferCheckpoint: Codable, Sendable {
    /// A folder that further entries may still go into.
    struct OpenFolder: Codable, Sendable, Hashable {
        var claimed: [UInt8]
        var stored: String
        var modified: Int64?
        var permissions: UInt16?
    }

    /// The file under way; its length on the disk tells how much of it is there.
    struct OpenFile: Codable, Sendable, Hashable {
        var claimed: [UInt8]
        var stored: String
        var size: UInt64?
    }

    var completeEntries: UInt64 = 0
    /// Bytes of content in them.
    var completeBytes: UInt64 = 0
    var entriesDigest: [UInt8] = []
    /// The item that the folders and the file belong to.
    var item: UInt32 = 0
    var folders: [OpenFolder] = []
    var file: OpenFile?
    /// How much of ``CompletedNames`` speaks of complete entries.
    var namesByteCount: UInt64 = 0
    /// Which run of the machine wrote it; nil when it was made durable.
    var bootID: String?

    static let fileName = "journal"
    static let durableFileName = "journal.safe"
    static let fileNames = [fileName, durableFileName, CompletedNames.fileName]
    private static let maximumByteCount = 4 << 20

    /// The latest that can be believed.
    static func read(in directory: FileDescriptor, bootID: String) -> TransferCheckpoint? {
        if let latest = read(fileName, in: directory), latest.bootID == nil || latest.bootID == bootID { return latest }
        guard let durable = read(durableFileName, in: directory), durable.bootID == nil else {
            // Content under way is compared byte by byte before it is gone on with, so it needs no belief.
            guard let latest = read(fileName, in: directory), latest.completeEntries == 0 else { return nil }
            return latest
        }
        return durable
    }

    private static func read(_ name: String, in directory: FileDescriptor) -> TransferCheckpoint? {
        guard let file = try? directory.openForReading(name), let bytes = try? file.readAll(limit: maximumByteCount),
            let journal = try? JSONDecoder().decode(TransferCheckpoint.self, from: Data(bytes)), journal.isSound
        else { return nil }
        return journal
    }

    /// It may lie on a stick that somebody has handed over: no name in it may lead anywhere else.
    private var isSound: Bool {
        folders.count < EntryHeader.maximumDepth
            && (folders.map(\.stored) + (file.map { [$0.stored] } ?? [])).allSatisfy(Self.isComponent)
            && (completeEntries == 0 || entriesDigest.count == 32)
            && folders.allSatisfy { $0.claimed.count <= ClaimedFileName.maximumByteCount }
    }

    static func isComponent(_ name: String) -> Bool {
        !name.isEmpty && name != "." && name != ".." && !name.utf8.contains { $0 == UInt8(ascii: "/") || $0 == 0 }
    }

    var encoded: [UInt8] {
        // Plain values only: there is nothing in it that could not be encoded.
        Array((try? JSONEncoder().encode(self)) ?? Data())
    }

    /// Differs from one start of the machine to the next; the same within containers of one machine.
    static let currentBootID: String = {
        guard let file = try? FileDescriptor.openForReading(path: "/proc/sys/kernel/random/boot_id"),
            let bytes = try? file.readAll(limit: 64)
        else { return "unknown" }
        return String(decoding: bytes.filter { $0 > 0x20 }, as: UTF8.self)
    }()
}

/// The names of complete entries in the order in which they came, so that after a break everything else can be told from
/// them and removed. Appended in large pieces; read only when a transfer is gone on with.
///
///     record:  depth u8 · length u8 · name        depth 0: directly in the item's holder; 255: another item begins
struct CompletedNames {
    static let fileName = "names"
    private static let nextItem: UInt8 = 255
    private static let flushByteCount = 64 << 10

    private let file: FileDescriptor
    private var pending: [UInt8] = []
    /// Bytes in the file and those still pending.
    private(set) var byteCount: UInt64

    /// - Parameter keeping: what is there beyond so many bytes is dropped.
    init(in directory: FileDescriptor, keeping byteCount: UInt64) throws(StorageError) {
        if let fresh = try directory.createFile(Self.fileName) {
            file = fresh
        } else {
            file = try directory.openForWriting(Self.fileName)
        }
        guard UInt64(try file.status().st_size) >= byteCount else {
            throw StorageError(.failed, "the list of what has arrived is cut short")
        }
        try file.truncate(to: byteCount)
        try file.seek(to: byteCount)
        self.byteCount = byteCount
    }

    mutating func appendItem() throws(StorageError) {
        try append([Self.nextItem, 0])
    }

    mutating func append(_ name: String, depth: Int) throws(StorageError) {
        try append([UInt8(depth), UInt8(name.utf8.count)])
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

    func synchronize() throws(StorageError) { try file.synchronizeContent() }

    /// What is complete in the last item's holder, in the folder that was entered last there, and so on down.
    func lastChain() throws(StorageError) -> [Set<String>] {
        try file.seek(to: 0)
        var levels: [Set<String>] = []
        var carried: [UInt8] = []
        while true {
            let piece = try file.readAll(limit: Self.flushByteCount)
            if piece.isEmpty { break }
            carried += piece
            var rest = carried[...]
            while rest.count >= 2, let depth = rest.first, rest.count >= 2 + Int(rest[rest.startIndex + 1]) {
                let name = rest.dropFirst(2).prefix(Int(rest[rest.startIndex + 1]))
                rest = rest[name.endIndex...]
                if depth == Self.nextItem {
                    levels = []
                    continue
                }
                guard Int(depth) <= levels.count else { throw StorageError(.failed, "the list of what has arrived is damaged") }
                if levels.count > Int(depth) + 1 { levels.removeLast(levels.count - Int(depth) - 1) }
                if levels.count == Int(depth) { levels.append([]) }
                levels[Int(depth)].insert(String(decoding: name, as: UTF8.self))
            }
            carried = Array(rest)
        }
        guard carried.isEmpty else { throw StorageError(.failed, "the list of what has arrived is cut short") }
        try file.seek(to: byteCount)
        return levels
    }
}

/// What has to be known of a complete transfer to deliver it after a restart: the file `finished`.
struct FinishedTransfer: Codable, Sendable {
    struct Item: Codable, Sendable {
        var kind: UInt8
        var claimedName: [UInt8]
        var claimedType: String
        /// Bytes of content, which had to be what was offered; nil where that was unknown.
        var size: UInt64?
    }

    /// The offer's described items, from the first on.
    var items: [Item]

    static let maximumByteCount = 1 << 20

    init(_ offer: Offer) {
        items = offer.items.map {
            Item(kind: $0.kind.rawValue, claimedName: $0.name.bytes, claimedType: $0.mediaType.text, size: $0.size)
        }
    }

    init?(decoding bytes: [UInt8]) {
        guard let value = try? JSONDecoder().decode(FinishedTransfer.self, from: Data(bytes)) else { return nil }
        self = value
    }

    var encoded: [UInt8] { Array((try? JSONEncoder().encode(self)) ?? Data()) }
}
