internal import NearshareBase
internal import NearshareInterfaces

/// The origin of incoming links that share a limit (R3, Q6). Unlike keys, further ones cost a peer something.
enum LinkSource: Hashable, Sendable {
    /// 127.0.0.1 and ::1: the processes of this machine.
    case loopback
    /// The other addresses of 127/8: each process of this machine can use every one of them.
    case otherLoopback
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
        if address.host == "127.0.0.1" || address.host == "::1" {
            self = .loopback
        } else if IPAddress.isLoopback(host: address.host) {
            self = .otherLoopback
        } else {
            self = address.ipv6Prefix.map { .network($0) } ?? .host(address.host)
        }
    }
}

extension LinkAddress {
    /// Names the ``LinkSource`` of a link of the mesh, for limits that count all links of one source.
    var sourceName: String {
        switch LinkSource(self) {
        case .loopback: "loopback"
        case .otherLoopback: "127.0.0.0/8"
        case .network(let prefix): "\(String(prefix, radix: 16))::/64"
        case .host, .member, .joined: host
        }
    }
}
