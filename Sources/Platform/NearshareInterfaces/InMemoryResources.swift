package import NearshareBase
internal import Synchronization

/// Content in memory, with failures where a test wants them: the twin of files and folders.
package struct MemorySource: ResourceSource {
    package struct Entry: Sendable, Hashable {
        package var header: EntryHeader
        package var content: [UInt8]

        /// - Parameter header: its size may be nil, for content of unknown length.
        package init(_ header: EntryHeader, content: [UInt8] = []) {
            self.header = header
            self.content = content
        }

        /// A file that is an item of its own.
        package static func file(
            _ name: String, _ content: [UInt8], item: UInt32 = 0, hasKnownSize: Bool = true, modified: Int64? = 0
        ) -> Entry {
            .file(in: [name], content, item: item, hasKnownSize: hasKnownSize, modified: modified)
        }

        package static func file(
            in path: [String], _ content: [UInt8], item: UInt32 = 0, hasKnownSize: Bool = true, modified: Int64? = 0
        ) -> Entry {
            Entry(
                EntryHeader(
                    item: item, kind: .file, path: path.map { ClaimedFileName($0)! },
                    size: hasKnownSize ? UInt64(content.count) : nil, modified: modified, permissions: nil),
                content: content)
        }

        package static func folder(_ path: [String], item: UInt32 = 0, modified: Int64? = 0) -> Entry {
            Entry(
                EntryHeader(
                    item: item, kind: .folder, path: path.map { ClaimedFileName($0)! }, size: 0, modified: modified,
                    permissions: nil))
        }

        package static func link(_ path: [String], to target: String, item: UInt32 = 0) -> Entry {
            Entry(
                EntryHeader(
                    item: item, kind: .link(target: Array(target.utf8)), path: path.map { ClaimedFileName($0)! }, size: 0,
                    modified: nil, permissions: nil))
        }
    }

    /// Reading fails in this entry, after so many bytes of it.
    package struct Failure: Sendable {
        package var entry: Int
        package var offset: Int
        package var error: StorageError

        package init(entry: Int, offset: Int, error: StorageError) {
            self.entry = entry
            self.offset = offset
            self.error = error
        }
    }

    package let entries: [Entry]
    package let offer: Offer
    package var failure: Failure?

    /// - Parameter entries: in the order in which they are sent, each folder before what is in it.
    package init(_ entries: [Entry], failure: Failure? = nil) {
        self.entries = entries
        self.failure = failure
        var items: [OfferedItem] = []
        for entry in entries {
            let isNew = Int(entry.header.item) == items.count
            if isNew {
                items.append(
                    OfferedItem(
                        kind: entry.header.kind == .folder ? .folder : .file, name: entry.header.path[0], size: 0,
                        entryCount: 0, mediaType: entry.header.kind == .folder ? .folder : .unknown))
            }
            let last = items.count - 1
            items[last].entryCount += 1
            items[last].size = items[last].size.flatMap { sum in entry.header.size.map { sum + $0 } }
        }
        let total = items.reduce(UInt64?(0)) { sum, item in sum.flatMap { sum in item.size.map { sum + $0 } } }
        offer = Offer(
            items: Array(items.prefix(Offer.maximumDescribedItems)), itemCount: UInt32(items.count),
            entryCount: UInt64(entries.count), totalSize: total)
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        MemoryReader(self)
    }
}

private final class MemoryReader: ResourceReader {
    private let source: MemorySource
    private var next = 0
    private var position = 0
    private let isCancelled = Atomic(false)

    init(_ source: MemorySource) {
        self.source = source
    }

    func nextEntry() throws(StorageError) -> EntryHeader? {
        guard next < source.entries.count else { return nil }
        next += 1
        position = 0
        return source.entries[next - 1].header
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
        guard !isCancelled.load(ordering: .relaxed) else { throw StorageError(.failed, "reading was cancelled") }
        guard next > 0 else { return 0 }
        let content = source.entries[next - 1].content
        var end = min(content.count, position + buffer.count)
        if let failure = source.failure, failure.entry == next - 1 {
            guard position < failure.offset else { throw failure.error }
            end = min(end, failure.offset)
        }
        buffer.copyBytes(from: content[position..<end])
        defer { position = end }
        return end - position
    }

    func seek(to offset: UInt64) throws(StorageError) {
        guard next > 0, offset <= UInt64(source.entries[next - 1].content.count), source.entries[next - 1].header.size != nil
        else { throw StorageError(.failed, "can't go on there") }
        position = Int(offset)
    }

    func cancel() { isCancelled.store(true, ordering: .relaxed) }
}

/// A place in memory for what arrives: the twin of the inbox. It keeps unfinished transfers for resuming, numbers names that
/// are taken, and is as full or as gone as a test wants it.
package final class InMemoryInbox: Sendable {
    package enum Stored: Sendable, Hashable {
        case file([UInt8])
        case folder
        case link(target: [UInt8])
    }

    struct Key: Hashable {
        let sender: Fingerprint
        let resumeKey: [UInt8]
    }

    /// What an unfinished transfer has left.
    struct Kept {
        var point = ResumePoint.start
        var entries: [(header: EntryHeader, content: [UInt8])] = []
        var partial: (header: EntryHeader, content: [UInt8])?
    }

    private struct State {
        var stored: [String: Stored] = [:]
        var waiting: [String: Stored] = [:]
        var isAvailable = true
        var capacity: UInt64?
        var kept: [Key: Kept] = [:]
    }

    private let state = Mutex(State())
    let digest: @Sendable ([UInt8]) -> [UInt8]

    /// - Parameter digest: SHA-256.
    package init(digest: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.digest = digest
    }

    /// What has its final name, by path.
    package var stored: [String: Stored] { state.withLock { $0.stored } }
    /// What has arrived while the inbox was unavailable.
    package var waiting: [String: Stored] { state.withLock { $0.waiting } }

    /// Bytes that one transfer may fill before the disk is full; nil for no end.
    package func setCapacity(_ bytes: UInt64?) { state.withLock { $0.capacity = bytes } }

    package func setAvailable(_ isAvailable: Bool) { state.withLock { $0.isAvailable = isAvailable } }

    /// Moves what waits as soon as the inbox is there.
    package func deliverPending() {
        state.withLock { state in
            guard state.isAvailable else { return }
            state.stored.merge(state.waiting) { old, _ in old }
            state.waiting = [:]
        }
    }

    package func makeSink(for offer: Offer, from sender: Fingerprint, resumeKey: [UInt8]) -> any ResourceSink {
        MemorySink(self, offer: offer, key: Key(sender: sender, resumeKey: resumeKey))
    }

    fileprivate var capacity: UInt64? { state.withLock { $0.capacity } }
    fileprivate func kept(_ key: Key) -> Kept? { state.withLock { $0.kept[key] } }
    fileprivate func keep(_ kept: Kept?, for key: Key) { state.withLock { $0.kept[key] = kept } }

    /// - Parameter entries: one item's, the item itself first.
    /// - Returns: the name that the item has got, and whether it is its final one.
    fileprivate func place(_ entries: ArraySlice<(header: EntryHeader, content: [UInt8])>) -> (name: String, isInInbox: Bool) {
        state.withLock { state in
            let safe = SafeFileName(entries.first!.header.path[0])
            let taken = Set((Array(state.stored.keys) + Array(state.waiting.keys)).map { $0.lowercased() })
            let name = (1...).lazy.map { $0 == 1 ? safe.text : safe.numbered($0).text }.first {
                !taken.contains($0.lowercased())
            }!
            for (header, content) in entries {
                let path = ([name] + header.path.dropFirst().map { SafeFileName($0, mayBeHidden: true).text })
                    .joined(separator: "/")
                let stored: Stored =
                    switch header.kind {
                    case .file: .file(content)
                    case .folder: .folder
                    case .link(let target): .link(target: target)
                    }
                if state.isAvailable { state.stored[path] = stored } else { state.waiting[path] = stored }
            }
            return (name, state.isAvailable)
        }
    }
}

private final class MemorySink: ResourceSink {
    private let inbox: InMemoryInbox
    private let offer: Offer
    private let key: InMemoryInbox.Key
    private var kept = InMemoryInbox.Kept()
    private var presentDigest: [UInt8] = []
    private var hasBegun = false

    init(_ inbox: InMemoryInbox, offer: Offer, key: InMemoryInbox.Key) {
        self.inbox = inbox
        self.offer = offer
        self.key = key
    }

    func resumePoint() throws(StorageError) -> ResumePoint {
        guard let earlier = inbox.kept(key) else { return .start }
        var point = earlier.point
        if let partial = earlier.partial, partial.header.size != nil, !partial.content.isEmpty {
            point.partialSize = UInt64(partial.content.count)
            point.partialDigest = inbox.digest(partial.content)
        }
        return point
    }

    func resume(at point: ResumePoint) throws(StorageError) {
        hasBegun = true
        kept = InMemoryInbox.Kept()
        guard point != .start, let earlier = inbox.kept(key) else { return }
        kept = earlier
        presentDigest = earlier.point.entriesDigest
        if point.partialSize == 0 { kept.partial = nil }
    }

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        presentDigest = entriesDigest
        let content = offset > 0 ? Array((kept.partial?.content ?? []).prefix(Int(offset))) : []
        kept.partial = (entry, content)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        let there = kept.entries.reduce(kept.partial!.content.count) { $0 + $1.content.count }
        if let capacity = inbox.capacity, UInt64(there + bytes.count) > capacity {
            throw StorageError(.noSpace, "the disk is full; make room, and the same send goes on from here")
        }
        kept.partial!.content.append(contentsOf: bytes)
    }

    func endEntry() throws(StorageError) {
        kept.entries.append(kept.partial!)
        kept.partial = nil
        kept.point.completeEntries += 1
        kept.point.entriesDigest = presentDigest
    }

    func finish() throws(StorageError) -> [DeliveredItem] {
        var delivered: [DeliveredItem] = []
        var rest = kept.entries[...]
        while let first = rest.first {
            let item = rest.prefix { $0.header.item == first.header.item }
            rest = rest.dropFirst(item.count)
            let (name, isInInbox) = inbox.place(item)
            delivered.append(
                DeliveredItem(
                    item: first.header.item, kind: first.header.kind == .folder ? .folder : .file,
                    claimedName: first.header.path[0], path: name, isInInbox: isInInbox,
                    size: item.reduce(0) { $0 + UInt64($1.content.count) }, detectedType: nil, typeWarning: nil))
        }
        inbox.keep(nil, for: key)
        return delivered
    }

    func suspend() {
        guard hasBegun else { return }
        inbox.keep(kept, for: key)
    }

    func discard() { inbox.keep(nil, for: key) }
}
