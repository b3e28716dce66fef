package import NearshareInterfaces

/// What a recorder is doing.
///
///     idle ─started─► recording ⇄ paused
///                         └────┬─────┘
///                              ▼
///                          finished
package struct RecorderMachine: Sendable {
    /// Why it ended. Each keeps what was recorded.
    package enum Ending: Sendable, Hashable {
        /// Enter.
        case asked
        /// Ctrl-C.
        case interrupted
        /// The process is to end: SIGTERM, or the terminal was closed.
        case terminated
        /// As long as was asked for.
        case duration
        /// The path carries no more.
        case limit
        /// The file that stands in for a microphone is at its end.
        case sourceEnded
        /// No microphone any more, no space any more.
        case failed(AudioError)
    }

    package enum State: Sendable, Hashable {
        case idle
        case recording
        case paused
        case finished(Ending)
    }

    package private(set) var state = State.idle
    /// Frames that were recorded, pauses not counted.
    package private(set) var frames = 0
    /// Where recording ends by itself.
    package var maximumFrames = Int.max

    package init() {}

    package var ending: Ending? {
        if case .finished(let ending) = state { return ending }
        return nil
    }

    /// The device gives sound.
    package mutating func started() {
        if state == .idle { state = .recording }
    }

    /// Space was pressed. Before there is sound, and after the end, it means nothing.
    package mutating func togglePause() {
        switch state {
        case .recording: state = .paused
        case .paused: state = .recording
        case .idle, .finished: break
        }
    }

    /// The device has brought frames.
    /// - Returns: how many of them, from the first on, belong to the recording.
    package mutating func take(_ count: Int) -> Int {
        started()
        guard state == .recording else { return 0 }
        let kept = min(count, maximumFrames - frames)
        frames += kept
        if frames == maximumFrames { state = .finished(.duration) }
        return kept
    }

    /// Something ends it. What comes first counts: a person who presses Enter at the limit has pressed Enter too late.
    package mutating func end(_ ending: Ending) {
        if case .finished = state { return }
        state = .finished(ending)
    }
}
