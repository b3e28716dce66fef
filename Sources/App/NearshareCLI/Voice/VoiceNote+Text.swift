internal import Nearshare
internal import NearshareAudio
internal import NearshareService

extension VoiceNote {
    var recordedText: String? { summary.tags.recorded?.localText }

    var title: String { [speaker ?? "voice note", recordedText].compactMap(\.self).joined(separator: ", ") }

    var bitrateText: String {
        let tenths = (summary.bitrate + 50) / 100
        return "\(tenths / 10).\(tenths % 10) kbit/s"
    }

    var json: [String: JSONValue] {
        [
            "id": .string(id), "path": .string(path), "seconds": .rate(roundedToMilliseconds(duration)),
            "size": .number(summary.byteCount), "bitrate": .number(UInt64(summary.bitrate)),
            "channels": .number(UInt64(summary.channels)), "speaker": JSONValue(summary.tags.speaker),
            "recorded": summary.tags.recorded.map { .number($0.unixMilliseconds) } ?? .null,
            "waveform": waveform.map { .array($0.peaks.map { .number(UInt64($0)) }) } ?? .null,
            "is_cut": .bool(summary.isTruncated),
        ]
    }

    /// A duration in seconds, rounded to milliseconds.
    private func roundedToMilliseconds(_ duration: Duration) -> Double { (duration.inSeconds * 1000).rounded() / 1000 }
}
