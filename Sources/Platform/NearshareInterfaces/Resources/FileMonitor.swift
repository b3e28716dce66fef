/// Changes of a few of the user's files, by this process or another one.
package protocol FileMonitor: AnyObject, Sendable {
    /// Blocks until the files may have changed since the last call.
    /// - Returns: false after ``close()``.
    func waitForChange() -> Bool

    /// Wakes ``waitForChange()``. May be called from any thread.
    func close()
}

/// A monitor of files whose changes the owner reports.
package final class InMemoryFileMonitor: FileMonitor {
    private struct State {
        var hasChanged = false
        /// Whether a thread waits, and so has handled the changes before.
        var isWaiting = false
        var isClosed = false
    }

    private let state = Monitor(State())

    package init() {}

    /// Reports a change, and blocks until it is handled: until the next call of ``waitForChange()``, or ``close()``.
    package func reportChange() {
        state.update { $0.hasChanged = true }
        state.wait { state -> Void? in
            state.isClosed || (state.isWaiting && !state.hasChanged) ? () : nil
        }
    }

    package func waitForChange() -> Bool {
        state.update { $0.isWaiting = true }
        return state.wait { state -> Bool? in
            if state.isClosed { return false }
            guard state.hasChanged else { return nil }
            (state.hasChanged, state.isWaiting) = (false, false)
            return true
        }
    }

    package func close() { state.update { $0.isClosed = true } }
}
