internal import NearshareInterfaces

/// The bounded queue of notifications to centrals.
///
/// BlueZ notifies all subscribed centrals at once, while the mesh writes a frame to each of its links. So a frame that was
/// notified for one central has reached the others as well, and their copies are dropped. The mesh submits a frame at most once
/// to each link, and never to the link on which it arrived: such a link's copy stays expected until ``recentCapacity`` other
/// frames have followed. A later frame of the same bytes is dropped meanwhile; the central's duplicate filter would drop it as
/// well.
final class NotificationQueue: Sendable {
    /// A frame that was notified for one central, and the other centrals for which the mesh will submit it as well.
    private struct Delivered {
        var frame: [UInt8]
        var expectedCopies: Set<String>
    }

    private enum Outcome: Equatable {
        case appended(wasEmpty: Bool)
        case duplicate
        case disconnected
    }

    private struct State {
        var frames: [[UInt8]] = []
        /// Object paths of the subscribed centrals.
        var subscribers: Set<String> = []
        var recent: [Delivered] = []
        var isClosed = false
    }

    /// Limit on queued frames, as in bitchat's iOS app (specification, section 11).
    static let capacity = 128
    /// Limit on remembered frames: half the queue, as the mesh submits the copies of one frame shortly after each other.
    private static let recentCapacity = 64

    private let state = Monitor(State())
    private let onNonEmpty: @Sendable () -> Void

    /// - Parameter onNonEmpty: called, from any thread, when the queue is no longer empty.
    init(onNonEmpty: @escaping @Sendable () -> Void) {
        self.onNonEmpty = onNonEmpty
    }

    func subscribe(_ central: String) {
        state.update { _ = $0.subscribers.insert(central) }
    }

    func unsubscribe(_ central: String) {
        state.update { state in
            state.subscribers.remove(central)
            // The next central would get them.
            if state.subscribers.isEmpty { state.frames = [] }
            for index in state.recent.indices { state.recent[index].expectedCopies.remove(central) }
        }
    }

    /// Rejects all further frames; queued ones can still be removed.
    func close() {
        state.update { $0.isClosed = true }
    }

    /// Blocks while the queue is full.
    /// - Returns: false when the central is gone, or the queue closed.
    func append(_ frame: [UInt8], for central: String) -> Bool {
        let outcome = state.waitUntilReady { state -> MonitorWait<Outcome> in
            guard !state.isClosed, state.subscribers.contains(central) else { return .ready(.disconnected) }
            if let index = state.recent.firstIndex(where: { $0.expectedCopies.contains(central) && $0.frame == frame }) {
                state.recent[index].expectedCopies.remove(central)
                return .ready(.duplicate)
            }
            guard state.frames.count < Self.capacity else { return .waiting() }
            state.frames.append(frame)
            state.recent.append(Delivered(frame: frame, expectedCopies: state.subscribers.subtracting([central])))
            if state.recent.count > Self.recentCapacity { state.recent.removeFirst() }
            return .ready(.appended(wasEmpty: state.frames.count == 1))
        }
        if outcome == .appended(wasEmpty: true) { onNonEmpty() }
        return outcome != .disconnected
    }

    /// Removes and returns the oldest frame; nil for an empty queue.
    func popFirst() -> [UInt8]? {
        state.update { $0.frames.isEmpty ? nil : $0.frames.removeFirst() }
    }
}
