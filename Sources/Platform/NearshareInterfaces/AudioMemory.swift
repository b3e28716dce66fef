internal import Glibc
internal import Synchronization

/// A microphone that plays what a test gives it, and a loudspeaker that keeps what it hears: the twin of sound hardware.
package final class InMemoryAudio: AudioSystem {
    /// What the microphone does when its samples are used up, or earlier.
    package enum Ending: Sendable, Hashable {
        /// There is nothing more, as in a file.
        case end
        /// The device vanishes.
        case failure(AudioError)
        /// It stays there, and nothing comes.
        case silence
    }

    private struct State {
        var heard: [Int16] = []
        var isPaused = false
    }

    private let samples: [Int16]
    private let ending: Ending
    private let lost: UInt64
    private let burst: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - samples: frames that the microphone brings, in whatever format it is opened.
    ///   - ending: what comes after them.
    ///   - lost: frames that it says it has lost.
    ///   - burst: frames that one reading brings at the most.
    package init(_ samples: [Int16] = [], ending: Ending = .end, lost: UInt64 = 0, burst: Int = 320) {
        self.samples = samples
        self.ending = ending
        self.lost = lost
        self.burst = burst
    }

    package var title: String { "memory" }

    /// What the loudspeaker was given.
    package var heard: [Int16] { state.withLock { $0.heard } }

    package func devices() -> [AudioDevice] {
        [
            AudioDevice(name: "memory", title: "samples in memory", direction: .input, isDefault: true),
            AudioDevice(name: "memory", title: "samples in memory", direction: .output, isDefault: true),
        ]
    }

    package func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput {
        try Self.check(device)
        return Input(samples, format: format, ending: ending, lost: lost, burst: burst)
    }

    package func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput {
        try Self.check(device)
        return Output(self, format: format)
    }

    private static func check(_ device: String?) throws(AudioError) {
        guard device == nil || device == "memory" else { throw AudioError(.unavailable, "there is no device of that name") }
    }

    private final class Input: AudioInput {
        let format: AudioFormat
        let lostFrames: UInt64
        private var rest: ArraySlice<Int16>
        private let ending: Ending
        private let burst: Int

        init(_ samples: [Int16], format: AudioFormat, ending: Ending, lost: UInt64, burst: Int) {
            self.format = format
            lostFrames = lost
            rest = samples[...]
            self.ending = ending
            self.burst = burst
        }

        func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
            let count = min(rest.count, buffer.count, burst * format.channels) / format.channels * format.channels
            guard count > 0 else {
                switch ending {
                case .end: return .end
                case .failure(let error): throw error
                case .silence: return .nothing
                }
            }
            _ = buffer.update(fromContentsOf: rest.prefix(count))
            rest = rest.dropFirst(count)
            return .frames(count / format.channels)
        }

        func close() {}
    }

    private final class Output: AudioOutput {
        let format: AudioFormat
        private let audio: InMemoryAudio

        init(_ audio: InMemoryAudio, format: AudioFormat) {
            self.audio = audio
            self.format = format
        }

        var pendingFrames: Int { 0 }

        func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int {
            audio.state.withLock { state in
                guard !state.isPaused else { return 0 }
                state.heard.append(contentsOf: samples)
                return samples.count / format.channels
            }
        }

        func rest() { poll(nil, 0, 1) }

        func setPaused(_ isPaused: Bool) { audio.state.withLock { $0.isPaused = isPaused } }

        func discard() {}

        func drain() throws(AudioError) -> Bool { audio.state.withLock { !$0.isPaused } }

        func close() {}
    }
}
