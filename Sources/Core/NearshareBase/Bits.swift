/// Bits, the most significant of each byte first, the last byte filled with zeros.
package struct BitWriter {
    package private(set) var bytes: [UInt8] = []
    private var free = 0

    package init() {}

    package mutating func write(_ value: UInt64, count: Int) {
        for shift in (0..<count).reversed() {
            if free == 0 {
                bytes.append(0)
                free = 8
            }
            free -= 1
            bytes[bytes.count - 1] |= UInt8(value >> UInt64(shift) & 1) << UInt8(free)
        }
    }

    /// Fills the last byte up with ones: in a code that counts ones, an end that nobody takes for a member.
    package mutating func fill() {
        while free > 0 { write(1, count: 1) }
    }
}

package struct BitReader {
    package let bytes: [UInt8]
    private var position = 0

    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    package mutating func read(_ count: Int) -> UInt64? {
        guard position + count <= bytes.count * 8 else { return nil }
        var value: UInt64 = 0
        for _ in 0..<count {
            value = value << 1 | UInt64(bytes[position / 8] >> UInt8(7 - position % 8) & 1)
            position += 1
        }
        return value
    }

    /// How many ones stand before the next zero.
    package mutating func readUnary() -> UInt64? {
        var count: UInt64 = 0
        while let bit = read(1) {
            guard bit == 1 else { return count }
            count += 1
        }
        return nil
    }
}
