internal import NearshareBase
package import NearshareInterfaces
internal import Synchronization

/// One recording from its first sound to a whole file. ``run(from:into:settings:started:)`` records on the calling thread;
/// everything else may be called from any.
package final class Recording: Sendable {
    /// What a screen shows.
    package struct Snapshot: Sendable {
        package var state = RecorderMachine.State.idle
        /// Recorded so far, pauses not counted.
        package var elapsed = Duration.zero
        /// 0 to 1.
        package var level = 0.0
        package var isClipping = false
        /// Anything but silence was heard, or silence counts as well.
        package var hasSound = false
        /// How loud the last moments were, the newest last, each 0 to 1.
        package var recentLevels: [Double] = []
        package var byteCount: UInt64 = 0
        /// How much longer one may speak; nil where nothing limits it.
        package var secondsLeft: Int?

        /// Before anything was recorded.
        package init() {}
    }

    /// What came of it.
    package struct Result: Sendable {
        package var ending: RecorderMachine.Ending
        package var duration: Duration
        package var byteCount: UInt64
        /// Frames that the device had and that never came; silence stands in their place.
        package var lostFrames: UInt64
        /// What was recorded, silence at both ends included.
        package var recorded: Duration
        /// Nothing is in the file: there was no sound, or no room for any.
        package var isEmpty: Bool
    }

    private struct State {
        var machine: RecorderMachine
        var snapshot = Snapshot()
    }

    private let state: Mutex<State>
    private let trims: Bool
    private let maximumDuration: Duration?

    /// One value of ``Snapshot/recentLevels`` stands for this part of a second.
    package static let levelsPerSecond = 10
    /// Frames that one reading may bring: half a second at 16,000 a second.
    private static let bufferFrames = 8192

    /// - Parameters:
    ///   - trims: leave out the silence at both ends.
    ///   - maximumDuration: where recording ends by itself.
    package init(trims: Bool, maximumDuration: Duration? = nil) {
        self.trims = trims
        self.maximumDuration = maximumDuration
        state = Mutex(State(machine: RecorderMachine()))
    }

    package var snapshot: Snapshot {
        state.withLock { state in
            state.snapshot.state = state.machine.state
            return state.snapshot
        }
    }

    /// Pauses, or goes on.
    package func togglePause() { state.withLock { $0.machine.togglePause() } }

    /// Ends it soon; what was recorded is kept.
    package func end(_ ending: RecorderMachine.Ending) { state.withLock { $0.machine.end(ending) } }

    /// Records until something ends it.
    /// - Parameters:
    ///   - input: of one channel.
    ///   - file: empty.
    ///   - started: called once, when the first sound has come.
    /// - Throws: when nothing can be recorded or kept at all. What goes wrong later is the result's ending.
    package func run(
        from input: any AudioInput, into file: NoteFile, settings: NoteSettings, started: () -> Void = {}
    ) throws(AudioError) -> Result {
        precondition(input.format.channels == 1, "a voice note has one channel")
        let rate = input.format.rate
        let writer = try NoteWriter(to: file, rate: rate, settings: settings)
        var gate = SilenceTrimmer(rate: rate, isOn: trims)
        var meter = LevelMeter(rate: rate)
        var history = LevelHistory(rate: rate)
        if let maximumDuration { state.withLock { $0.machine.maximumFrames = maximumDuration.frames(rate: rate) } }
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: Self.bufferFrames)
        defer { buffer.deallocate() }
        while state.withLock({ $0.machine.ending }) == nil {
            do throws(AudioError) {
                let count: Int
                switch try input.read(into: buffer) {
                case .frames(let frames): count = frames
                case .timedOut: continue
                case .end:
                    end(.sourceEnded)
                    continue
                }
                if state.withLock({ $0.machine.state }) == .idle { started() }
                let kept = state.withLock { $0.machine.take(count) }
                let samples = UnsafeBufferPointer(rebasing: buffer[..<kept])
                meter.take(samples)
                history.take(samples)
                try gate.take(samples) { (piece, soundEnd) throws(AudioError) in
                    try writer.write(piece, soundEnd: soundEnd)
                }
            } catch {
                end(.failed(error))
            }
            state.withLock { state in
                state.snapshot.elapsed = .frames(state.machine.frames, rate: rate)
                state.snapshot.level = state.machine.state == .paused ? 0 : meter.level
                state.snapshot.isClipping = meter.isClipping
                state.snapshot.hasSound = gate.hasSound
                state.snapshot.recentLevels = history.levels
                state.snapshot.byteCount = writer.byteCount
                state.snapshot.secondsLeft = writer.secondsLeft
                if writer.isAtLimit { state.machine.end(.limit) }
            }
        }
        let isWhole = try writer.finish(frames: gate.frames)
        if let failure = writer.failure { end(.failed(failure)) }
        let (ending, frames) = state.withLock { ($0.machine.ending ?? .sourceEnded, $0.machine.frames) }
        return Result(
            ending: ending, duration: writer.duration, byteCount: file.size, lostFrames: input.lostFrames,
            recorded: .frames(frames, rate: rate), isEmpty: !isWhole || !gate.hasSound || frames == 0)
    }
}

/// How loud the last seconds were, for a picture that moves.
struct LevelHistory: Sendable {
    private(set) var levels: [Double] = []
    private let framesPerLevel: Int
    private var highest: UInt16 = 0
    private var filled = 0

    private static let keptLevels = 240

    init(rate: Int) {
        framesPerLevel = max(1, rate / Recording.levelsPerSecond)
    }

    mutating func take(_ samples: UnsafeBufferPointer<Int16>) {
        var rest = samples[...]
        while !rest.isEmpty {
            let piece = rest.prefix(framesPerLevel - filled)
            highest = max(highest, loudest(piece))
            filled += piece.count
            rest = rest.dropFirst(piece.count)
            guard filled == framesPerLevel else { continue }
            // Square roots, as in a note's waveform.
            levels.append((Double(highest) / 32_768).squareRoot())
            if levels.count > Self.keptLevels { levels.removeFirst() }
            highest = 0
            filled = 0
        }
    }
}

extension Duration {
    static func frames(_ count: Int, rate: Int) -> Duration {
        .nanoseconds(Int64(Double(count) / Double(rate) * 1e9))
    }

    func frames(rate: Int) -> Int { Int(min(inSeconds * Double(rate), 1e15).rounded()) }
}
