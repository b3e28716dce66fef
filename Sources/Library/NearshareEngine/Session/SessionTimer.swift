internal import NearshareBase
internal import NearshareInterfaces

/// The wait of a session's thread for the next deadline.
final class SessionTimer: Sendable {
    enum End: Sendable, Hashable {
        /// A deadline has passed, or deadlines have changed.
        case due
        case stopped
    }

    private struct State {
        var isDue = false
        var isStopped = false
    }

    private let state = Monitor(State())

    /// Ends the current wait, or the next one: deadlines have changed.
    func wake() { state.update { $0.isDue = true } }

    /// Ends all waits.
    func stop() { state.update { $0.isStopped = true } }

    /// Called before the deadlines are read, so that no later change is missed.
    func reset() { state.update { $0.isDue = false } }

    /// Blocks.
    /// - Parameter deadline: nil for none.
    func wait(until deadline: MonotonicInstant?) -> End {
        state.wait(untilNanoseconds: deadline?.nanoseconds ?? .max) { state -> End? in
            state.isStopped ? .stopped : state.isDue ? .due : nil
        } ?? .due
    }
}
