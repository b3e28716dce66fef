/// Appends bits, the most significant of each byte first; the last byte is padded with zeros.
package struct BitWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []
    private var free = 0

    /// Starts without bytes.
    package init() {}

    /// Appends the lowest `count` bits of `value`.
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

    /// Pads the last byte with ones, which a unary code cannot decode as a member.
    package mutating func fill() {
        while free > 0 { write(1, count: 1) }
    }
}
