internal import Glibc
internal import Nearshare
internal import NearshareAudio

/// The properties of a voice note that are known without decoding the audio.
struct VoiceNote: Sendable {
    let path: String
    let summary: NoteSummary

    var duration: Duration { summary.duration }
    var waveform: Waveform? { summary.tags.waveform }
    /// The speaker as claimed by the note, escaped for a terminal.
    var speaker: String? { summary.tags.speaker.map { TerminalText.escaped($0, columns: 40) } }
    var recorded: String? { summary.tags.recorded?.localText }

    init(path: String) throws(AudioError) {
        self.path = path
        do throws(AudioError) {
            summary = try NoteSummary(of: NoteFile.open(path))
        } catch {
            guard error.code == .damaged else { throw error }
            throw AudioError(
                .damaged, "\(TerminalText.escaped(path, columns: 4096)) cannot be played as a voice note:  \(error)")
        }
    }

    /// The id for command lines: six hexadecimal digits derived from the path, and so stable.
    var id: String {
        guard let whole = realpath(path, nil) else { return Self.id(of: path) }
        defer { free(whole) }
        return Self.id(of: String(cString: whole))
    }

    /// FNV-1a, folded to 24 bits: short enough to type; notes with the same id are distinguished by their paths.
    static func id(of path: String) -> String {
        var sum: UInt32 = 0x811c_9dc5
        for byte in path.utf8 { sum = (sum ^ UInt32(byte)) &* 0x0100_0193 }
        let digits = String(sum >> 24 ^ sum & 0xff_ffff, radix: 16)
        return String(repeating: "0", count: 6 - digits.count) + digits
    }

    var title: String { [speaker ?? "voice note", recorded].compactMap(\.self).joined(separator: ", ") }

    var bitrateText: String {
        let tenths = (summary.bitrate + 50) / 100
        return "\(tenths / 10).\(tenths % 10) kbit/s"
    }

    var json: [String: JSONValue] {
        [
            "id": .text(id), "path": .text(path), "seconds": .rate(milliseconds(duration)),
            "size": .number(summary.byteCount), "bitrate": .number(UInt64(summary.bitrate)),
            "channels": .number(UInt64(summary.head.channels)), "speaker": JSONValue(summary.tags.speaker),
            "recorded": summary.tags.recorded.map { .number(UInt64(max(0, $0.milliseconds))) } ?? .null,
            "waveform": waveform.map { .list($0.peaks.map { .number(UInt64($0)) }) } ?? .null,
            "is_cut": .flag(summary.isCut),
        ]
    }

    /// Seconds, rounded to milliseconds.
    private func milliseconds(_ duration: Duration) -> Double { (duration.inSeconds * 1000).rounded() / 1000 }
}
