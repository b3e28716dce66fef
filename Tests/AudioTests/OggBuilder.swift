import NearshareInterfaces

@testable import NearshareAudio

/// Builds Ogg pages and Opus headers independently of the code under test.
enum OggBuilder {
    /// The lowest bytes of a number, in the little-endian order of Ogg and Opus.
    static func littleEndian(_ value: some FixedWidthInteger, byteCount: Int) -> [UInt8] {
        (0..<byteCount).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
    }

    /// A page with complete packets.
    /// - Parameters:
    ///   - flags: the header type of RFC 3533: 1 continued, 2 first, 4 last.
    ///   - continues: whether the last packet continues in the next page; its size has to be a multiple of 255.
    static func page(
        _ packets: [[UInt8]], granule: Int64 = 0, flags: UInt8 = 0, serial: UInt32 = 7, sequence: UInt32 = 0,
        continues: Bool = false
    ) -> [UInt8] {
        var lacing: [UInt8] = []
        for (index, packet) in packets.enumerated() {
            lacing += [UInt8](repeating: 255, count: packet.count / 255)
            if !continues || index < packets.count - 1 { lacing.append(UInt8(packet.count % 255)) }
        }
        return page(
            lacing: lacing, body: packets.flatMap { $0 }, granule: granule, flags: flags, serial: serial, sequence: sequence)
    }

    static func page(
        lacing: [UInt8], body: [UInt8], granule: Int64 = 0, flags: UInt8 = 0, serial: UInt32 = 7, sequence: UInt32 = 0
    ) -> [UInt8] {
        var bytes = Array("OggS".utf8) + [0, flags] + littleEndian(granule, byteCount: 8) + littleEndian(serial, byteCount: 4)
        bytes += littleEndian(sequence, byteCount: 4) + [0, 0, 0, 0, UInt8(lacing.count)] + lacing + body
        let checksumRange = 22..<26
        bytes.replaceSubrange(checksumRange, with: littleEndian(checksum(bytes), byteCount: 4))
        return bytes
    }

    /// The CRC-32 of Ogg (RFC 3533, 6), computed bit by bit, without the table of the code under test.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        bytes.reduce(UInt32(0)) { sum, byte in
            (0..<8).reduce(sum ^ UInt32(byte) << 24) { sum, _ in sum << 1 ^ (sum >> 31 == 1 ? 0x04c1_1db7 : 0) }
        }
    }

    static func head(version: UInt8 = 1, channels: UInt8 = 1, preSkip: UInt16 = 312, family: UInt8 = 0) -> [UInt8] {
        Array("OpusHead".utf8) + [version, channels] + littleEndian(preSkip, byteCount: 2)
            + littleEndian(UInt32(16_000), byteCount: 4)
            + [0, 0, family]
    }

    static func tags(_ comments: [[UInt8]]) -> [UInt8] {
        Array("OpusTags".utf8) + littleEndian(UInt32(4), byteCount: 4) + Array("test".utf8)
            + littleEndian(UInt32(comments.count), byteCount: 4)
            + comments.flatMap { littleEndian(UInt32($0.count), byteCount: 4) + $0 }
    }

    static func tags(_ comments: [String]) -> [UInt8] { tags(comments.map { Array($0.utf8) }) }

    /// A note of one page of sound.
    static func note(
        granule: Int64, preSkip: UInt16 = 312, flags: UInt8 = 4, comments: [String] = [], packetByteCount: Int = 40
    ) -> [UInt8] {
        page([head(preSkip: preSkip)], flags: 2) + page([tags(comments)], sequence: 1)
            + page([[UInt8](repeating: 3, count: packetByteCount)], granule: granule, flags: flags, sequence: 2)
    }

    static func summary(_ bytes: [UInt8], size: UInt64? = nil) throws(AudioError) -> NoteSummary {
        let window = NoteSummary.windowByteCount
        return try NoteSummary(
            front: Array(bytes.prefix(window)), tail: Array(bytes.suffix(window)), size: size ?? UInt64(bytes.count))
    }
}
