/// A microphone or a loudspeaker of the system.
package struct AudioDevice: Sendable, Hashable {
    package enum Direction: Sendable, Hashable {
        case input, output
    }

    /// The identifier for ``AudioSystem/openInput(device:format:)`` and ``AudioSystem/openOutput(device:format:)``.
    package var name: String
    /// The display name. It comes from hardware and drivers: escape it before it is shown.
    package var title: String
    package var direction: Direction
    package var isDefault: Bool

    package init(name: String, title: String, direction: Direction, isDefault: Bool) {
        self.name = name
        self.title = title
        self.direction = direction
        self.isDefault = isDefault
    }
}

/// The result of one read from an ``AudioInput``.
package enum AudioReading: Sendable, Hashable {
    /// The number of frames in the buffer, at least one.
    case frames(Int)
    /// No sound within ``AudioTimeout``, or before a wake-up; read again.
    case timedOut
    /// The end of the input.
    case end
}

/// The time for which one call on a device may block, so that its caller can check for pauses and cancellation.
package enum AudioTimeout {
    package static let milliseconds: Int32 = 50
}

/// A microphone, or a file that replaces one. Used by one thread at a time.
package protocol AudioInput: AnyObject {
    var format: AudioFormat { get }

    /// Frames that the device recorded and that were lost before they were read. Silence replaces them, so that later sound
    /// keeps its position in time.
    var lostFrames: UInt64 { get }

    /// Waits for samples.
    /// - Parameter buffer: room for at least one frame.
    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading

    /// Releases the device. No call may follow.
    func close()
}

/// A loudspeaker. Used by one thread at a time.
package protocol AudioOutput: AnyObject {
    var format: AudioFormat { get }

    /// Frames that are queued and not played yet.
    var pendingFrames: Int { get }

    /// Queues as many frames as there is room for, waiting for room at most ``AudioTimeout``.
    /// - Parameter samples: whole frames.
    /// - Returns: the number of queued frames; 0 when there was no room in that time.
    func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int

    /// Waits while nothing is to be played, and keeps the device's connection served. May return earlier.
    /// - Parameter wakeup: ends the wait when it is signalled.
    func idle(until wakeup: EventFD) throws(AudioError)

    /// Pauses or resumes within the queued frames.
    func setPaused(_ isPaused: Bool) throws(AudioError)

    /// Drops the queued frames.
    func discard() throws(AudioError)

    /// Waits at most ``AudioTimeout`` for the queued frames to be played.
    /// - Returns: whether all have been played.
    func drain() throws(AudioError) -> Bool

    /// Releases the device. No call may follow.
    func close()
}

/// Access to microphones and loudspeakers.
package protocol AudioSystem: Sendable {
    /// The display name: "PulseAudio 16.1", "ALSA".
    var title: String { get }

    func devices() throws(AudioError) -> [AudioDevice]

    /// - Parameter device: nil for the user's default.
    func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput

    /// - Parameter device: nil for the user's default.
    func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput
}
