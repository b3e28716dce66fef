internal import NearshareBase
internal import NearshareInterfaces

/// A connection of a browser, used by its thread. Other tasks see whether it is used, and how fast.
///
/// Only the time in which the thread waits for bytes of a request, or for room in the send buffer, counts for the rate: neither that
/// in which a response waits for a change, nor that in which this side reads, stores or limits its own rate (R5).
final class PageConnection: Sendable {
    private struct State {
        /// The time at which the present request began, or the last one ended.
        var since: MonotonicInstant
        /// Whether no request has begun since.
        var isIdle = true
        /// Whether the present request waits for a change where nothing is under way.
        var isWaitingIdly = false
        /// Whether the client has proven to know the page's key. Others give way when slots are short, whatever they ask for (Q6).
        var isAuthentic = false
        /// The time by which the body of a small request has to be complete; nil while none is read.
        var bodyDeadline: MonotonicInstant?
        /// The bytes of both directions.
        var progress: ProgressMeter
    }

    let link: any StreamLink
    private let state: Monitor<State>
    private let clock: @Sendable () -> MonotonicInstant

    /// Bytes that are written at once where the send buffer is full: a browser that takes them at the minimum rate is seen to do so
    /// within the shortest average.
    private static let blockingByteCount = 8 << 10

    init(_ link: any StreamLink, clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.link, self.clock) = (link, clock)
        let now = clock()
        var progress = ProgressMeter(now: now)
        progress.suspend(now: now)
        state = Monitor(State(since: now, progress: progress))
    }

    // MARK: From other tasks

    /// The time since which the connection is not used; nil while it is.
    var unusedSince: MonotonicInstant? {
        state.withLock { $0.isIdle || $0.isWaitingIdly || !$0.isAuthentic ? $0.since : nil }
    }

    /// The bytes a second that it moves; nil before there is an average, and while the browser is not what it waits for.
    func transferRate(now: MonotonicInstant) -> Int? {
        state.withLock { $0.isIdle || !$0.isAuthentic ? nil : $0.progress.rate(now: now) }
    }

    /// The time at which the connection is to be closed.
    func deadline(after timeout: Duration) -> MonotonicInstant {
        state.withLock { min($0.since + timeout, $0.bodyDeadline ?? $0.since + timeout) }
    }

    // MARK: Bytes

    /// Reads bytes of requests.
    /// - Returns: 0 at the end of the connection.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> Int { receive(into: buffer) ?? 0 }

    /// Waits until the browser has closed its end.
    /// - Returns: false when it sends more, or the connection breaks.
    func awaitEnd() -> Bool { withUnsafeTemporaryAllocation(byteCount: 1, alignment: 1) { receive(into: $0) } == 0 }

    /// - Returns: nil when the connection is broken.
    private func receive(into buffer: UnsafeMutableRawBufferPointer) -> Int? {
        state.withLock { state in
            if !state.isIdle { state.progress.resume(now: clock()) }
        }
        let count = try? link.read(into: buffer)
        state.withLock { state in
            let now = clock()
            state.progress.record(count ?? 0, now: now)
            state.progress.suspend(now: now)
            if state.isIdle, count ?? 0 > 0 { (state.since, state.isIdle) = (now, false) }
        }
        return count
    }

    /// Writes bytes, and counts each part as soon as the send buffer has accepted it.
    /// - Parameter onAccepted: called with the number of bytes of each part.
    func write(_ bytes: UnsafeRawBufferPointer, onAccepted: (Int) -> Void = { _ in }) throws(LinkError) {
        state.withLock { $0.progress.resume(now: clock()) }
        defer { state.withLock { $0.progress.suspend(now: clock()) } }
        var position = 0
        while position < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[position...])
            var count = try link.writeWithoutBlocking(rest)
            if count == 0 {
                count = min(rest.count, Self.blockingByteCount)
                try link.write(UnsafeRawBufferPointer(rebasing: rest[..<count]))
            }
            position += count
            state.withLock { $0.progress.record(count, now: clock()) }
            onAccepted(count)
        }
    }

    /// Writes a response.
    /// - Returns: false when the connection is broken.
    func send(_ response: [UInt8]) -> Bool {
        response.withUnsafeBytes { bytes in (try? write(bytes)) != nil }
    }

    // MARK: Requests

    /// Limits the time for the body of the present request.
    func limitBody(until deadline: MonotonicInstant) { state.withLock { $0.bodyDeadline = deadline } }

    /// Records that a request, or a part of it, is complete.
    func recordRequest() { state.withLock { ($0.isIdle, $0.bodyDeadline) = (false, nil) } }

    /// Records that the present request makes progress, which extends its timeout.
    func touch() { state.withLock { $0.since = clock() } }

    /// Records that the response waits for a change where nothing is under way: the connection gives way like one without a request.
    func recordIdleWait() { state.withLock { $0.isWaitingIdly = true } }

    /// Records that the client knows the page's key, or a path that follows from it.
    func recordAuthentic() { state.withLock { $0.isAuthentic = true } }

    /// Records that the response is written.
    func endRequest() {
        state.withLock { ($0.since, $0.isIdle, $0.isWaitingIdly) = (clock(), true, false) }
    }
}
