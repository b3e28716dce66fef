internal import NearshareInterfaces
internal import Synchronization

/// The order of the questions on the terminal: one at a time. With two, an answer could go to the wrong one, as several operations
/// of a process run at once and read the same keys.
enum QuestionTurn {
    private struct State {
        var isAsking = false
        /// The questions that wait, the oldest first.
        var waiting: [Promise<Void>] = []
    }

    private static let state = Mutex(State())

    /// Runs `body`, which asks a question, when the questions before it have ended.
    /// - Returns: nil when the task is cancelled first.
    static func run<Answer: Sendable>(_ body: @Sendable () async -> Answer) async -> Answer? {
        let turn = Promise<Void>()
        state.withLock { state in
            if state.isAsking { return state.waiting.append(turn) }
            state.isAsking = true
            turn.fulfil()
        }
        guard await turn.value != nil else {
            let wasWaiting = state.withLock { state in
                let index = state.waiting.firstIndex { $0 === turn }
                if let index { state.waiting.remove(at: index) }
                return index != nil
            }
            // A race: the turn came just as the task was cancelled.
            if !wasWaiting { end() }
            return nil
        }
        defer { end() }
        return await body()
    }

    private static func end() {
        let next = state.withLock { state -> Promise<Void>? in
            guard !state.waiting.isEmpty else {
                state.isAsking = false
                return nil
            }
            return state.waiting.removeFirst()
        }
        next?.fulfil()
    }
}
