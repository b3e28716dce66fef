/// Sends and takes packets of bytes, each of which arrives whole or not at all.
package protocol DatagramTransport: Sendable {
    /// - Parameter port: 0 for one that is free.
    func open(port: UInt16, interface: String?) throws(LinkError) -> any DatagramSocket
}

/// One port for packets, used by any number of threads.
package protocol DatagramSocket: AnyObject, Sendable {
    var port: UInt16 { get }

    /// Never blocks: what there is no room for is lost.
    func send(_ bytes: [UInt8], to address: LinkAddress)

    /// Blocks until a packet is there.
    /// - Returns: at most `limit` bytes of it, and where it came from; nil after ``close()``.
    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)?

    /// From any thread; wakes ``receive(upTo:)``.
    func close()
}
