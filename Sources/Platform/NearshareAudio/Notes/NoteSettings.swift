package import NearshareBase

/// The encoder settings and tags of a note.
package struct NoteSettings: Sendable, Hashable {
    /// The average bit rate, in bits a second.
    package let bitrate: Int
    package var speaker: String?
    package var recorded: WallTime?
    package var limit: NoteSizeLimit?
    /// The sound that the encoder may hold back for better decisions, in seconds. 0 while recording: sound that is not in the
    /// file is lost with the process.
    package var lookAhead: Double

    /// The bit rates that libopus supports for one channel.
    package static let bitrates = 6000...256_000
    package static let speechBitrate = 24_000

    /// - Returns: nil for a bit rate outside ``bitrates``.
    package init?(
        bitrate: Int = Self.speechBitrate, speaker: String? = nil, recorded: WallTime? = nil, limit: NoteSizeLimit? = nil,
        lookAhead: Double = 0
    ) {
        guard Self.bitrates.contains(bitrate) else { return nil }
        self.bitrate = bitrate
        self.speaker = speaker
        self.recorded = recorded
        self.limit = limit
        self.lookAhead = lookAhead
    }
}
