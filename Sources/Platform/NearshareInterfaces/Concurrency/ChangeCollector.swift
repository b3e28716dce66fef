package import NearshareBase
internal import Synchronization

/// Collects what has changed while earlier changes are being handled, each once. The handler, whose work grows with the size of
/// a table, gets a bounded share of the time, however fast the changes come (M16).
package final class ChangeCollector<Element: Hashable & Sendable>: Sendable {
    private let pending = Mutex<Set<Element>>([])
    private let signals: AsyncStream<Void>
    private let signal: AsyncStream<Void>.Continuation
    private let clock: @Sendable () -> MonotonicInstant

    package init(clock: @escaping @Sendable () -> MonotonicInstant) {
        self.clock = clock
        (signals, signal) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
    }

    /// Records a change, without effect when as many others wait as a handler can be expected to need.
    package func insert(_ element: Element) {
        pending.withLock { if $0.count < Self.capacity { $0.insert(element) } }
        signal.yield()
    }

    /// Ends ``run(_:)`` after the changes that wait.
    package func finish() { signal.finish() }

    /// Handles changes until ``finish()``: the first one at once, those that follow after a pause of nine times the time that the
    /// handler took: several handlers of one flood share a core.
    package func run(_ handle: (Set<Element>) async -> Void) async {
        for await _ in signals {
            let changes = pending.withLock { pending in
                defer { pending = [] }
                return pending
            }
            guard !changes.isEmpty else { continue }
            let start = clock()
            await handle(changes)
            let pause = min((clock() - start) * 9, Self.longestPause)
            if pause > .zero { try? await Task.sleep(for: pause) }
        }
    }

    /// More than a node knows peers.
    private static var capacity: Int { 4_096 }
    private static var longestPause: Duration { .seconds(1) }
}
