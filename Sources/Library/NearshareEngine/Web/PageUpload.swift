internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareWeb

/// Stores the content that a browser sends, on a thread of its own, so that a slow disk holds back its own browser only.
final class PageUpload: Sendable {
    private struct State {
        var chunks: [[UInt8]] = []
        var isComplete = false
        var ending: TransferOutcome?
        var lastArrival: Int64
    }

    /// All calls but `cancel()` are made by the upload's thread.
    private struct Sink: @unchecked Sendable {
        let sink: any ResourceSink
    }

    /// Limit on chunks that wait for the disk.
    private static let maximumWaitingCount = 8
    /// The time for which a browser may be silent, as with a locked screen, before its content is discarded.
    static let silenceTimeout = Duration.seconds(600)

    let transfer: Transfer
    private let offer: PageOffer
    private let sink: Sink
    private let state: Monitor<State>
    private let clock: @Sendable () -> MonotonicInstant

    init(
        _ offer: PageOffer, transfer: Transfer, sink: any ResourceSink, clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (self.offer, self.transfer, self.clock) = (offer, transfer, clock)
        self.sink = Sink(sink: sink)
        state = Monitor(State(lastArrival: clock().nanoseconds))
    }

    // MARK: From other threads

    /// Queues content, in the order of the calls.
    func append(_ chunks: [[UInt8]], isComplete: Bool) {
        state.update { state in
            guard state.ending == nil else { return }
            state.chunks += chunks
            state.isComplete = state.isComplete || isComplete
            state.lastArrival = clock().nanoseconds
        }
    }

    /// Blocks while the disk is too far behind. Called by each thread that has appended, which bounds the queue.
    func waitForRoom() {
        state.wait { state in state.ending != nil || state.chunks.count < Self.maximumWaitingCount ? () : nil }
    }

    /// Ends the upload before its content is complete.
    func end(_ outcome: TransferOutcome) {
        state.update { state in
            if state.ending == nil { state.ending = outcome }
        }
        sink.sink.cancel()
    }

    // MARK: The upload's thread

    /// Stores the content.
    /// - Returns: the result, with which the transfer has still to be ended.
    func run() -> TransferResult {
        // No thread waits for room any more.
        defer {
            state.update { state in
                if state.ending == nil { state.ending = .interrupted }
                state.chunks = []
            }
        }
        do throws(StorageError) {
            return try store()
        } catch {
            sink.sink.discard()
            let ending = state.withLock { $0.ending }
            return TransferResult(
                outcome: ending ?? .failed(TransferFailure(error), at: .local), detail: ending == nil ? error.description : nil)
        }
    }

    private func store() throws(StorageError) -> TransferResult {
        transfer.enter(.moving)
        // A browser begins anew with each page: nothing of an earlier one can be resumed.
        _ = try sink.sink.resumePoint()
        try sink.sink.resume(at: .start)
        var writer = EntryWriter(offer.entries, sink.sink)
        try writer.beginNext()
        while true {
            let (chunks, ending) = next()
            if let ending {
                sink.sink.discard()
                return TransferResult(outcome: ending)
            }
            guard !chunks.isEmpty else { break }
            for chunk in chunks { try writer.write(chunk) }
            transfer.recordProgress(to: writer.byteCount, entries: writer.completeCount)
        }
        transfer.enter(.finishing)
        let delivered = try sink.sink.finish()
        return TransferResult(outcome: .completed, delivered: delivered, changedNames: sink.sink.changedNames)
    }

    /// Waits for content.
    /// - Returns: no chunks at the end of the content.
    private func next() -> (chunks: [[UInt8]], ending: TransferOutcome?) {
        state.waitWithDeadlines { state, hasTimedOut -> MonitorWait<([[UInt8]], TransferOutcome?)> in
            if let ending = state.ending { return .ready(([], ending)) }
            if !state.chunks.isEmpty {
                defer { state.chunks = [] }
                return .ready((state.chunks, nil))
            }
            if state.isComplete { return .ready(([], nil)) }
            let deadline = MonotonicInstant(nanoseconds: state.lastArrival) + Self.silenceTimeout
            if hasTimedOut, clock() >= deadline {
                state.ending = .interrupted
                return .ready(([], .interrupted))
            }
            return .waiting(untilNanoseconds: deadline.nanoseconds)
        }
    }
}

/// Divides the content of an offer among its entries.
private struct EntryWriter {
    private let entries: [EntryHeader]
    private let sink: any ResourceSink
    private var digest = EntriesDigest()
    private var number = 0
    /// Content that the present entry still expects.
    private var remaining: UInt64 = 0
    private(set) var byteCount: UInt64 = 0
    private(set) var completeCount: UInt64 = 0

    init(_ entries: [EntryHeader], _ sink: any ResourceSink) {
        (self.entries, self.sink) = (entries, sink)
    }

    /// Begins the next entry with content; empty ones before it are complete at once.
    mutating func beginNext() throws(StorageError) {
        while number < entries.count {
            let entry = entries[number]
            digest.append(entry)
            try sink.begin(entry, at: 0, entriesDigest: digest.bytes)
            remaining = entry.size ?? 0
            if remaining > 0 { return }
            try endEntry()
        }
    }

    mutating func write(_ chunk: [UInt8]) throws(StorageError) {
        var rest = chunk[...]
        while !rest.isEmpty {
            // The protocol counts the content: there is no more of it than the entries have.
            guard remaining > 0 else { throw StorageError(.rejected, "more content than was offered") }
            let count = min(rest.count, Int(clamping: remaining))
            try sink.write(rest.prefix(count))
            rest = rest.dropFirst(count)
            byteCount += UInt64(count)
            remaining -= UInt64(count)
            if remaining == 0 {
                try endEntry()
                try beginNext()
            }
        }
    }

    private mutating func endEntry() throws(StorageError) {
        try sink.endEntry()
        number += 1
        completeCount += 1
    }
}
