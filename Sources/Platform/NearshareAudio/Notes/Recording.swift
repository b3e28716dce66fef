internal import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// One recording, from its first sound to a complete file. ``run(from:into:settings:started:)`` records on the calling thread;
/// all other members may be used from any thread.
package final class Recording: Sendable {
    /// The current state, for displays.
    package struct Snapshot: Sendable, Equatable {
        package var phase = RecorderMachine.Phase.idle
        package var isFinished: Bool { if case .finished = phase { true } else { false } }
        /// The recorded time, without pauses.
        package var elapsed = Duration.zero
        /// The current level, 0 to 1.
        package var level = 0.0
        package var isClipping = false
        /// Whether any sound other than silence was recorded; always true if silence is not trimmed.
        package var hasSound = false
        /// The levels of the last seconds, the newest last, each 0 to 1.
        package var recentLevels: [Double] = []
        package var byteCount: UInt64 = 0
        /// The time until recording stops by itself, in seconds; nil without a limit.
        package var secondsLeft: Int?

        /// The state before the recording.
        package init() {}
    }

    package struct Result: Sendable {
        package var reason: RecorderMachine.StopReason
        package var duration: Duration
        package var byteCount: UInt64
        /// Frames that the device lost and that are replaced by silence.
        package var lostFrames: UInt64
        /// The recorded time, including trimmed silence.
        package var recorded: Duration
        /// Whether the file is empty, because there was no sound or no space.
        package var isEmpty: Bool
    }

    private struct State: ~Copyable {
        var machine: RecorderMachine
        var snapshot = Snapshot()
    }

    /// Signalled when the recording is stopped, for inputs that wait for their source.
    package let stopping = EventFD()
    private let state: Mutex<State>
    private let changeSignal = Broadcast<Void>(bound: 1)
    private let trims: Bool
    private let maximumDuration: Duration?

    /// The number of values a second in ``Snapshot/recentLevels``.
    package static let levelsPerSecond = 10
    /// Limit on the frames of one read: half a second at 16,000 a second.
    private static let bufferFrames = 8192

    /// - Parameters:
    ///   - trims: whether silence at both ends is removed.
    ///   - maximumDuration: the length at which recording stops by itself.
    package init(trims: Bool, maximumDuration: Duration? = nil) {
        self.trims = trims
        self.maximumDuration = maximumDuration
        state = Mutex(State(machine: RecorderMachine()))
    }

    package var snapshot: Snapshot {
        state.withLock { state in
            state.snapshot.phase = state.machine.phase
            return state.snapshot
        }
    }

    /// Emits after ``snapshot`` has changed, once for several changes that the consumer has not seen.
    package func changes() -> AsyncStream<Void> { changeSignal.subscribe() }

    /// Pauses or resumes.
    package func togglePause() {
        state.withLock { $0.machine.togglePause() }
        changeSignal.publish(())
    }

    /// Requests the end of the recording; the recorded sound is kept.
    package func stop(_ reason: RecorderMachine.StopReason) {
        state.withLock { $0.machine.stop(reason) }
        stopping.signal()
        changeSignal.publish(())
    }

    /// Records until it is stopped.
    /// - Parameters:
    ///   - input: of one channel.
    ///   - file: empty.
    ///   - started: called once, before the first frames are recorded.
    /// - Throws: when nothing can be recorded or stored. Later errors are the result's stop reason.
    package func run(
        from input: any AudioInput, into file: NoteFile, settings: NoteSettings, started: () -> Void = {}
    ) throws(AudioError) -> Result {
        precondition(input.format.channels == 1, "a voice note has one channel")
        let rate = input.format.rate
        let writer = try NoteWriter(to: file, rate: rate, settings: settings)
        var analysis = SignalAnalysis(rate: rate, trims: trims)
        if let maximumDuration { limit(to: maximumDuration.frames(rate: rate)) }
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: Self.bufferFrames)
        defer { buffer.deallocate() }
        while state.withLock({ $0.machine.stopReason }) == nil {
            do throws(AudioError) {
                switch try input.read(into: buffer) {
                case .timedOut: continue
                case .end:
                    stop(.sourceEnded)
                    continue
                case .frames(let count):
                    if state.withLock({ $0.machine.phase }) == .idle { started() }
                    let accepted = state.withLock { $0.machine.receive(frames: count) }
                    try analysis.append(UnsafeBufferPointer(rebasing: buffer[..<accepted]), to: writer)
                }
            } catch {
                stop(.failed(error))
            }
            update(from: analysis, writer, rate: rate)
        }
        let hasContent = try writer.finish(frames: analysis.trimmer.frames)
        let (reason, frames) = state.withLock { ($0.machine.stopReason ?? .sourceEnded, $0.machine.frames) }
        return Result(
            // The end of the note is written after the stop, and can fail as well.
            reason: writer.failure.map { .failed($0) } ?? reason, duration: writer.duration, byteCount: file.size,
            lostFrames: input.lostFrames,
            recorded: .frames(frames, rate: rate), isEmpty: !hasContent || !analysis.trimmer.hasSound || frames == 0)
    }

    /// Sets the length at which recording stops by itself, unless it was stopped before it has begun.
    private func limit(to maximumFrames: Int) {
        state.withLock { state in
            if state.machine.phase == .idle { state.machine = RecorderMachine(maximumFrames: maximumFrames) }
        }
    }

    private func update(from analysis: SignalAnalysis, _ writer: NoteWriter, rate: Int) {
        let hasChanged = state.withLock { state in
            let earlier = state.snapshot
            state.snapshot.elapsed = .frames(state.machine.frames, rate: rate)
            state.snapshot.level = state.machine.phase == .paused ? 0 : analysis.meter.level
            state.snapshot.isClipping = analysis.meter.isClipping
            state.snapshot.hasSound = analysis.trimmer.hasSound
            state.snapshot.recentLevels = analysis.history.levels
            state.snapshot.byteCount = writer.byteCount
            let limits = [writer.secondsLeft, state.machine.framesLeft.map { $0 / rate }]
            state.snapshot.secondsLeft = limits.compactMap(\.self).min()
            if writer.isAtLimit { state.machine.stop(.limit) }
            return state.snapshot != earlier
        }
        if hasChanged { changeSignal.publish(()) }
    }
}

/// Everything that is measured of a recording while it runs.
struct SignalAnalysis {
    private(set) var trimmer: SilenceTrimmer
    private(set) var meter: LevelMeter
    private(set) var history: LevelHistory

    init(rate: Int, trims: Bool) {
        trimmer = SilenceTrimmer(rate: rate, isOn: trims)
        meter = LevelMeter(rate: rate)
        history = LevelHistory(rate: rate)
    }

    /// Measures frames and passes the ones that belong to the note to a writer.
    mutating func append(_ samples: UnsafeBufferPointer<Int16>, to writer: NoteWriter) throws(AudioError) {
        meter.append(samples)
        history.append(samples)
        try trimmer.append(samples) { (kept, soundEnd) throws(AudioError) in try writer.write(kept, soundEnd: soundEnd) }
    }
}

extension Duration {
    /// The length of frames. Safe for any number: the whole seconds are not multiplied.
    static func frames(_ count: Int, rate: Int) -> Duration {
        let (seconds, rest) = count.quotientAndRemainder(dividingBy: rate)
        return .seconds(seconds) + .nanoseconds(rest * 1_000_000_000 / rate)
    }

    func frames(rate: Int) -> Int { Int(min(inSeconds * Double(rate), 1e15).rounded()) }
}
