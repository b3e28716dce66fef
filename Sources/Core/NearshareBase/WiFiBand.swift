/// A frequency band of Wi-Fi, with its number on the wire (`docs/PROTOCOL.md`, section 17).
package enum WiFiBand: UInt8, Sendable, Hashable {
    /// 2.4 GHz.
    case ghz2Point4 = 1
    /// 5 GHz.
    case ghz5 = 2
}
