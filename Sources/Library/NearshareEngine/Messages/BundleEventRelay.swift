internal import Synchronization

/// Passes the events of a ``BundleDriver`` to a handler that is created after it; earlier events are queued.
final class BundleEventRelay: Sendable {
    private struct State {
        var handler: (@Sendable (BundleDriverEvent) -> Void)?
        var waiting: [BundleDriverEvent] = []
    }

    private let state = Mutex(State())

    /// Called by the driver's thread alone. The lock is held during the call, so that queued events keep their order.
    func receive(_ event: BundleDriverEvent) {
        state.withLock { state in
            if let handler = state.handler { handler(event) } else { state.waiting.append(event) }
        }
    }

    func attach(_ handler: @escaping @Sendable (BundleDriverEvent) -> Void) {
        state.withLock { state in
            for event in state.waiting { handler(event) }
            state.waiting = []
            state.handler = handler
        }
    }
}
