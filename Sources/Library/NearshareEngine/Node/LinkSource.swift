internal import NearshareBase
internal import NearshareInterfaces

/// The origin of incoming links that share a limit (R3, Q6). Unlike keys, further ones cost a peer something.
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

    init(_ address: LinkAddress) { self = address.ipv6Prefix.map { .network($0) } ?? .host(address.host) }
}

extension LinkAddress {
    /// Names the source of a link of the mesh, for limits that count all links of one source. An IPv6 network of 64 bits is one
    /// source. So are all of 127.0.0.0/8 but 127.0.0.1: each process can use every one of them.
    var sourceName: String {
        if host == "127.0.0.1" || host == "::1" { return "loopback" }
        if host.hasPrefix("127.") { return "127.0.0.0/8" }
        return ipv6Prefix.map { "\(String($0, radix: 16))::/64" } ?? host
    }
}
