// What the outside must offer for sound: microphones, loudspeakers, and files that stand in for a microphone.

/// How samples are to be read: signed 16-bit numbers of the machine's byte order, channel after channel in each frame.
public struct AudioFormat: Sendable, Hashable {
    /// Frames a second.
    public let rate: Int
    public let channels: Int

    /// What sound cards and files are made in; nothing a voice needs lies outside.
    public static let rates = 8000...192_000

    /// - Returns: nil for a rate outside ``rates``, or other than one or two channels.
    public init?(rate: Int, channels: Int) {
        guard Self.rates.contains(rate), (1...2).contains(channels) else { return nil }
        self.rate = rate
        self.channels = channels
    }

    /// One channel, 16,000 frames a second: all that speech at 24 kbit/s can make use of.
    public static let speech = AudioFormat(rate: 16_000, channels: 1)!
}

/// Why sound could not be recorded, read, written or played. The text is for people.
public struct AudioError: Error, Sendable, Hashable, CustomStringConvertible {
    public enum Code: Sendable, Hashable {
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

    public let code: Code
    public let description: String

    public init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// A microphone or a loudspeaker, as the system calls it.
public struct AudioDevice: Sendable, Hashable {
    public enum Direction: Sendable, Hashable {
        case input, output
    }

    /// What ``AudioSystem/openInput(device:format:)`` understands.
    public var name: String
    /// For people; comes from hardware and its drivers, so it is escaped before it is shown.
    public var title: String
    public var direction: Direction
    public var isDefault: Bool

    public init(name: String, title: String, direction: Direction, isDefault: Bool) {
        self.name = name
        self.title = title
        self.direction = direction
        self.isDefault = isDefault
    }
}

/// What one reading has brought.
public enum AudioReading: Sendable, Hashable {
    /// So many frames are in the buffer, at least one.
    case frames(Int)
    /// Nothing has come for a while (``AudioPatience``); ask again.
    case nothing
    /// Nothing more will come.
    case end
}

/// How long one call on a device may block, so that its caller can look about in between.
public enum AudioPatience {
    public static let milliseconds: Int32 = 50
}

/// A microphone, or what stands in for one. Used by one thread at a time.
public protocol AudioInput: AnyObject {
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
public protocol AudioOutput: AnyObject {
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
public protocol AudioSystem: Sendable {
    /// What it is, for people: "PulseAudio 16.1", "ALSA".
    var title: String { get }

    func devices() throws(AudioError) -> [AudioDevice]

    /// - Parameter device: nil for the person's default.
    func openInput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioInput

    /// - Parameter device: nil for the person's default.
    func openOutput(device: String?, format: AudioFormat) throws(AudioError) -> any AudioOutput
}
