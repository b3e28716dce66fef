internal import NearshareInterfaces

/// The bounded queue of notifications to centrals.
///
/// BlueZ notifies all subscribed centrals at once, while the mesh writes a frame to each of its links. So a frame that was notified for one
/// central has reached the others as well, and their copies are dropped.
final class NotificationQueue: Sendable {
    private struct State {
        var frames: [[UInt8]] = []
        var centrals: Set<String> = []
        /// The latest frames, each with the centrals that have received it and whose own copy is still to come.
        var recent: [(frame: [UInt8], recipients: Set<String>)] = []
        var isClosed = false
    }

    /// The same as a phone's queue (bitchat specification, section 11).
    static let capacity = 128
    private static let recentCapacity = 64

    private let state = Monitor(State())
    private let onReady: @Sendable () -> Void

    /// - Parameter onReady: called, from any thread, when the queue is no longer empty.
    init(onReady: @escaping @Sendable () -> Void) {
        self.onReady = onReady
    }

    func add(_ central: String) {
        state.update { _ = $0.centrals.insert(central) }
    }

    func remove(_ central: String) {
        state.update { state in
            state.centrals.remove(central)
            for index in state.recent.indices { state.recent[index].recipients.remove(central) }
        }
    }

    /// Rejects all further frames.
    func close() {
        state.update { $0.isClosed = true }
    }

    /// Blocks while the queue is full.
    /// - Returns: false when the central is gone.
    func append(_ frame: [UInt8], for central: String) -> Bool {
        let isFirst: Bool? = state.wait { state -> Bool?? in
            guard !state.isClosed, state.centrals.contains(central) else { return .some(nil) }
            if let index = state.recent.firstIndex(where: { $0.recipients.contains(central) && $0.frame == frame }) {
                state.recent[index].recipients.remove(central)
                return .some(false)
            }
            guard state.frames.count < Self.capacity else { return nil }
            state.frames.append(frame)
            state.recent.append((frame, state.centrals.subtracting([central])))
            if state.recent.count > Self.recentCapacity { state.recent.removeFirst() }
            return .some(state.frames.count == 1)
        }
        if isFirst == true { onReady() }
        return isFirst != nil
    }

    func removeFirst() -> [UInt8]? {
        state.update { $0.frames.isEmpty ? nil : $0.frames.removeFirst() }
    }
}
