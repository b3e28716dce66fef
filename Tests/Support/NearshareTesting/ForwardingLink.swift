package import NearshareInterfaces

/// A link that forwards every requirement of ``StreamLink`` that its type does not implement itself to another link. It has no
/// ``StreamLink/passableDescriptor``: the process that is passed the socket would bypass the type.
package protocol ForwardingLink: StreamLink {
    var inner: any StreamLink { get }
}

extension ForwardingLink {
    package var remote: LinkAddress { inner.remote }
    package var remoteHost: String? { inner.remoteHost }
    package var localHost: String? { inner.localHost }

    package func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { try inner.read(into: buffer) }
    package func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try inner.write(bytes) }

    package func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        try inner.writeWithoutBlocking(bytes)
    }

    package var isFinishedByPeer: Bool { inner.isFinishedByPeer }
    package var unacknowledgedByteCount: Int? { inner.unacknowledgedByteCount }

    package func setSilenceTimeout(_ timeout: Duration) { inner.setSilenceTimeout(timeout) }
    package func finishWriting() { inner.finishWriting() }
    package func close() { inner.close() }
}
