/// An IPv4 or IPv6 address, without zone and port.
package enum IPAddress: Sendable, Hashable {
    /// An IPv4 address in host byte order: 127.0.0.1 is 0x7f000001.
    case v4(UInt32)
    /// The upper and lower 64 bits of an IPv6 address, in host byte order.
    case v6(UInt64, UInt64)

    /// - Parameter bytes: 4 or 16 bytes in network byte order; any other number gives nil.
    package init?(bytes: some Collection<UInt8>) {
        if let value = UInt32(bigEndianBytes: bytes) {
            self = .v4(value)
        } else if let high = UInt64(bigEndianBytes: bytes.prefix(8)), let low = UInt64(bigEndianBytes: bytes.dropFirst(8)) {
            self = .v6(high, low)
        } else {
            return nil
        }
    }

    /// 4 or 16 bytes in network byte order.
    package var bytes: [UInt8] {
        switch self {
        case .v4(let value): value.bigEndianBytes
        case .v6(let high, let low): high.bigEndianBytes + low.bigEndianBytes
        }
    }

    /// Whether this is an IPv6 address.
    package var isIPv6: Bool { if case .v6 = self { true } else { false } }

    /// Whether this is a loopback address (127/8, ::1).
    package var isLoopback: Bool {
        switch self {
        case .v4(let value): value >> 24 == 127
        case .v6(let high, let low): high == 0 && low == 1
        }
    }

    /// Whether this is a multicast address (224/4, ff00::/8).
    package var isMulticast: Bool {
        switch self {
        case .v4(let value): value >> 28 == 0xe
        case .v6(let high, _): high >> 56 == 0xff
        }
    }

    /// Whether this is a link-local address (169.254/16, fe80::/10).
    package var isLinkLocal: Bool {
        switch self {
        case .v4(let value): value >> 16 == 0xa9fe
        case .v6(let high, _): high >> 54 == 0xfe80 >> 6
        }
    }

    /// Whether connecting needs a zone (interface) besides the address.
    package var needsZone: Bool { isIPv6 && isLinkLocal }

    /// Whether this is a unicast address that a host on the link can have: not unspecified, multicast, broadcast, reserved or
    /// an IPv4-mapped address.
    /// - Parameter onLoopback: Allows loopback addresses, for claims that arrived over loopback.
    package func canBeReached(onLoopback: Bool) -> Bool {
        if isMulticast || (isLoopback && !onLoopback) { return false }
        switch self {
        case .v4(let value): return value >> 24 != 0 && value >> 28 != 0xf
        // Everything under ::/96 and ::ffff:0:0/96 except ::1.
        case .v6(let high, let low): return high != 0 || !(low >> 32 == 0 || low >> 32 == 0xffff) || isLoopback
        }
    }

    /// Whether both addresses are in one network with a prefix of `prefixLength` bits.
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
    /// Dotted decimals for IPv4, RFC 5952 for IPv6.
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
