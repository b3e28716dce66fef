package import Nearshare
package import NearshareAudio

/// The properties of a voice note that are known without decoding the audio.
package struct VoiceNote: Sendable {
    /// The media types of received notes, as libmagic detects them. Notes of phones that run Android are MP4 files of the same
    /// type as videos; what they contain is known when they are read.
    package static let mediaTypes: Set<String> = [
        "audio/ogg", "audio/mp4", "audio/x-m4a", "video/mp4", "audio/3gpp", "video/3gpp",
    ]
    /// Digits of ``id``.
    package static let idLength = 6
    /// Digits of an id that a user has to give at least.
    package static let minimumPrefixLength = 2

    package let path: String
    package let summary: NoteSummary

    package var duration: Duration { summary.duration }
    package var waveform: Waveform? { summary.tags.waveform }
    /// The speaker as claimed by the note, escaped for a terminal, and in quotation marks if it is no plain name.
    package var speaker: String? { summary.tags.speaker.map { NameText.shown($0, columns: 40) } }

    package init(path: String) throws(AudioError) {
        self.path = path
        do throws(AudioError) {
            summary = try NoteSummary(of: NoteFile.open(path))
        } catch {
            guard error.code == .damaged else { throw error }
            throw AudioError(
                .damaged, "\(TerminalText.path(path)) cannot be played as a voice note: \(error)")
        }
    }

    /// The id for command lines: six hexadecimal digits, short enough to type, derived from the content, so that the note has one
    /// id at both ends. Different notes with the same id are distinguished by their paths.
    package var id: String {
        let size = UInt32(truncatingIfNeeded: summary.byteCount)
        return Self.id(of: summary.checksums + [size])
    }

    /// FNV-1a, folded to 24 bits.
    package static func id(of numbers: [UInt32]) -> String {
        var sum: UInt32 = 0x811c_9dc5
        for number in numbers {
            for shift in stride(from: 24, through: 0, by: -8) { sum = (sum ^ (number >> UInt32(shift) & 0xff)) &* 0x0100_0193 }
        }
        let digits = String(sum >> 24 ^ sum & 0xff_ffff, radix: 16)
        return String(repeating: "0", count: idLength - digits.count) + digits
    }
}
