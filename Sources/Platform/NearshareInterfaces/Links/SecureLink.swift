package import NearshareBase

/// An encrypted byte stream over a link, whose ends may have shown certificates. Used by at most two threads: one that reads, one
/// that writes.
package protocol SecureLink: AnyObject, Sendable {
    /// SHA-256 of the certificate that the peer has shown, which it has proven to own; nil for none.
    var peerFingerprint: [UInt8]? { get }

    /// Blocks until bytes arrive.
    /// - Returns: the number of bytes read, 0 at the end of the stream.
    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int

    /// Blocks until all bytes are in the send buffer.
    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError)

    /// Closes the outgoing direction.
    func finishWriting()
}

/// Secures links with certificates that sign themselves. Their ends are told apart by fingerprints, and not by names.
package protocol LinkSecurity: Sendable {
    /// SHA-256 of this node's certificate.
    var fingerprint: [UInt8] { get }

    /// Shakes hands with a peer that has opened a link; blocks. Closing the link wakes it.
    func accept(_ link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink

    /// Shakes hands over a link that this node has opened; blocks.
    func connect(over link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink
}
