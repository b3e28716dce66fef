internal import Synchronization

/// Tells several listeners the same. Who listens too slowly loses what is oldest.
package final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var listeners: [Int: AsyncStream<Element>.Continuation] = [:]
        var lastListener = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let bound: Int

    /// - Parameter bound: as many elements wait for one listener at most.
    package init(bound: Int = 1_024) {
        self.bound = bound
    }

    /// What is told from now on, until it is finished.
    package func listen() -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream<Element>.makeStream(bufferingPolicy: .bufferingNewest(bound))
        let number: Int? = state.withLock { state in
            guard !state.isFinished else { return nil }
            state.lastListener += 1
            state.listeners[state.lastListener] = continuation
            return state.lastListener
        }
        if let number {
            continuation.onTermination = { [weak self] _ in
                _ = self?.state.withLock { $0.listeners.removeValue(forKey: number) }
            }
        } else {
            continuation.finish()
        }
        return stream
    }

    package var hasListeners: Bool { state.withLock { !$0.listeners.isEmpty } }

    package func tell(_ element: Element) {
        for listener in state.withLock({ Array($0.listeners.values) }) { listener.yield(element) }
    }

    package func finish() {
        let listeners = state.withLock { state in
            state.isFinished = true
            defer { state.listeners = [:] }
            return Array(state.listeners.values)
        }
        for listener in listeners { listener.finish() }
    }
}
