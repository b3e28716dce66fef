import NearshareBase
import NearshareInterfaces

/// Links without encryption, whose clients show a certificate.
struct PlainSecurity: LinkSecurity {
    private final class PlainLink: SecureLink {
        let link: any StreamLink
        var peerFingerprint: [UInt8]? { [UInt8](repeating: 7, count: 32) }

        init(_ link: any StreamLink) { self.link = link }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { try link.read(into: buffer) }
        func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try link.write(bytes) }
        func finishWriting() { link.finishWriting() }
    }

    let fingerprint = [UInt8](repeating: 9, count: 32)

    /// A handshake of one byte.
    func accept(_ link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1, alignment: 1)
        defer { buffer.deallocate() }
        guard try link.read(into: buffer) == 1 else { throw LinkError(.broken, "no handshake") }
        return PlainLink(link)
    }

    func connect(over link: any StreamLink, now: WallTime) throws(LinkError) -> any SecureLink { PlainLink(link) }
}
