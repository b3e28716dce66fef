package import NearshareBase
internal import NearshareDirect
internal import Synchronization

/// One transfer, in either direction: await its ``result``, iterate its ``progress``, ``cancel()`` it at both ends.
public final class Transfer: Sendable {
    private struct State {
        var progress: TransferProgress
        var meter: TransferMeter
        var lastTold: MonotonicInstant
        var lastMoved: MonotonicInstant
        var result: TransferResult?
        var waiting: [CheckedContinuation<TransferResult, Never>] = []
        var listeners: [UInt64: AsyncStream<TransferProgress>.Continuation] = [:]
        var lastListener: UInt64 = 0
        var isCancelAsked = false
        var onCancel: (@Sendable () -> Void)?
        /// Cuts the link that carries it.
        var onCut: (@Sendable () -> Void)?
        var onEnd: (@Sendable (Transfer) -> Void)?
    }

    /// Identifies the transfer in this node.
    package let id: TransferID
    private let state: Mutex<State>
    private let clock: @Sendable () -> MonotonicInstant

    /// Shortest interval between two progress values: users cannot follow more, and each costs a wake-up.
    private static let shortestInterval = Duration.milliseconds(100)

    /// - Parameter progress: The initial progress.
    package init(progress: TransferProgress, clock: @escaping @Sendable () -> MonotonicInstant) {
        id = progress.id
        self.clock = clock
        let now = clock()
        state = Mutex(
            State(progress: progress, meter: TransferMeter(amount: 0, now: now), lastTold: now, lastMoved: now))
    }

    // MARK: For the program

    /// The current progress, with rate and time left calculated for now.
    public var snapshot: TransferProgress {
        let now = clock()
        return state.withLock { state in
            Self.refresh(&state, now: now)
            return state.progress
        }
    }

    /// Progress values, the current one first and the end last. Unread values are replaced by newer ones.
    public var progress: AsyncStream<TransferProgress> {
        let (stream, continuation) = AsyncStream.makeStream(of: TransferProgress.self, bufferingPolicy: .bufferingNewest(1))
        state.withLock { state in
            continuation.yield(state.progress)
            guard state.result == nil else { return continuation.finish() }
            state.lastListener += 1
            // Removed by the first value that is not read any more. A termination handler would take this lock while the task's
            // own is held, which yield() takes under this one.
            state.listeners[state.lastListener] = continuation
        }
        return stream
    }

    /// Waits for the end of the transfer, also in a task that is cancelled: ``cancel()`` ends the transfer. ``progress`` ends
    /// with the task that iterates it.
    public var result: TransferResult {
        get async {
            await withCheckedContinuation { continuation in
                let result: TransferResult? = state.withLock { state in
                    if state.result == nil { state.waiting.append(continuation) }
                    return state.result
                }
                if let result { continuation.resume(returning: result) }
            }
        }
    }

    /// Ends the transfer at both ends. Content received so far is kept for resuming. No effect once the transfer has ended.
    public func cancel() {
        let action = state.withLock { state in
            state.isCancelAsked = true
            return state.onCancel
        }
        action?()
    }

    /// Time since content was sent or received last.
    package var timeSinceLastContent: Duration {
        let now = clock()
        return state.withLock { max(now - $0.lastMoved, .zero) }
    }

    package var hasEnded: Bool { state.withLock { $0.result != nil } }

    /// Cuts the link that carries it when nothing has moved for a time: its sender has begun again on another link.
    /// - Returns: whether its end is near.
    package func interrupt(ifStalledFor time: Duration) -> Bool {
        let now = clock()
        let cut = state.withLock { state in now - state.lastMoved >= time ? state.onCut : nil }
        cut?()
        return cut != nil
    }

    // MARK: For what carries it: the engine, or a client of the node that does

    /// Sets the closure that cuts the link of the transfer.
    func onCut(_ action: @escaping @Sendable () -> Void) {
        state.withLock { if $0.result == nil { $0.onCut = action } }
    }

    /// Sets the action at its end, which runs at once if it has ended. An offer that is never answered has no end.
    func onEnd(_ action: @escaping @Sendable (Transfer) -> Void) {
        let isOver = state.withLock { state in
            if state.result == nil { state.onEnd = action }
            return state.result != nil
        }
        if isOver { action(self) }
    }

    /// Sets the action of ``cancel()``, which runs at once if the transfer was cancelled before.
    package func onCancel(_ action: @escaping @Sendable () -> Void) {
        let isAsked = state.withLock { state in
            state.onCancel = action
            return state.isCancelAsked
        }
        if isAsked { action() }
    }

    package func enter(_ phase: TransferProgress.Phase) {
        let now = clock()
        state.withLock { state in
            guard state.result == nil, state.progress.phase != phase else { return }
            state.progress.phase = phase
            // The time before, such as that of the question, is no stall.
            if phase == .moving { state.lastMoved = now }
            Self.emit(&state, now: now)
        }
    }

    /// Records the number of entries of a source whose offer counts other ones than are sent.
    func setTotal(entries: UInt64) { state.withLock { $0.progress.totalEntries = entries } }

    /// Records that the receiver has accepted a part of the offer.
    func select(_ part: OfferPart.Counts) {
        let now = clock()
        state.withLock { state in
            (state.progress.part, state.progress.total, state.progress.totalEntries) = (part, part.size, part.accepted)
            Self.emit(&state, now: now)
        }
    }

    /// Records the content of an earlier attempt, which is not sent again.
    func recordResume(after bytes: UInt64, entries: UInt64) {
        let now = clock()
        state.withLock { state in
            state.progress.resumed = bytes
            state.progress.done = bytes
            state.progress.finishedEntries = entries
            state.meter = TransferMeter(amount: bytes, now: now)
            state.progress.phase = .moving
            state.lastMoved = now
            Self.emit(&state, now: now)
        }
    }

    func recordProgress(to done: UInt64, entries: UInt64) {
        let now = clock()
        state.withLock { state in
            state.progress.done = done
            state.progress.finishedEntries = entries
            state.lastMoved = now
            guard now - state.lastTold >= Self.shortestInterval else { return }
            Self.emit(&state, now: now)
        }
    }

    /// Records the progress that the node of another process reports.
    package func recordProgress(to done: UInt64, of total: UInt64?) {
        state.withLock { $0.progress.total = total }
        if done > 0 { enter(.moving) }
        recordProgress(to: done, entries: 0)
    }

    /// Starts the count of fragments.
    func startFragments(of total: Int) {
        let now = clock()
        state.withLock { state in
            state.progress.fragments = TransferProgress.Fragments(done: 0, total: total)
            state.progress.phase = .moving
            state.meter = TransferMeter(amount: 0, now: now)
            Self.emit(&state, now: now)
        }
    }

    /// Records a sent or received fragment, with its share of the bytes.
    func recordProgress(fragments done: Int, of total: Int, size: UInt64) {
        let now = clock()
        state.withLock { state in
            state.progress.fragments = TransferProgress.Fragments(done: done, total: total)
            state.progress.done = min(size, UInt64(saturating: Double(size) * Double(done) / Double(max(1, total))))
            state.lastMoved = now
            // Emitted without rate limit: fragments are rare.
            Self.emit(&state, now: now)
        }
    }

    package func end(_ result: TransferResult) {
        let now = clock()
        var listeners: [AsyncStream<TransferProgress>.Continuation] = []
        var onEnd: (@Sendable (Transfer) -> Void)?
        let waiting: [CheckedContinuation<TransferResult, Never>] = state.withLock { state in
            guard state.result == nil else { return [] }
            state.result = result
            state.progress.phase = .ended(result.outcome)
            // The peer's receipt may overtake this side's own count.
            if result.outcome == .completed {
                if let total = state.progress.total { state.progress.done = total }
                state.progress.finishedEntries = state.progress.totalEntries
            }
            Self.emit(&state, now: now)
            state.progress.timeLeft = nil
            onEnd = state.onEnd.take()
            (state.onCancel, state.onCut) = (nil, nil)
            listeners = Array(state.listeners.values)
            defer { (state.waiting, state.listeners) = ([], [:]) }
            return state.waiting
        }
        // Called without the lock, because finishing a stream calls back into this type.
        for listener in listeners { listener.finish() }
        for waiter in waiting { waiter.resume(returning: result) }
        onEnd?(self)
    }

    private static func refresh(_ state: inout State, now: MonotonicInstant) {
        guard state.progress.phase == .moving else { return }
        state.meter.measure(state.progress.done, now: now)
        state.progress.rate = state.meter.rate
        state.progress.timeLeft = state.meter.timeLeft(until: state.progress.total)
    }

    private static func emit(_ state: inout State, now: MonotonicInstant) {
        refresh(&state, now: now)
        state.lastTold = now
        for (number, listener) in state.listeners {
            if case .terminated = listener.yield(state.progress) { state.listeners[number] = nil }
        }
    }
}
