internal import Synchronization

/// The reservation of standard output, which holds one content: its reader could not tell where another one begins.
final class StandardOutputReservation: Sendable {
    private enum State: Sendable {
        case free
        /// Reserved for a running transfer.
        case reserved
        /// Contains a part of a content at least.
        case used
        /// Closed by the program that reads it.
        case closed
    }

    private let state = Mutex(State.free)

    /// Whether a content was written at least in part, or none can be any more.
    var isUsed: Bool { state.withLock { $0 == .used || $0 == .closed } }

    /// Whether the program that reads standard output has closed it.
    var isClosed: Bool { state.withLock { $0 == .closed } }

    /// - Returns: false while another transfer uses standard output, or after one has.
    func reserve() -> Bool {
        state.withLock { state in
            guard state == .free else { return false }
            state = .reserved
            return true
        }
    }

    /// Records that the first bytes were written.
    func recordUse() { state.withLock { $0 = .used } }

    /// Records that the program that reads standard output has closed it.
    func recordClosure() { state.withLock { $0 = .closed } }

    /// Ends the reservation of a transfer that has written nothing. No effect otherwise.
    func release() { state.withLock { if $0 == .reserved { $0 = .free } } }
}
