package import NearshareInterfaces
internal import Synchronization

/// One note being heard. ``run(_:on:)`` plays on the calling thread; everything else may be called from any.
package final class Playback: Sendable {
    package struct Snapshot: Sendable {
        package var position = Duration.zero
        package var isPaused = false
    }

    private struct State {
        var snapshot = Snapshot()
        var isStopped = false
        /// Frames, there and back, that the person wants to move.
        var wish = 0
    }

    private let state = Mutex(State())

    private static let rate = OpusHead.granulesPerSecond
    /// libopusfile's longest packet, 120 ms, for two channels.
    private static let bufferCount = 5760 * 2

    package init() {}

    package var snapshot: Snapshot { state.withLock { $0.snapshot } }

    package func togglePause() { state.withLock { $0.snapshot.isPaused.toggle() } }

    package func stop() { state.withLock { $0.isStopped = true } }

    /// Moves on, or back where it is negative.
    package func skip(_ duration: Duration) {
        let frames = Int(duration.components.seconds) * Self.rate
        state.withLock { $0.wish = min(max($0.wish + frames, -Self.rate * 86_400), Self.rate * 86_400) }
    }

    /// Plays to the end, or until somebody stops it.
    /// - Returns: false when it was stopped.
    package func run(_ note: NoteReader, on output: any AudioOutput) throws(AudioError) -> Bool {
        let channels = note.format.channels
        let buffer = UnsafeMutableBufferPointer<Int16>.allocate(capacity: Self.bufferCount)
        defer { buffer.deallocate() }
        var pending = buffer[..<0]
        var isPaused = false
        var isDecoded = false
        while true {
            let (wish, wantsPause, isStopped) = state.withLock { state in
                defer { state.wish = 0 }
                return (state.wish, state.snapshot.isPaused, state.isStopped)
            }
            if isStopped {
                try output.discard()
                return false
            }
            if wish != 0 {
                let heard = note.position - pending.count / channels - output.pendingFrames
                try output.discard()
                try note.seek(to: heard + wish)
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
            if isDecoded {
                if isPaused {
                    try output.idle()
                } else if try output.drain() {
                    show(note.frames)
                    return true
                }
            } else if isPaused {
                try output.idle()
            } else {
                let taken = try output.write(UnsafeBufferPointer(rebasing: pending))
                pending = pending.dropFirst(taken * channels)
            }
            show(note.position - pending.count / channels - output.pendingFrames)
        }
    }

    private func show(_ frame: Int) {
        state.withLock { $0.snapshot.position = .frames(max(0, frame), rate: Self.rate) }
    }
}
