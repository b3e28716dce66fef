package import NearshareBase
internal import Synchronization

/// The in-memory form of the inbox. It keeps partial transfers for resuming, numbers duplicate names, and can be set to be full
/// or not available.
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

    /// The state of an unfinished transfer.
    struct PartialTransfer {
        /// The accepted offer: content that was kept for another one is not used.
        let offer: Offer
        var point = ResumePoint.start
        var entries: [(header: EntryHeader, content: [UInt8])] = []
        var partial: (header: EntryHeader, content: [UInt8])?
    }

    private struct State {
        var stored: [String: Stored] = [:]
        var waiting: [String: Stored] = [:]
        var isAvailable = true
        var capacity: UInt64?
        var partial: [Key: PartialTransfer] = [:]
    }

    private let state = Mutex(State())
    let digest: @Sendable ([UInt8]) -> [UInt8]

    /// - Parameter digest: SHA-256.
    package init(digest: @escaping @Sendable ([UInt8]) -> [UInt8]) {
        self.digest = digest
    }

    /// Delivered entries by path.
    package var stored: [String: Stored] { state.withLock { $0.stored } }
    /// Entries that were received while the inbox was not available.
    package var waiting: [String: Stored] { state.withLock { $0.waiting } }

    /// Sets the free space for each transfer; nil for no limit.
    package func setCapacity(_ bytes: UInt64?) { state.withLock { $0.capacity = bytes } }

    package func setAvailable(_ isAvailable: Bool) { state.withLock { $0.isAvailable = isAvailable } }

    /// Delivers the waiting entries if the inbox is available.
    package func deliverPending() {
        state.withLock { state in
            guard state.isAvailable else { return }
            state.stored.merge(state.waiting) { old, _ in old }
            state.waiting = [:]
        }
    }

    package func makeSink(for offer: Offer, from sender: Fingerprint, resumeKey: [UInt8]) -> any ResourceSink {
        InMemoryInboxSink(self, offer: offer, key: Key(sender: sender, resumeKey: resumeKey))
    }

    fileprivate var capacity: UInt64? { state.withLock { $0.capacity } }
    fileprivate func partial(_ key: Key, of offer: Offer) -> PartialTransfer? {
        state.withLock { $0.partial[key].flatMap { $0.offer == offer && offer.totalSize != nil ? $0 : nil } }
    }
    fileprivate func store(_ partial: PartialTransfer?, for key: Key) { state.withLock { $0.partial[key] = partial } }

    /// Stores one item under a free name.
    /// - Parameter entries: the item itself, then the entries inside it.
    /// - Returns: the item's name, and whether it is in the inbox.
    fileprivate func deliver(_ item: EntryHeader, _ entries: ArraySlice<(header: EntryHeader, content: [UInt8])>) -> (
        name: String, isInInbox: Bool
    ) {
        state.withLock { state in
            let safe = SafeFileName(item.path[0])
            let taken = Set((Array(state.stored.keys) + Array(state.waiting.keys)).map { $0.lowercased() })
            var (name, number) = (safe.text, 1)
            while taken.contains(name.lowercased()) {
                number += 1
                name = safe.numbered(number).text
            }
            for (header, content) in entries {
                let path = ([name] + header.path.dropFirst().map { SafeFileName($0, mayBeHidden: true, rules: .linux).text })
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

private final class InMemoryInboxSink: ResourceSink {
    private let inbox: InMemoryInbox
    private let offer: Offer
    private let key: InMemoryInbox.Key
    private var transfer: InMemoryInbox.PartialTransfer
    private var presentDigest: [UInt8] = []
    private var hasBegun = false
    /// The state before the first withdrawn entry, beyond which nothing is resumed.
    private var last: InMemoryInbox.PartialTransfer?

    init(_ inbox: InMemoryInbox, offer: Offer, key: InMemoryInbox.Key) {
        self.inbox = inbox
        self.offer = offer
        self.key = key
        transfer = InMemoryInbox.PartialTransfer(offer: offer)
    }

    func resumePoint() throws(StorageError) -> ResumePoint {
        guard let earlier = inbox.partial(key, of: offer) else { return .start }
        var point = earlier.point
        if let partial = earlier.partial, partial.header.size != nil, !partial.content.isEmpty {
            point.partialSize = UInt64(partial.content.count)
            point.partialDigest = inbox.digest(partial.content)
        }
        return point
    }

    func resume(at point: ResumePoint) throws(StorageError) {
        hasBegun = true
        transfer = InMemoryInbox.PartialTransfer(offer: offer)
        guard point != .start, let earlier = inbox.partial(key, of: offer) else { return }
        transfer = earlier
        presentDigest = earlier.point.entriesDigest
        if point.partialSize == 0 { transfer.partial = nil }
    }

    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {
        presentDigest = entriesDigest
        let content = offset > 0 ? Array((transfer.partial?.content ?? []).prefix(Int(offset))) : []
        transfer.partial = (entry, content)
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {
        guard let present = transfer.partial else { throw StorageError(.failed, "content outside an entry") }
        let stored = transfer.entries.reduce(present.content.count) { $0 + $1.content.count }
        if let capacity = inbox.capacity, UInt64(stored + bytes.count) > capacity {
            throw StorageError(.noSpace, "the disk is full; free some space and send again to resume")
        }
        transfer.partial?.content.append(contentsOf: bytes)
    }

    func endEntry() throws(StorageError) {
        guard let present = transfer.partial else { throw StorageError(.failed, "no entry to complete") }
        transfer.entries.append(present)
        transfer.partial = nil
        transfer.point.completeEntries += 1
        transfer.point.completeByteCount += UInt64(present.content.count)
        transfer.point.lastItem = present.header.item
        transfer.point.entriesDigest = presentDigest
    }

    func withdraw(_ entry: EntryHeader) throws(StorageError) {
        transfer.partial = nil
        last = last ?? transfer
    }

    var changedNames: ChangedNames {
        transfer.entries.reduce(into: ChangedNames()) { names, entry in
            guard let claimed = entry.header.path.last else { return }
            let isInside = entry.header.path.count > 1
            let stored = SafeFileName(claimed, mayBeHidden: isInside, rules: isInside ? .linux : .windows)
            names.record(claimed, storedAs: stored.text)
        }
    }

    func finish() throws(StorageError) -> [DeliveredItem] {
        var delivered: [DeliveredItem] = []
        var rest = transfer.entries[...]
        while let first = rest.first {
            let item = rest.prefix { $0.header.item == first.header.item }
            rest = rest.dropFirst(item.count)
            let (name, isInInbox) = inbox.deliver(first.header, item)
            delivered.append(
                DeliveredItem(
                    item: first.header.item, kind: first.header.kind == .folder ? .folder : .file,
                    claimedName: first.header.path[0], path: name, isInInbox: isInInbox,
                    size: item.reduce(0) { $0 + UInt64($1.content.count) }, detectedType: nil, typeWarning: nil))
        }
        inbox.store(nil, for: key)
        return delivered
    }

    func suspend() {
        guard hasBegun else { return }
        inbox.store(last ?? transfer, for: key)
    }

    func discard() { inbox.store(nil, for: key) }
}
