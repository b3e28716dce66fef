internal import Synchronization

/// The in-memory form of sound hardware: a microphone with given samples, and a loudspeaker that collects what it plays.
package final class InMemoryAudio: AudioSystem {
    /// The microphone's behaviour after its last sample.
    package enum Ending: Sendable, Hashable {
        /// The end of the input, as in a file.
        case end
        /// An error, such as a disconnected device.
        case failure(AudioError)
        /// No more sound from a connected device.
        case silence
    }

    private struct State {
        var played: [Int16] = []
        var isPaused = false
    }

    private let samples: [Int16]
    private let ending: Ending
    private let lost: UInt64
    private let burst: Int
    private let state = Mutex(State())

    /// - Parameters:
    ///   - samples: frames that the microphone returns, in whatever format it is opened.
    ///   - ending: the behaviour after them.
    ///   - lost: the number of frames that it reports as lost.
    ///   - burst: limit on the frames that one read returns.
    package init(_ samples: [Int16] = [], ending: Ending = .end, lost: UInt64 = 0, burst: Int = 320) {
        self.samples = samples
        self.ending = ending
        self.lost = lost
        self.burst = burst
    }

    package var title: String { "memory" }

    /// The samples that were written to the loudspeaker.
    package var played: [Int16] { state.withLock { $0.played } }

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
        guard device == nil || device == "memory" else { throw AudioError(.unavailable, "no such device") }
    }

    private final class Input: AudioInput {
        let format: AudioFormat
        let lostFrames: UInt64
        private var remaining: ArraySlice<Int16>
        private let ending: Ending
        private let burst: Int

        init(_ samples: [Int16], format: AudioFormat, ending: Ending, lost: UInt64, burst: Int) {
            self.format = format
            lostFrames = lost
            remaining = samples[...]
            self.ending = ending
            self.burst = burst
        }

        func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading {
            let count = min(remaining.count, buffer.count, burst * format.channels) / format.channels * format.channels
            guard count > 0 else {
                switch ending {
                case .end: return .end
                case .failure(let error): throw error
                case .silence: return .timedOut
                }
            }
            _ = buffer.update(fromContentsOf: remaining.prefix(count))
            remaining = remaining.dropFirst(count)
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
                state.played.append(contentsOf: samples)
                return samples.count / format.channels
            }
        }

        func idle(until wakeup: EventFD) {
            _ = DescriptorPoll.wait(for: wakeup.descriptor, .readable, timeout: nil)
        }

        func setPaused(_ isPaused: Bool) { audio.state.withLock { $0.isPaused = isPaused } }

        func discard() {}

        func drain() throws(AudioError) -> Bool { audio.state.withLock { !$0.isPaused } }

        func close() {}
    }
}
