// What the outside must offer for sound: microphones, loudspeakers, and files that stand in for a microphone.

/// How samples are to be read: signed 16-bit numbers of the machine's byte order, channel after channel in each frame.
package struct AudioFormat: Sendable, Hashable {
    /// Frames a second.
    package let rate: Int
    package let channels: Int

    /// What sound cards and files are made in; nothing a voice needs lies outside.
    package static let rates = 8000...192_000

    /// - Returns: nil for a rate outside ``rates``, or other than one or two channels.
    package init?(rate: Int, channels: Int) {
        guard Self.rates.contains(rate), (1...2).contains(channels) else { return nil }
        self.rate = rate
        self.channels = channels
    }

    /// One channel, 16,000 frames a second: all that speech at 24 kbit/s can make use of.
    package static let speech = AudioFormat(rate: 16_000, channels: 1)!
}

/// Why sound could not be recorded, read, written or played. The text is for people.
package struct AudioError: Error, Sendable, Hashable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        /// No library, no sound server, no such device.
        case unavailable
        /// The device was there and has gone.
        case deviceGone
        /// The disk is full.
        case noSpace
        /// A file is not what it claims to be, or is damaged.
        case damaged
        /// More than a limit allows.
        case overLimit
        case failed
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// A microphone or a loudspeaker, as the system calls it.
package struct AudioDevice: Sendable, Hashable {
    package enum Direction: Sendable, Hashable {
        case input, output
    }

    /// What ``AudioSystem/openInput(device:format:)`` understands.
    package var name: String
    /// For people; comes from hardware and its drivers, so it is escaped before it is shown.
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

/// What one reading has brought.
package enum AudioReading: Sendable, Hashable {
    /// So many frames are in the buffer, at least one.
    case frames(Int)
    /// Nothing has come for a while (``AudioTimeout``); ask again.
    case nothing
    /// Nothing more will come.
    case end
}

/// How long one call on a device may block, so that its caller can look about in between.
package enum AudioTimeout {
    package static let milliseconds: Int32 = 50
}

/// A microphone, or what stands in for one. Used by one thread at a time.
package protocol AudioInput: AnyObject {
    var format: AudioFormat { get }

    /// Frames that the device has made but that never got here. Silence stands in their place, so that what was said
    /// afterwards stays where it was in time.
    var lostFrames: UInt64 { get }

    /// Waits for samples.
    /// - Parameter buffer: room for at least one frame.
    func read(into buffer: UnsafeMutableBufferPointer<Int16>) throws(AudioError) -> AudioReading

    /// Gives the device back. Nothing may be read any more.
    func close()
}

/// A loudspeaker, or what stands in for one. Used by one thread at a time.
package protocol AudioOutput: AnyObject {
    var format: AudioFormat { get }

    /// Frames that were taken and have not been heard yet.
    var pendingFrames: Int { get }

    /// Takes as many frames as there is room for, after waiting for room a while.
    /// - Parameter samples: whole frames.
    /// - Returns: how many frames were taken; 0 when there was no room in that time.
    func write(_ samples: UnsafeBufferPointer<Int16>) throws(AudioError) -> Int

    /// Waits a moment in which nothing is to be played, and keeps the device served meanwhile.
    func rest() throws(AudioError)

    /// Stops in the middle, or goes on from there.
    func setPaused(_ isPaused: Bool) throws(AudioError)

    /// Forgets what was taken and has not been heard.
    func discard() throws(AudioError)

    /// - Returns: whether all has been heard; false when some is still to come after waiting a while.
    func drain() throws(AudioError) -> Bool

    /// Gives the device back. Nothing may be written any more.
    func close()
}

/// The way to microphones and loudspeakers.
package protocol AudioSystem: Sendable {
    /// What it is, for people: "PulseAudio 16.1", "ALSA".
    var title: String { get }

    func devices() throws(AudioError) -> [AudioDevice]

    /// - Parameter device: nil for the person's default.
    func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput

    /// - Parameter device: nil for the person's default.
    func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput
}
