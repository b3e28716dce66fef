import NearshareInterfaces

/// A link that passes all to another one; subclasses change a part.
class ForwardingLink: StreamLink, @unchecked Sendable {
    let inner: any StreamLink

    init(_ inner: any StreamLink) {
        self.inner = inner
    }

    var remote: LinkAddress { inner.remote }
    var localHost: String? { inner.localHost }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { try inner.read(into: buffer) }
    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try inner.write(bytes) }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        try inner.writeWithoutBlocking(bytes)
    }

    func finishWriting() { inner.finishWriting() }
    func close() { inner.close() }
}
