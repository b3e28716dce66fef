internal import Glibc
package import Nearshare
package import NearshareAudio

/// The properties of a voice note that are known without decoding the audio.
package struct VoiceNote: Sendable {
    /// The media type of received notes, as libmagic detects it.
    package static let mediaType = "audio/ogg"
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
                .damaged, "\(TerminalText.escaped(path, columns: 4096)) cannot be played as a voice note: \(error)")
        }
    }

    /// The id for command lines: six hexadecimal digits derived from the path, and so stable.
    package var id: String {
        guard let whole = realpath(path, nil) else { return Self.id(of: path) }
        defer { free(whole) }
        return Self.id(of: String(cString: whole))
    }

    /// FNV-1a, folded to 24 bits: short enough to type; notes with the same id are distinguished by their paths.
    package static func id(of path: String) -> String {
        var sum: UInt32 = 0x811c_9dc5
        for byte in path.utf8 { sum = (sum ^ UInt32(byte)) &* 0x0100_0193 }
        let digits = String(sum >> 24 ^ sum & 0xff_ffff, radix: 16)
        return String(repeating: "0", count: idLength - digits.count) + digits
    }
}
