package import NearshareBase

/// Opens sockets of multicast groups.
package protocol GroupTransport: Sendable {
    /// - Parameters:
    ///   - port: other programs of this machine may use it as well.
    ///   - interface: nil for all interfaces.
    func open(group: IPAddress, port: UInt16, interface: String?) throws(LinkError) -> any GroupSocket
}

/// A socket that belongs to a multicast group on this machine's interfaces. Safe to use from several threads.
package protocol GroupSocket: AnyObject, Sendable {
    /// Sends a datagram over each interface, those included that are new. Never blocks; what has no room is dropped.
    func sendToAll(_ bytes: [UInt8])

    /// Blocks until a datagram arrives, one of this socket included.
    /// - Returns: at most `limit` bytes of it and the sender's address; nil after ``close()``, and when the socket can be read no more.
    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)?

    /// Wakes ``receive(upTo:)``. May be called from any thread.
    func close()
}
