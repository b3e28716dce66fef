package import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect

/// Content in memory: entries in stream order, and the offer for them.
package struct MemoryContent: Sendable, Hashable {
    package struct Entry: Sendable, Hashable {
        package var header: EntryHeader
        package var bytes: [UInt8]

        package init(header: EntryHeader, bytes: [UInt8]) {
            self.header = header
            self.bytes = bytes
        }
    }

    package var entries: [Entry]
    package var offer: Offer

    package init(entries: [Entry], offer: Offer) {
        self.entries = entries
        self.offer = offer
    }

    /// One file.
    package init(file name: String, _ bytes: [UInt8]) {
        let name = ClaimedFileName(name)!
        let size = UInt64(bytes.count)
        entries = [
            Entry(
                header: EntryHeader(item: 0, kind: .file, path: [name], size: size, modified: nil, permissions: nil),
                bytes: bytes)
        ]
        offer = Offer(
            items: [OfferedItem(kind: .file, name: name, size: size, entryCount: 1, mediaType: .unknown)], itemCount: 1,
            entryCount: 1, totalSize: size)
    }

    /// One text.
    package init(text: String) {
        self.init(file: "message.txt", Array(text.utf8))
        let name = ClaimedFileName("message.txt")!
        let size = UInt64(text.utf8.count)
        offer = Offer(
            items: [OfferedItem(kind: .text, name: name, size: size, entryCount: 1, mediaType: .text)], itemCount: 1,
            entryCount: 1, totalSize: size)
    }

    /// Files of the same content.
    package init(files names: [String], _ bytes: [UInt8]) {
        let files = names.map { MemoryContent(file: $0, bytes) }
        entries = files.enumerated().map { number, file in
            var entry = file.entries[0]
            entry.header.item = UInt32(number)
            return entry
        }
        offer = Offer(
            items: files.map { $0.offer.items[0] }, itemCount: UInt32(files.count), entryCount: UInt64(files.count),
            totalSize: UInt64(files.count * bytes.count))
    }

    /// One to four items, files and folders with files, folders and links in them.
    /// - Parameters:
    ///   - largest: bytes in a file at the most.
    ///   - allowsUnknown: files of unknown size may be among them.
    package static func random(using random: inout SeededRandom, largest: Int, allowsUnknown: Bool = false) -> MemoryContent {
        var entries: [Entry] = []
        var items: [OfferedItem] = []
        for item in 0..<UInt32.random(in: 1...4, using: &random) {
            let name = random.fileName()
            let before = entries.count
            var size: UInt64? = 0
            if random.once(in: 2) {
                let bytes = random.bytes(Int.random(in: 0...largest, using: &random))
                size = allowsUnknown && random.once(in: 3) ? nil : UInt64(bytes.count)
                let header = EntryHeader(
                    item: item, kind: .file, path: [name], size: size, modified: Int64(item), permissions: nil)
                entries.append(Entry(header: header, bytes: bytes))
            } else {
                entries.append(Entry(header: folder(item, [name]), bytes: []))
                for _ in 0..<Int.random(in: 0...6, using: &random) {
                    let entry = inner(item, [name, random.fileName()], &random, largest)
                    size! += UInt64(entry.bytes.count)
                    entries.append(entry)
                }
            }
            items.append(
                OfferedItem(
                    kind: entries[before].header.kind == .folder ? .folder : .file, name: name, size: size,
                    entryCount: UInt64(entries.count - before), mediaType: .unknown))
        }
        let total = items.allSatisfy { $0.size != nil } ? items.reduce(0) { $0 + $1.size! } : nil
        return MemoryContent(
            entries: entries,
            offer: Offer(
                items: items, itemCount: UInt32(items.count), entryCount: UInt64(entries.count), totalSize: total))
    }

    private static func folder(_ item: UInt32, _ path: [ClaimedFileName]) -> EntryHeader {
        EntryHeader(item: item, kind: .folder, path: path, size: 0, modified: nil, permissions: 0o755)
    }

    private static func inner(
        _ item: UInt32, _ path: [ClaimedFileName], _ random: inout SeededRandom, _ largest: Int
    ) -> Entry {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: return Entry(header: folder(item, path), bytes: [])
        case 1:
            let header = EntryHeader(
                item: item, kind: .link(target: random.bytes(5)), path: path, size: 0, modified: 1, permissions: nil)
            return Entry(header: header, bytes: [])
        default:
            let bytes = random.bytes(Int.random(in: 0...largest, using: &random))
            let header = EntryHeader(
                item: item, kind: .file, path: path, size: UInt64(bytes.count), modified: nil, permissions: 0o644)
            return Entry(header: header, bytes: bytes)
        }
    }
}

/// Walks ``MemoryContent``.
package struct MemoryProvider: ContentProvider, Sendable {
    private let entries: [MemoryContent.Entry]
    private let largestRead: Int
    private var next = 0
    private var position = 0

    /// - Parameter largestRead: the largest number of bytes that one read returns.
    package init(_ content: MemoryContent, largestRead: Int = .max) {
        entries = content.entries
        self.largestRead = largestRead
    }

    package mutating func nextEntry() throws(Never) -> EntryHeader? {
        guard next < entries.count else { return nil }
        defer { next += 1 }
        position = 0
        return entries[next].header
    }

    package mutating func read(into buffer: UnsafeMutableRawBufferPointer) throws(Never) -> Int {
        let bytes = entries[next - 1].bytes[position...].prefix(min(buffer.count, largestRead))
        buffer.copyBytes(from: bytes)
        position += bytes.count
        return bytes.count
    }

    package mutating func seek(to offset: UInt64) throws(Never) {
        position = Int(offset)
    }
}

/// Collects the content of a stream, and that of an earlier attempt.
package struct MemoryReceiver: ContentReceiver, Sendable {
    /// Includes the incomplete entry, unless ``resumePoint`` omits it.
    package private(set) var entries: [MemoryContent.Entry] = []
    /// The entries that were withdrawn.
    package private(set) var withdrawn: [EntryHeader] = []
    private var complete = 0

    package init() {}

    /// The content after an earlier attempt that stopped at this number of complete entries and bytes.
    package init(kept content: MemoryContent, entries count: Int, bytes: Int) {
        entries = Array(content.entries.prefix(count))
        complete = count
        if bytes > 0 {
            entries.append(
                MemoryContent.Entry(
                    header: content.entries[count].header, bytes: Array(content.entries[count].bytes.prefix(bytes))))
        }
    }

    /// The received amount, in the form of a resume request.
    package var resumePoint: ResumePoint {
        var digest = EntriesDigest()
        for entry in entries.prefix(complete) { digest.append(entry.header) }
        // Content of unknown size cannot be resumed.
        let partial = entries.count > complete && entries[complete].header.size != nil ? entries[complete].bytes : []
        var point = ResumePoint(
            completeEntries: UInt64(complete), entriesDigest: complete > 0 ? digest.bytes : [],
            partialSize: UInt64(partial.count), partialDigest: partial.isEmpty ? [] : SHA256Hasher.digest(partial))
        point.completeByteCount = entries.prefix(complete).reduce(0) { $0 + UInt64($1.bytes.count) }
        point.lastItem = entries.prefix(complete).last?.header.item
        return point
    }

    package mutating func start(completeEntries: UInt64, offset: UInt64) throws(Never) {
        let partial = offset > 0 ? Array(entries[Int(completeEntries)].bytes.prefix(Int(offset))) : []
        let header = offset > 0 ? entries[Int(completeEntries)].header : nil
        entries.removeLast(entries.count - Int(completeEntries))
        if let header { entries.append(MemoryContent.Entry(header: header, bytes: partial)) }
        complete = Int(completeEntries)
    }

    package mutating func begin(_ header: EntryHeader, at offset: UInt64, digest: [UInt8]) throws(Never) {
        if offset == 0 {
            entries.append(MemoryContent.Entry(header: header, bytes: []))
        } else {
            entries[complete].header = header
        }
    }

    package mutating func keepPresent(_ header: EntryHeader, number: UInt64, digest: [UInt8]) throws(Never) {
        entries.append(MemoryContent.Entry(header: header, bytes: []))
    }

    package mutating func content(_ bytes: UnsafeRawBufferPointer) throws(Never) {
        entries[complete].bytes += bytes
    }

    package mutating func withdraw(_ header: EntryHeader) throws(Never) {
        entries.removeLast(entries.count - complete)
        withdrawn.append(header)
    }

    package mutating func endEntry() throws(Never) {
        complete += 1
    }
}
