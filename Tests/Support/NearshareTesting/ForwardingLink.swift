package import NearshareInterfaces

/// A link that passes all to another one, but for what the type implements itself.
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

    package func finishWriting() { inner.finishWriting() }
    package func close() { inner.close() }
}
