/// One complete page of an Ogg stream (RFC 3533, section 6) with a valid checksum.
///
/// A page can be shortened and made the last one of its stream, to remove trailing silence or a page that a full disk has left
/// incomplete.
package struct OggPage: Sendable, Hashable {
    package private(set) var bytes: [UInt8]

    /// The capture pattern at the start of each page.
    package static let capture = Array("OggS".utf8)
    /// The header without its segment table.
    static let fixedByteCount = 27
    /// The longest header, and 255 segments of 255 bytes.
    package static let maximumByteCount = fixedByteCount + 255 + 255 * 255

    /// Parses the page at the beginning of `bytes`, ignoring what follows it.
    /// - Returns: nil when there is no complete page or its checksum is wrong.
    package init?(startOf bytes: ArraySlice<UInt8>) {
        guard let count = Self.byteCount(startOf: bytes), count <= bytes.count else { return nil }
        self.bytes = Array(bytes.prefix(count))
        guard checksum == Self.checksum(of: self.bytes) else { return nil }
    }

    /// The size of the page whose header is at the beginning of `bytes`; nil for an invalid or incomplete header.
    static func byteCount(startOf bytes: ArraySlice<UInt8>) -> Int? {
        let start = bytes.startIndex
        guard bytes.count >= fixedByteCount, bytes.prefix(4).elementsEqual(capture), bytes[start + 4] == 0 else { return nil }
        let segments = Int(bytes[start + 26])
        guard bytes.count >= fixedByteCount + segments else { return nil }
        let body = bytes[(start + fixedByteCount)..<(start + fixedByteCount + segments)].reduce(0) { $0 + Int($1) }
        return fixedByteCount + segments + body
    }

    /// Whether the page continues a packet of the page before.
    package var isContinued: Bool { bytes[5] & 1 != 0 }
    /// Whether the page begins a stream.
    package var isFirst: Bool { bytes[5] & 2 != 0 }
    /// Whether the page ends a stream.
    package var isLast: Bool { bytes[5] & 4 != 0 }
    /// The granule position: in an Opus stream the samples at 48 kHz up to the end of this page, including the pre-skip; -1 if
    /// no packet ends in it. A claim of the file: any 64-bit number.
    package var granule: Int64 { Int64(bitPattern: number(at: 6, byteCount: 8)) }
    /// The serial number of the page's stream.
    package var serial: UInt32 { UInt32(truncatingIfNeeded: number(at: 14, byteCount: 4)) }

    var checksum: UInt32 { UInt32(truncatingIfNeeded: number(at: 22, byteCount: 4)) }
    /// The segment table.
    private var lacing: ArraySlice<UInt8> { bytes[Self.fixedByteCount..<(Self.fixedByteCount + Int(bytes[26]))] }

    /// The ranges of the packets, or of their parts in this page, in ``bytes``, and whether the last one continues in the next
    /// page.
    package var packets: (ranges: [Range<Int>], lastContinues: Bool) {
        var ranges: [Range<Int>] = []
        var start = lacing.endIndex
        var end = start
        var continues = false
        for segment in lacing {
            end += Int(segment)
            continues = segment == 255
            if !continues {
                ranges.append(start..<end)
                start = end
            }
        }
        if continues { ranges.append(start..<end) }
        return (ranges, continues)
    }

    /// Replaces bytes of the body by the same number of others and updates the checksum.
    mutating func replace(_ range: Range<Int>, with replacement: some Collection<UInt8>) {
        precondition(replacement.count == range.count && range.lowerBound >= lacing.endIndex && range.upperBound <= bytes.count)
        bytes.replaceSubrange(range, with: replacement)
        updateChecksum()
    }

    /// Removes all but the first packets and makes this the last page of the stream.
    /// - Parameters:
    ///   - packetCount: limit on the complete packets that are kept.
    ///   - granule: the end of the stream.
    mutating func truncate(toPackets packetCount: Int, granule: Int64) {
        var kept = 0
        var packets = 0
        var bodyCount = 0
        var total = 0
        for (index, segment) in lacing.enumerated() {
            guard packets < packetCount else { break }
            total += Int(segment)
            if segment < 255 {
                packets += 1
                kept = index + 1
                bodyCount = total
            }
        }
        let body = lacing.endIndex
        bytes = Array(bytes[..<(Self.fixedByteCount + kept)]) + Array(bytes[body..<(body + bodyCount)])
        bytes[26] = UInt8(kept)
        bytes[5] |= 4
        for shift in 0..<8 { bytes[6 + shift] = UInt8(truncatingIfNeeded: granule >> (8 * shift)) }
        updateChecksum()
    }

    private mutating func updateChecksum() {
        for index in 22..<26 { bytes[index] = 0 }
        let sum = Self.checksum(of: bytes)
        for shift in 0..<4 { bytes[22 + shift] = UInt8(truncatingIfNeeded: sum >> (8 * shift)) }
    }

    private func number(at offset: Int, byteCount: Int) -> UInt64 {
        (0..<byteCount).reduce(0) { $0 | UInt64(bytes[offset + $1]) << (8 * $1) }
    }

    /// CRC-32 with the polynomial 0x04c11db7, most significant bit first, initial value 0; the checksum field counts as 0.
    private static func checksum(of bytes: [UInt8]) -> UInt32 {
        var sum: UInt32 = 0
        func update(_ bytes: some Sequence<UInt8>) {
            for byte in bytes { sum = sum << 8 ^ table[Int(UInt8(truncatingIfNeeded: sum >> 24) ^ byte)] }
        }
        bytes.withUnsafeBufferPointer { bytes in
            update(bytes[..<22])
            update(repeatElement(0, count: 4))
            update(bytes[26...])
        }
        return sum
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { sum, _ in sum & 0x8000_0000 == 0 ? sum << 1 : sum << 1 ^ 0x04c1_1db7 }
    }
}
