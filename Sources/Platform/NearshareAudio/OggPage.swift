/// One page of an Ogg stream (RFC 3533, section 6), whole and with the right checksum.
///
/// A page can be ended early and sealed again, which is how a recording loses the silence at its end or what a full disk
/// has left half written.
package struct OggPage: Sendable, Hashable {
    package private(set) var bytes: [UInt8]

    package static let capture = Array("OggS".utf8)
    static let fixedByteCount = 27
    /// The longest header, and 255 segments of 255 bytes.
    package static let maximumByteCount = fixedByteCount + 255 + 255 * 255

    /// The page at the beginning of `bytes`; what follows it is left alone.
    /// - Returns: nil when no whole page stands there or its checksum is wrong.
    package init?(startOf bytes: ArraySlice<UInt8>) {
        guard let count = Self.byteCount(startOf: bytes), count <= bytes.count else { return nil }
        self.bytes = Array(bytes.prefix(count))
        guard checksum == Self.checksum(of: self.bytes) else { return nil }
    }

    /// How long the page is whose header stands at the beginning; nil when that is no header.
    static func byteCount(startOf bytes: ArraySlice<UInt8>) -> Int? {
        let start = bytes.startIndex
        guard bytes.count >= fixedByteCount, bytes.prefix(4).elementsEqual(capture), bytes[start + 4] == 0 else { return nil }
        let segments = Int(bytes[start + 26])
        guard bytes.count >= fixedByteCount + segments else { return nil }
        let body = bytes[(start + fixedByteCount)..<(start + fixedByteCount + segments)].reduce(0) { $0 + Int($1) }
        return fixedByteCount + segments + body
    }

    /// Goes on with a packet of the page before.
    package var isContinued: Bool { bytes[5] & 1 != 0 }
    /// Begins a stream.
    package var isFirst: Bool { bytes[5] & 2 != 0 }
    /// Ends a stream.
    package var isLast: Bool { bytes[5] & 4 != 0 }
    /// Of an Opus stream: 48,000ths of a second that are complete with this page, the pre-skip among them; -1 where no
    /// packet ends in it.
    package var granule: Int64 { Int64(bitPattern: number(at: 6, byteCount: 8)) }
    /// Which of several streams the page belongs to.
    package var serial: UInt32 { UInt32(truncatingIfNeeded: number(at: 14, byteCount: 4)) }

    private var checksum: UInt32 { UInt32(truncatingIfNeeded: number(at: 22, byteCount: 4)) }
    private var lacing: ArraySlice<UInt8> { bytes[Self.fixedByteCount..<(Self.fixedByteCount + Int(bytes[26]))] }

    /// Where the packets, or what of them is in this page, are in ``bytes``. The last one ends in this page, unless its
    /// lacing says that it goes on.
    package var packets: (ranges: [Range<Int>], lastGoesOn: Bool) {
        var ranges: [Range<Int>] = []
        var start = lacing.endIndex
        var end = start
        var goesOn = false
        for segment in lacing {
            end += Int(segment)
            goesOn = segment == 255
            if !goesOn {
                ranges.append(start..<end)
                start = end
            }
        }
        if goesOn { ranges.append(start..<end) }
        return (ranges, goesOn)
    }

    /// Replaces bytes of the body by as many others, and seals the page again.
    mutating func replace(_ range: Range<Int>, with fresh: some Collection<UInt8>) {
        precondition(fresh.count == range.count && range.lowerBound >= lacing.endIndex && range.upperBound <= bytes.count)
        bytes.replaceSubrange(range, with: fresh)
        seal()
    }

    /// Keeps the first packets only, and makes this the stream's last page.
    /// - Parameters:
    ///   - packetCount: how many whole packets stay, at the most.
    ///   - granule: where the stream ends.
    mutating func end(afterPackets packetCount: Int, granule: Int64) {
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
        seal()
    }

    private mutating func seal() {
        for index in 22..<26 { bytes[index] = 0 }
        let sum = Self.checksum(of: bytes)
        for shift in 0..<4 { bytes[22 + shift] = UInt8(truncatingIfNeeded: sum >> (8 * shift)) }
    }

    private func number(at offset: Int, byteCount: Int) -> UInt64 {
        (0..<byteCount).reduce(0) { $0 | UInt64(bytes[offset + $1]) << (8 * $1) }
    }

    /// Polynomial 0x04c11db7, the highest bit first, starting with 0; the checksum's own place counts as 0.
    private static func checksum(of bytes: [UInt8]) -> UInt32 {
        var sum: UInt32 = 0
        func add(_ bytes: some Sequence<UInt8>) {
            for byte in bytes { sum = sum << 8 ^ table[Int(UInt8(truncatingIfNeeded: sum >> 24) ^ byte)] }
        }
        bytes.withUnsafeBufferPointer { bytes in
            add(bytes[..<22])
            add(repeatElement(0, count: 4))
            add(bytes[26...])
        }
        return sum
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index) << 24) { sum, _ in sum & 0x8000_0000 == 0 ? sum << 1 : sum << 1 ^ 0x04c1_1db7 }
    }
}
