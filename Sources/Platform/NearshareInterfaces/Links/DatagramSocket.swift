/// Opens datagram sockets. A datagram arrives whole or not at all.
package protocol DatagramTransport: Sendable {
    /// - Parameters:
    ///   - port: 0 for any free port.
    ///   - interface: the name of the only interface that is used; nil for all.
    func open(port: UInt16, interface: String?) throws(LinkError) -> any DatagramSocket
}

/// A bound datagram socket. Safe to use from several threads.
package protocol DatagramSocket: AnyObject, Sendable {
    var port: UInt16 { get }

    /// Never blocks; the datagram is dropped when the send buffer is full.
    /// - Parameter address: with a numeric host; nothing is sent to a name.
    func send(_ bytes: [UInt8], to address: LinkAddress)

    /// Blocks until a datagram arrives.
    /// - Returns: at most `limit` bytes of it and the sender's address; nil after ``close()``, and when the socket can no longer be read.
    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)?

    /// Wakes ``receive(upTo:)``. May be called from any thread.
    func close()
}
