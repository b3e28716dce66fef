/// Reads bits, the most significant of each byte first.
package struct BitReader {
    private let bytes: [UInt8]
    private var position = 0

    /// Starts at the first bit.
    package init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Reads bits as an integer.
    /// - Parameter count: at most 64.
    /// - Returns: nil when fewer bits are left.
    package mutating func read(_ count: Int) -> UInt64? {
        guard position + count <= bytes.count * 8 else { return nil }
        var value: UInt64 = 0
        var remaining = count
        while remaining > 0 {
            let unread = 8 - position % 8
            let width = min(remaining, unread)
            let field = bytes[position / 8] >> UInt8(unread - width) & UInt8.max >> UInt8(8 - width)
            value = value << UInt64(width) | UInt64(field)
            position += width
            remaining -= width
        }
        return value
    }

    /// Reads a unary code: the number of ones before the next zero; nil when the bits end first.
    package mutating func readUnary() -> UInt64? {
        var count: UInt64 = 0
        while let bit = read(1) {
            guard bit == 1 else { return count }
            count += 1
        }
        return nil
    }
}
