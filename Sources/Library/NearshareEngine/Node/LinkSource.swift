internal import NearshareBase
internal import NearshareInterfaces

/// The origin of incoming links that share a limit: what it costs a peer something to have another of (R3, Q6).
enum LinkSource: Hashable, Sendable {
    /// An IPv4 address, or a Bluetooth device.
    case host(String)
    /// An IPv6 network of 64 bits: a machine may take any address in it.
    case network(UInt64)
    /// A member of a session, whose link is relayed.
    case member(PeerID)
    /// A member of a session, over a link that has joined it. Such a link takes no slot of its address.
    case joined(PeerID)

    var isMember: Bool { if case .member = self { true } else { false } }

    init(_ address: LinkAddress) {
        let network = address.medium == .network ? Self.network(of: address.host) : nil
        self = network.map { .network($0) } ?? .host(address.host)
    }

    /// The first 64 bits of an IPv6 address in numeric form; nil for other text.
    private static func network(of host: String) -> UInt64? {
        let text = Array(host.utf8.prefix { $0 != UInt8(ascii: "%") })
        guard text.contains(UInt8(ascii: ":")) else { return nil }
        let groups = text.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        // "::" stands for as many zeros as are missing; at the start or the end it makes two empty groups of one.
        let gap = groups.dropFirst(groups.first?.isEmpty == true ? 1 : 0).firstIndex { $0.isEmpty } ?? groups.endIndex
        let head = groups[..<gap].filter { !$0.isEmpty }
        let tail = groups[gap...].filter { !$0.isEmpty }
        // A dotted quad stands for two groups.
        let tailCount = tail.count + (tail.last?.contains(UInt8(ascii: ".")) == true ? 1 : 0)
        let zeros = Array(repeating: ArraySlice<UInt8>([UInt8(ascii: "0")]), count: max(0, 8 - head.count - tailCount))
        let all = Array(head) + zeros + Array(tail)
        return all.prefix(4).reduce(UInt64(0)) { sum, group in
            sum << 16 | UInt64(UInt16(String(decoding: group, as: UTF8.self), radix: 16) ?? 0)
        }
    }
}
