internal import NearshareBase

#if canImport(Darwin)
    internal import Darwin
#else
    internal import Glibc
#endif

/// An error of a link, a listener or a connection attempt. The description is shown to the user.
package struct LinkError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        /// The connection was refused, or the host, its name or its channel cannot be reached.
        case unreachable
        /// This machine has no route to the network of the address (ENETUNREACH).
        case networkUnreachable
        case timedOut
        /// Closed by the peer or by the network.
        case broken
        /// Closed by this node.
        case closed
        /// Another socket has the port.
        case portInUse
        /// Refused by the system: no descriptors left, no permission.
        case unavailable
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// The error of listening on a port that another socket has.
    package static func portInUse(_ port: UInt16) -> LinkError { LinkError(.portInUse, "port \(port) is in use") }
}

/// The remote address of a link.
package struct LinkAddress: Sendable, Hashable, CustomStringConvertible {
    /// The medium of the link.
    package enum Medium: Sendable, Hashable {
        /// IP, over any interface.
        case network
        case bluetooth
    }

    /// A numeric IPv4 or IPv6 address, with its zone where it is link-local: "fe80::1%eth0"; or a host name that the user gave. Over
    /// Bluetooth a device address and its type: "00:AA:01:00:00:00/public".
    package let host: String
    /// The TCP port; over Bluetooth the PSM of an L2CAP channel.
    package let port: UInt16
    package let medium: Medium

    /// An address on the network.
    /// - Parameters:
    ///   - host: a numeric IPv4 or IPv6 address, a link-local one with its zone, such as "fe80::1%eth0"; or a host name.
    ///   - port: TCP port.
    package init(host: String, port: UInt16) {
        self.init(host: host, port: port, medium: .network)
    }

    package init(host: String, port: UInt16, medium: Medium) {
        self.host = host
        self.port = port
        self.medium = medium
    }

    /// The /64 of an IPv6 address, all of whose addresses one host can use; nil for other addresses.
    package var ipv6Network: String? {
        // IPv4-mapped addresses end in dotted decimals.
        guard !host.contains("."), let prefix = ipv6Prefix else { return nil }
        let groups = (0..<4).map { String(UInt16(truncatingIfNeeded: prefix >> (48 - 16 * $0)), radix: 16) }
        return groups.joined(separator: ":") + host.drop { $0 != "%" }
    }

    /// The first 64 bits of an IPv6 address, in host byte order; nil for other addresses.
    package var ipv6Prefix: UInt64? {
        guard medium == .network, case .v6(let prefix, _)? = IPAddress(text: String(host.prefix { $0 != "%" })) else {
            return nil
        }
        return prefix
    }

    /// The /64 of an IPv6 address, for a limit beside that of the address; nil for other addresses, and for link-local ones (RFC
    /// 4291, section 2.4): all hosts of a LAN share that network.
    package var sharedNetwork: String? {
        guard let prefix = ipv6Prefix, !IPAddress.v6(prefix, 0).isLinkLocal else { return nil }
        return ipv6Network
    }

    /// The key of a limit that all addresses of one host share: the /64 of an IPv6 address, or else the host.
    package var limitKey: String { sharedNetwork ?? host }

    /// The authority of a URI or a Host header (RFC 3986, section 3.2), without the zone, which means something on this machine
    /// alone (RFC 6874, section 1).
    package var authority: String {
        LinkAddress(host: String(host.prefix { $0 != "%" }), port: port).description
    }

    package var description: String {
        switch medium {
        case .network: host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .bluetooth: "\(host.prefix { $0 != "/" }) over Bluetooth"
        }
    }
}

/// An ordered, reliable byte stream to one peer. Used by at most two threads: one that reads, one that writes.
///
/// Calls block; ``close()`` from any thread wakes them. Callers reuse their buffers.
package protocol StreamLink: AnyObject, Sendable {
    /// The address that this node has connected to, whose host may be a name, or that the link was accepted from.
    var remote: LinkAddress { get }

    /// The numeric address of the peer's host, also where ``remote`` has a name; nil for a link that is not over the network.
    var remoteHost: String? { get }

    /// The numeric local address of this link; nil where other hosts could not use it.
    var localHost: String? { get }

    /// Blocks until bytes arrive. Returns the number of bytes read, 0 at the end of the stream.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int

    /// Blocks until all bytes are in the send buffer.
    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError)

    /// Puts as many bytes into the send buffer as it has room for, without blocking.
    /// - Returns: the number of bytes written.
    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int

    /// Closes the outgoing direction: the peer reads everything that was written, then the end.
    func finishWriting()

    /// Whether the peer writes no more, although its last bytes may be unread; false for a link that cannot tell.
    var isFinishedByPeer: Bool { get }

    /// Bytes that were written and that the peer's machine has not acknowledged, the end of the stream counted as one; nil for a
    /// link that cannot tell.
    var unacknowledgedByteCount: Int? { get }

    /// Breaks the link when the other machine acknowledges nothing for this time, also where nothing is written. No effect on a link
    /// that cannot tell.
    func setSilenceTimeout(_ timeout: Duration)

    /// Closes both directions immediately. May be called more than once.
    func close()

    /// The socket, for passing it to another process; nil for a link that is no socket of its own. Valid as long as the link.
    var passableDescriptor: Int32? { get }
}

extension StreamLink {
    package var remoteHost: String? { remote.medium == .network ? remote.host : nil }
    package var isFinishedByPeer: Bool { false }
    package var unacknowledgedByteCount: Int? { nil }
    package var passableDescriptor: Int32? { nil }
    package func setSilenceTimeout(_ timeout: Duration) {}
}

/// Accepts incoming connections.
package protocol StreamListener: AnyObject, Sendable {
    /// The bound port.
    var port: UInt16 { get }

    /// Blocks until a peer connects. An error of a single connection attempt is skipped.
    /// - Throws: ``LinkError/Code/closed`` after ``close()``.
    func accept() throws(LinkError) -> any StreamLink

    func close()
}

/// Opens outgoing connections and listens for incoming ones.
package protocol StreamTransport: Sendable {
    /// - Parameters:
    ///   - port: 0 for any free port.
    ///   - interface: the name of the only interface that is used; nil for all.
    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener

    /// Blocks until the connection is open, refused or timed out.
    /// - Parameter cancellation: a signal ends the call; nil for none.
    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink

    /// Makes a link of a connected socket that another process has passed, and owns it from then on.
    /// - Returns: nil for a descriptor that is no connected socket of this transport; it is closed.
    func link(adopting descriptor: Int32) -> (any StreamLink)?
}

extension StreamTransport {
    package func connect(to address: LinkAddress, timeout: Duration) throws(LinkError) -> any StreamLink {
        try connect(to: address, timeout: timeout, cancelledBy: nil)
    }

    package func link(adopting descriptor: Int32) -> (any StreamLink)? {
        close(descriptor)
        return nil
    }
}
