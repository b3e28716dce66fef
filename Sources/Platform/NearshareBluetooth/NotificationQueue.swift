internal import NearshareInterfaces

/// What is to be notified to centrals, bounded.
///
/// BlueZ has no notification for one central: each goes to all that have subscribed. The mesh writes a frame to each of its links; so
/// a frame that has gone out for one central has reached the others too, and theirs is taken for done.
final class NotificationQueue: Sendable {
    private struct State {
        var frames: [[UInt8]] = []
        var centrals: Set<String> = []
        /// The latest frames, with the centrals that have got each without having been its reason yet.
        var latest: [(frame: [UInt8], owed: Set<String>)] = []
        var isClosed = false
    }

    /// As many as a phone holds (bitchat specification, section 11).
    static let capacity = 128
    private static let memory = 64

    private let state = Monitor(State())
    private let onReady: @Sendable () -> Void

    /// - Parameter onReady: is called, from any thread, when the queue is no longer empty.
    init(onReady: @escaping @Sendable () -> Void) {
        self.onReady = onReady
    }

    func add(_ central: String) {
        state.update { _ = $0.centrals.insert(central) }
    }

    func remove(_ central: String) {
        state.update { state in
            state.centrals.remove(central)
            for index in state.latest.indices { state.latest[index].owed.remove(central) }
        }
    }

    /// Nothing is taken any more.
    func close() {
        state.update { $0.isClosed = true }
    }

    /// Blocks while the queue is full.
    /// - Returns: false when the central is gone.
    func append(_ frame: [UInt8], for central: String) -> Bool {
        let isFirst: Bool? = state.wait { state -> Bool?? in
            guard !state.isClosed, state.centrals.contains(central) else { return .some(nil) }
            if let index = state.latest.firstIndex(where: { $0.owed.contains(central) && $0.frame == frame }) {
                state.latest[index].owed.remove(central)
                return .some(false)
            }
            guard state.frames.count < Self.capacity else { return nil }
            state.frames.append(frame)
            state.latest.append((frame, state.centrals.subtracting([central])))
            if state.latest.count > Self.memory { state.latest.removeFirst() }
            return .some(state.frames.count == 1)
        }
        if isFirst == true { onReady() }
        return isFirst != nil
    }

    func removeFirst() -> [UInt8]? {
        state.update { $0.frames.isEmpty ? nil : $0.frames.removeFirst() }
    }
}
