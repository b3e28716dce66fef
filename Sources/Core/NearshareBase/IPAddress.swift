/// A numeric address of a machine, without zone and port.
package enum IPAddress: Sendable, Hashable {
    /// In the host's order: 127.0.0.1 is 0x7f000001.
    case v4(UInt32)
    /// The first and the last eight bytes, in the host's order.
    case v6(UInt64, UInt64)

    /// - Parameter bytes: 4 or 16 bytes in network order; anything else gives nil.
    package init?(bytes: some Collection<UInt8>) {
        switch bytes.count {
        case 4: self = .v4(bytes.reduce(0) { $0 << 8 | UInt32($1) })
        case 16:
            self = .v6(
                bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }, bytes.suffix(8).reduce(0) { $0 << 8 | UInt64($1) })
        default: return nil
        }
    }

    /// 4 or 16 bytes in network order.
    package var bytes: [UInt8] {
        switch self {
        case .v4(let value): withUnsafeBytes(of: value.bigEndian) { Array($0) }
        case .v6(let high, let low):
            withUnsafeBytes(of: high.bigEndian) { Array($0) } + withUnsafeBytes(of: low.bigEndian) { Array($0) }
        }
    }

    /// Of the sixth version of the protocol.
    package var isIPv6: Bool { if case .v6 = self { true } else { false } }

    /// Leads back to this machine.
    package var isLoopback: Bool {
        switch self {
        case .v4(let value): value >> 24 == 127
        case .v6(let high, let low): high == 0 && low == 1
        }
    }

    /// Stands for a group of machines.
    package var isMulticast: Bool {
        switch self {
        case .v4(let value): value >> 28 == 0xe
        case .v6(let high, _): high >> 56 == 0xff
        }
    }

    /// 169.254/16 and fe80::/10.
    package var isLinkLocal: Bool {
        switch self {
        case .v4(let value): value >> 16 == 0xa9fe
        case .v6(let high, _): high >> 54 == 0xfe80 >> 6
        }
    }

    /// Means nothing without the interface behind it.
    package var needsZone: Bool { isIPv6 && isLinkLocal }

    /// Whether one machine on the link can have it: not unspecified, multicast, broadcast, reserved or IPv4 in disguise, and
    /// loopback only where the claim came over loopback.
    package func canBeReached(onLoopback: Bool) -> Bool {
        if isMulticast || (isLoopback && !onLoopback) { return false }
        switch self {
        case .v4(let value): return value >> 24 != 0 && value >> 28 != 0xf
        // Everything under ::/96 and ::ffff:0:0/96 except ::1.
        case .v6(let high, let low): return high != 0 || !(low >> 32 == 0 || low >> 32 == 0xffff) || isLoopback
        }
    }

    /// Whether both stand in one network of `prefixLength` bits.
    package func shares(prefixLength: Int, with other: IPAddress) -> Bool {
        guard isIPv6 == other.isIPv6, prefixLength >= 0 else { return false }
        let (left, right) = (bytes, other.bytes)
        guard prefixLength <= left.count * 8 else { return false }
        let whole = prefixLength / 8
        guard left.prefix(whole) == right.prefix(whole) else { return false }
        let rest = prefixLength % 8
        return rest == 0 || (left[whole] ^ right[whole]) >> (8 - rest) == 0
    }
}

extension IPAddress: CustomStringConvertible {
    /// The usual text: dotted decimals, and RFC 5952 for IPv6.
    package var description: String {
        switch self {
        case .v4(let value):
            return (0..<4).map { String(value >> (24 - 8 * $0) & 0xff) }.joined(separator: ".")
        case .v6(let high, let low):
            let groups = [high, low].flatMap { half in (0..<4).map { UInt16(truncatingIfNeeded: half >> (48 - 16 * $0)) } }
            return Self.text(of: groups)
        }
    }

    /// The longest run of at least two zero groups, the first of equals, becomes "::" (RFC 5952, section 4.2).
    private static func text(of groups: [UInt16]) -> String {
        var longest = 0..<0
        var index = 0
        while index < groups.count {
            let end = groups[index...].firstIndex { $0 != 0 } ?? groups.count
            if end - index > max(longest.count, 1) { longest = index..<end }
            index = max(end, index + 1)
        }
        func hex(_ slice: ArraySlice<UInt16>) -> String { slice.map { String($0, radix: 16) }.joined(separator: ":") }
        guard !longest.isEmpty else { return hex(groups[...]) }
        return hex(groups[..<longest.lowerBound]) + "::" + hex(groups[longest.upperBound...])
    }
}
