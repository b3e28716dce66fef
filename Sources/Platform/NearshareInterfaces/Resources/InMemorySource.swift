package import NearshareBase
internal import Synchronization

/// The in-memory form of a file source, with optional read errors.
package struct InMemorySource: ResourceSource {
    package struct Entry: Sendable, Hashable {
        package var header: EntryHeader
        package var content: [UInt8]

        /// - Parameter header: its size is nil for content of unknown length.
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
                    item: item, kind: .file, path: Entry.path(path),
                    size: hasKnownSize ? UInt64(content.count) : nil, modified: modified, permissions: nil),
                content: content)
        }

        package static func folder(_ path: [String], item: UInt32 = 0, modified: Int64? = 0) -> Entry {
            Entry(
                EntryHeader(
                    item: item, kind: .folder, path: Entry.path(path), size: 0, modified: modified,
                    permissions: nil))
        }

        /// Traps for an empty name, which no test passes.
        private static func path(_ names: [String]) -> [ClaimedFileName] {
            names.map { name in
                guard let claimed = ClaimedFileName(name) else { preconditionFailure("not a file name: \(name)") }
                return claimed
            }
        }

        package static func link(_ path: [String], to target: String, item: UInt32 = 0) -> Entry {
            Entry(
                EntryHeader(
                    item: item, kind: .link(target: Array(target.utf8)), path: Entry.path(path), size: 0,
                    modified: nil, permissions: nil))
        }
    }

    /// A read error in one entry at an offset.
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

    /// - Parameter entries: in the order in which they are sent, each folder before its content.
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

    /// Entries with an offer that is not derived from them.
    package init(_ entries: [Entry], offer: Offer) {
        self.entries = entries
        self.offer = offer
        failure = nil
    }

    package func makeReader() throws(StorageError) -> any ResourceReader {
        InMemoryReader(self)
    }
}

private final class InMemoryReader: ResourceReader {
    private let source: InMemorySource
    private var next = 0
    private var position = 0
    private let isCancelled = Atomic(false)

    init(_ source: InMemorySource) {
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
        else { throw StorageError(.failed, "could not seek there") }
        position = Int(offset)
    }

    func cancel() { isCancelled.store(true, ordering: .relaxed) }
}
