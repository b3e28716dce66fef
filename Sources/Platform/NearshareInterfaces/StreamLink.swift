/// Why a link, a listener or a dialer could not do what was asked. The text is for people.
package struct LinkError: Error, Sendable, CustomStringConvertible {
    package enum Code: Sendable, Hashable {
        /// Nobody answers there, or the way is barred.
        case unreachable
        case timedOut
        /// The other side, or the network between, has ended it.
        case broken
        /// We have ended it.
        case closed
        /// The machine refuses: port taken, no descriptors left, no permission.
        case unavailable
    }

    package let code: Code
    package let description: String

    package init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }
}

/// Where a link leads.
public struct LinkAddress: Sendable, Hashable, CustomStringConvertible {
    /// What carries it.
    package enum Medium: Sendable, Hashable {
        /// IP, whatever is below.
        case network
        case bluetooth
    }

    /// A numeric IPv4 or IPv6 address, the latter with its zone where it is link-local: "fe80::1%eth0". Over Bluetooth a
    /// device's address and its kind: "00:AA:01:00:00:00/public".
    package let host: String
    /// Over Bluetooth the number of a channel (PSM).
    package let port: UInt16
    package let medium: Medium

    /// An address on the network.
    /// - Parameters:
    ///   - host: a numeric IPv4 or IPv6 address; a link-local one with its zone, such as "fe80::1%eth0".
    ///   - port: TCP port.
    public init(host: String, port: UInt16) {
        self.init(host: host, port: port, medium: .network)
    }

    package init(host: String, port: UInt16, medium: Medium) {
        self.host = host
        self.port = port
        self.medium = medium
    }

    public var description: String {
        switch medium {
        case .network: host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
        case .bluetooth: "\(host.prefix { $0 != "/" }) over Bluetooth"
        }
    }
}

/// An ordered, reliable stream of bytes to one other machine, used by two threads at most: one that reads, one that writes.
///
/// Calls block; ``close()`` from any thread wakes them. Bulk data flows through here with buffers that the caller reuses.
package protocol StreamLink: AnyObject, Sendable {
    var remote: LinkAddress { get }

    /// Our own address as seen on this link, numeric; nil where there is none that means anything to others.
    var localHost: String? { get }

    /// Blocks until something is there. Returns how many bytes were read, 0 at the orderly end of the stream.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int

    /// Blocks until all of it has been taken over.
    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError)

    /// Takes over as much as it can at once, and never blocks.
    /// - Returns: how many bytes were taken over.
    func writeNow(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int

    /// Ends our direction in order: the other side reads all that was written, then the end.
    func finishWriting()

    /// Cuts both directions at once. May be called more than once.
    func close()
}

/// Waits for others to connect.
package protocol StreamListener: AnyObject, Sendable {
    /// Where others reach it.
    var port: UInt16 { get }

    /// Blocks until somebody connects. A failure that concerns one connection only is not reported: the next is awaited.
    /// - Throws: ``LinkError/Code/closed`` after ``close()``.
    func accept() throws(LinkError) -> any StreamLink

    func close()
}

/// Connects to others and lets others connect.
package protocol StreamTransport: Sendable {
    /// - Parameter port: 0 for one that is free.
    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener

    /// Blocks until connected, refused or out of time.
    func connect(to address: LinkAddress, timeout: Duration) throws(LinkError) -> any StreamLink
}
