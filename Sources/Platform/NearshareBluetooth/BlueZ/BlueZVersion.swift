/// The version of BlueZ's daemon, which it reports only as part of the adapter's `Modalias`: `usb:v1D6Bp0246d0542` is 5.66.
struct BlueZVersion: Sendable, Hashable, Comparable, CustomStringConvertible {
    let major: Int
    let minor: Int

    init(major: Int, minor: Int) {
        self.major = major
        self.minor = minor
    }

    init?(modalias: String) {
        guard modalias.hasPrefix("usb:v1D6Bp0246d"), let code = UInt16(modalias.suffix(4), radix: 16) else { return nil }
        self.init(major: Int(code >> 8), minor: Int(code & 0xFF))
    }

    var description: String { "\(major).\(minor)" }

    static func < (one: Self, other: Self) -> Bool { (one.major, one.minor) < (other.major, other.minor) }

    /// Earlier versions reject writes of more than 510 bytes, and drop unconfirmed ones without an error.
    static let acceptingLongWrites = BlueZVersion(major: 5, minor: 69)
}
