package import NearshareInterfaces

/// The state machine of a recording. Each state holds what is valid in it.
///
///     idle ─frames─► recording ⇄ paused
///      │                 └────┬────┘
///      └──────stop────────────▼
///                         finished
package enum RecorderMachine: ~Copyable, Sendable {
    /// The cause of a recording's end. Every one keeps what was recorded.
    package enum StopReason: Sendable, Hashable {
        /// The user has stopped it (Enter).
        case requested
        /// Ctrl-C.
        case interrupted
        /// SIGTERM, or the terminal was closed.
        case terminated
        /// The maximum duration is reached.
        case duration
        /// The size limit of the transport is reached.
        case limit
        /// The end of the input file.
        case sourceEnded
        /// The microphone was disconnected, or the disk is full.
        case failed(AudioError)
    }

    /// The state without its payload, for displays.
    package enum Phase: Sendable, Hashable {
        case idle
        case recording
        case paused
        case finished(StopReason)
    }

    /// The frames recorded so far, pauses not included, and their limit.
    package struct Progress: Sendable, Hashable {
        package fileprivate(set) var frames = 0
        package let maximumFrames: Int

        /// - Returns: the number of frames that are within the limit.
        fileprivate mutating func add(_ count: Int) -> Int {
            let accepted = min(count, maximumFrames - frames)
            frames += accepted
            return accepted
        }

        /// The number of frames until recording stops by itself; nil without a limit.
        fileprivate var framesLeft: Int? { maximumFrames == .max ? nil : maximumFrames - frames }

        fileprivate var isComplete: Bool { frames == maximumFrames }
    }

    /// No sound has been received yet.
    case idle(Progress)
    case recording(Progress)
    case paused(Progress)
    case finished(Progress, StopReason)

    /// - Parameter maximumFrames: the length at which recording stops by itself.
    package init(maximumFrames: Int = .max) {
        self = .idle(Progress(maximumFrames: maximumFrames))
    }

    package var phase: Phase {
        switch self {
        case .idle: .idle
        case .recording: .recording
        case .paused: .paused
        case .finished(_, let reason): .finished(reason)
        }
    }

    package var stopReason: StopReason? {
        if case .finished(let reason) = phase { reason } else { nil }
    }

    /// The number of recorded frames.
    package var frames: Int { progress.frames }
    /// The number of frames until recording stops by itself; nil without a limit.
    package var framesLeft: Int? { progress.framesLeft }

    private var progress: Progress {
        switch self {
        case .idle(let progress): progress
        case .recording(let progress): progress
        case .paused(let progress): progress
        case .finished(let progress, _): progress
        }
    }

    /// Pauses or resumes. Without effect before the first sound and after the end.
    package mutating func togglePause() {
        switch consume self {
        case .recording(let progress): self = .paused(progress)
        case .paused(let progress): self = .recording(progress)
        case .idle(let progress): self = .idle(progress)
        case .finished(let progress, let reason): self = .finished(progress, reason)
        }
    }

    /// Handles frames from the device.
    /// - Returns: the number of frames, from the first on, that belong to the recording.
    package mutating func receive(frames count: Int) -> Int {
        switch consume self {
        case .idle(var progress):
            let accepted = progress.add(count)
            self = progress.isComplete ? .finished(progress, .duration) : .recording(progress)
            return accepted
        case .recording(var progress):
            let accepted = progress.add(count)
            self = progress.isComplete ? .finished(progress, .duration) : .recording(progress)
            return accepted
        case .paused(let progress):
            self = .paused(progress)
            return 0
        case .finished(let progress, let reason):
            self = .finished(progress, reason)
            return 0
        }
    }

    /// Stops the recording. The first reason counts.
    package mutating func stop(_ reason: StopReason) {
        switch consume self {
        case .idle(let progress): self = .finished(progress, reason)
        case .recording(let progress): self = .finished(progress, reason)
        case .paused(let progress): self = .finished(progress, reason)
        case .finished(let progress, let earlier): self = .finished(progress, earlier)
        }
    }
}
