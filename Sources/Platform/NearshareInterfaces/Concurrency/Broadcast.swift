internal import Synchronization

/// Publishes elements to any number of subscribers. A subscriber that reads too slowly loses the oldest elements.
package final class Broadcast<Element: Sendable>: Sendable {
    private struct State {
        var subscribers: [Int: AsyncStream<Element>.Continuation] = [:]
        var lastSubscriber = 0
        var isFinished = false
    }

    private let state = Mutex(State())
    private let capacity: Int
    private let onUnsubscribe: @Sendable () -> Void

    /// - Parameters:
    ///   - bound: limit on the elements that are buffered for one subscriber.
    ///   - onUnsubscribe: called after a subscriber has released its stream.
    package init(bound: Int = 1_024, onUnsubscribe: @escaping @Sendable () -> Void = {}) {
        capacity = bound
        self.onUnsubscribe = onUnsubscribe
    }

    /// The elements published from now on, after others for this subscriber alone. Ends with ``finish()``.
    package func subscribe(after first: [Element] = []) -> AsyncStream<Element> {
        let (stream, continuation) = AsyncStream<Element>.makeStream(bufferingPolicy: .bufferingNewest(capacity))
        for element in first { continuation.yield(element) }
        let number: Int? = state.withLock { state in
            guard !state.isFinished else { return nil }
            state.lastSubscriber += 1
            state.subscribers[state.lastSubscriber] = continuation
            return state.lastSubscriber
        }
        if let number {
            continuation.onTermination = { [weak self] _ in
                let wasSubscribed = self?.state.withLock { $0.subscribers.removeValue(forKey: number) } != nil
                if wasSubscribed { self?.onUnsubscribe() }
            }
        } else {
            continuation.finish()
        }
        return stream
    }

    package var hasSubscribers: Bool { state.withLock { !$0.subscribers.isEmpty } }

    package func publish(_ element: Element) {
        for subscriber in state.withLock({ Array($0.subscribers.values) }) { subscriber.yield(element) }
    }

    /// Ends the streams of all subscribers, present and future.
    package func finish() {
        let subscribers = state.withLock { state in
            state.isFinished = true
            defer { state.subscribers = [:] }
            return Array(state.subscribers.values)
        }
        for subscriber in subscribers { subscriber.finish() }
    }
}
