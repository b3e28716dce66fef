/// Appends bits, the most significant of each byte first; the last byte is padded with zeros.
package struct BitWriter {
    /// The bytes written so far.
    package private(set) var bytes: [UInt8] = []
    private var free = 0

    /// Starts without bytes.
    package init() {}

    /// Appends the lowest `count` bits of `value`.
    package mutating func write(_ value: UInt64, count: Int) {
        var remaining = count
        while remaining > 0 {
            if free == 0 {
                bytes.append(0)
                free = 8
            }
            let width = min(remaining, free)
            remaining -= width
            free -= width
            let field = UInt8(truncatingIfNeeded: value >> UInt64(remaining)) & UInt8.max >> UInt8(8 - width)
            bytes[bytes.count - 1] |= field << UInt8(free)
        }
    }

    /// Pads the last byte with ones, which a unary code cannot decode as a member.
    package mutating func fill() {
        while free > 0 { write(1, count: 1) }
    }
}
