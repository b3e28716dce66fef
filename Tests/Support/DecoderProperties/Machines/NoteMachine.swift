import NearshareAudio
import NearshareBase

extension DecoderProperty {
    /// The summary of a note from pages with valid checksums, and any bytes between them.
    static let noteSummary = Self(
        name: "note-summary",
        seeds: [
            [0, 0, 1, 1, 0, 2, 40, 0, 3, 200, 0], [0, 3, 1, 5, 0, 2, 90, 3, 3, 250, 3],
            [0, 0, 1, 0, 4, 3, 1, 2, 3, 3, 255],
        ]
    ) { bytes throws(Violation) in
        var script = EventScript(bytes, maximumEventCount: 64)
        let file = OggScript.file(&script)
        let window = 2 * OggPage.maximumByteCount
        guard
            let summary = try? NoteSummary(
                front: Array(file.prefix(window)), tail: Array(file.suffix(window)), size: UInt64(file.count))
        else { return false }
        try require(summary.granules >= 0 && summary.duration >= .zero, "a length of \(summary.granules)")
        // At most 120 ms for each packet of two bytes.
        try require(summary.duration <= .milliseconds(60 * file.count), "\(summary.duration) in \(file.count) bytes")
        try require(summary.bitrate >= 0, "\(summary.bitrate) bits a second")
        try require(summary.tags.speaker?.utf8.count ?? 0 <= 3 * 256, "a speaker of \(summary.tags)")
        return true
    }

    /// One page: its packets lie in its body, in order, and cover it.
    static let oggPages = Self(name: "ogg-pages", seeds: [OggScript.page([[1, 2, 3], [4]], granule: 5, flags: 4)]) {
        bytes throws(Violation) in
        guard let page = OggPage(startOf: bytes[...]) else { return false }
        try require(page.bytes.count <= OggPage.maximumByteCount, "a page of \(page.bytes.count) bytes")
        try require(page.bytes == Array(bytes.prefix(page.bytes.count)), "a page that is not its bytes")
        let (ranges, _) = page.packets
        try require(
            zip(ranges, ranges.dropFirst()).allSatisfy { $0.upperBound == $1.lowerBound }, "packets that are not in a row")
        try require(ranges.last.map { $0.upperBound == page.bytes.count } ?? true, "packets beyond the page, or before its end")
        return true
    }
}

/// Ogg files composed by a script.
private enum OggScript {
    static func file(_ script: inout EventScript) -> [UInt8] {
        var file: [UInt8] = []
        while let event = script.nextEvent(below: 6), file.count < 1 << 18 {
            switch event {
            case 0:
                let field = UInt8(script.number(below: 256))
                let head = Array("OpusHead".utf8) + [1, 1 + field % 2, field, field / 64, 0, 0, 0, 0, 0, 0, field / 128]
                file += page([head], granule: 0, flags: 2)
            case 1:
                let comments =
                    [
                        "ARTIST=Ada", "DATE=2026-07-30T10:00:00Z", "NEARSHARE_WAVEFORM=AAECAwQFBgcICQ", "=", "ARTIST=\u{202e}x",
                    ]
                    .prefix(script.number(below: 6)).map { Array($0.utf8) } + [script.bytes(upTo: 40)]
                let packet =
                    Array("OpusTags".utf8) + [0, 0, 0, 0] + number(comments.count, byteCount: 4)
                    + comments.flatMap { number($0.count, byteCount: 4) + $0 }
                file += page([packet], granule: 0, flags: 0)
            case 2:
                let size = script.number(below: 1 << 16)
                file += page([[UInt8](repeating: 3, count: min(size, 60_000))], granule: -1, flags: 0)
            case 3:
                let granule = Int64(script.number(below: 256)) << Int64(script.number(below: 64))
                file += page([[3, 3]], granule: granule, flags: 4)
            case 4: file += script.bytes(upTo: 64)
            default: file = script.altered(file)
            }
        }
        return file
    }

    static func page(_ packets: [[UInt8]], granule: Int64, flags: UInt8) -> [UInt8] {
        let lacing = packets.flatMap { [UInt8](repeating: 255, count: $0.count / 255) + [UInt8($0.count % 255)] }
        var bytes = Array("OggS".utf8) + [0, flags] + number(granule, byteCount: 8) + number(7, byteCount: 4)
        bytes += [0, 0, 0, 0, 0, 0, 0, 0, UInt8(lacing.count)] + lacing + packets.joined()
        // RFC 3533, section 6: CRC-32 with this polynomial, most significant bit first.
        let checksum = bytes.reduce(UInt32(0)) { sum, byte in
            (0..<8).reduce(sum ^ UInt32(byte) << 24) { sum, _ in sum << 1 ^ (sum >> 31 == 1 ? 0x04c1_1db7 : 0) }
        }
        bytes.replaceSubrange(22..<26, with: number(checksum, byteCount: 4))
        return bytes
    }

    private static func number(_ value: some FixedWidthInteger, byteCount: Int) -> [UInt8] {
        (0..<byteCount).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }
}
