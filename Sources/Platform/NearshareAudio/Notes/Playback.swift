package import NearshareInterfaces
internal import Synchronization

/// The playback of one note. ``run(_:on:)`` plays on the calling thread; all other members may be used from any thread.
package final class Playback: Sendable {
    package struct Snapshot: Sendable {
        package var position = Duration.zero
        package var isPaused = false
    }

    private struct State {
        var snapshot = Snapshot()
        var isStopped = false
        /// The requested change of position, in seconds.
        var pendingSkip = 0
    }

    private let state = Mutex(State())
    /// Ends the wait of a paused playback.
    private let wakeup = EventFD()
    private let changeSignal = Broadcast<Void>(bound: 1)

    /// Size of the buffer, in samples: the longest Opus packet, 120 ms at 48 kHz, of two channels.
    private static let bufferCount = 5760 * 2

    package init() {}

    package var snapshot: Snapshot { state.withLock { $0.snapshot } }

    /// Emits after ``snapshot`` has changed, once for several changes that the consumer has not seen.
    package func changes() -> AsyncStream<Void> { changeSignal.subscribe() }

    package func togglePause() {
        state.withLock { $0.snapshot.isPaused.toggle() }
        wakeup.signal()
        changeSignal.publish(())
    }

    package func stop() {
        state.withLock { $0.isStopped = true }
        wakeup.signal()
    }

    /// Skips forwards, or backwards for a negative duration. Limited to one day.
    package func skip(_ duration: Duration) {
        let seconds = min(max(duration.components.seconds, -86_400), 86_400)
        state.withLock { $0.pendingSkip = min(max($0.pendingSkip + Int(seconds), -86_400), 86_400) }
        wakeup.signal()
    }

    /// Plays until the end or ``stop()``.
    /// - Returns: false when it was stopped.
    package func run(_ note: any NoteSamples, on output: any AudioOutput) throws(AudioError) -> Bool {
        guard wakeup.isOpen else { throw AudioError(.failed, "could not create a wake-up descriptor") }
        let (rate, channels) = (note.format.rate, note.format.channels)
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: Self.bufferCount)
        defer { buffer.deallocate() }
        var pending = buffer[..<0]
        var isPaused = false
        var isDecoded = false
        while true {
            let (skip, wantsPause, isStopped) = state.withLock { state in
                defer { state.pendingSkip = 0 }
                return (state.pendingSkip, state.snapshot.isPaused, state.isStopped)
            }
            if isStopped {
                try output.discard()
                return false
            }
            if skip != 0 {
                let played = note.position - pending.count / channels - output.pendingFrames
                try output.discard()
                try note.seek(to: played + skip * rate)
                pending = buffer[..<0]
                isDecoded = false
            }
            if wantsPause != isPaused {
                try output.setPaused(wantsPause)
                isPaused = wantsPause
            }
            if pending.isEmpty, !isDecoded {
                let count = try note.read(into: buffer)
                pending = buffer[..<(count * channels)]
                isDecoded = count == 0
            }
            if isPaused {
                // The new position after a skip is not left for the next change.
                updatePosition(note.position - pending.count / channels - output.pendingFrames, rate: rate)
                try output.idle(until: wakeup)
                // Before the state is read, so that no later signal is lost.
                wakeup.reset()
            } else if isDecoded {
                if try output.drain() {
                    updatePosition(note.frames, rate: rate)
                    return true
                }
            } else {
                let taken = try output.write(UnsafeBufferPointer(rebasing: pending))
                pending = pending.dropFirst(taken * channels)
            }
            updatePosition(note.position - pending.count / channels - output.pendingFrames, rate: rate)
        }
    }

    private func updatePosition(_ frame: Int, rate: Int) {
        let position = Duration.frames(max(0, frame), rate: rate)
        let hasChanged = state.withLock { state in
            defer { state.snapshot.position = position }
            return state.snapshot.position != position
        }
        if hasChanged { changeSignal.publish(()) }
    }
}
