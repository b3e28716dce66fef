/// Padding to a block size, so that a packet's length reveals less (bitchat specification, section 2.5).
package enum MeshPadding {
    private static let blocks = [256, 512, 1024, 2048]
    /// Bytes that a block must hold besides.
    private static let reserve = 16

    /// The smallest block that holds `count` bytes and the reserve; `count` itself beyond the largest.
    package static func target(for count: Int) -> Int {
        blocks.first { $0 >= count + reserve } ?? count
    }

    /// The number of padding bytes for a frame of `count` bytes; 0 where one byte cannot express it.
    package static func fill(for count: Int) -> Int {
        let fill = target(for: count) - count
        return fill <= 255 ? fill : 0
    }

    /// The bytes padded to the next block size; unchanged where that does not fit.
    package static func padded(_ bytes: [UInt8]) -> [UInt8] {
        let fill = fill(for: bytes.count)
        return bytes + [UInt8](repeating: UInt8(clamping: fill), count: fill)
    }

    /// The bytes without padding, if the last byte k is repeated k times; otherwise unchanged.
    package static func unpadded(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        guard let last = bytes.last, last > 0, Int(last) <= bytes.count,
            bytes.suffix(Int(last)).allSatisfy({ $0 == last })
        else { return bytes }
        return bytes.dropLast(Int(last))
    }
}
