internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

/// A link to a member of a session through another member. Its bytes are encrypted for the far end, so that the relaying member
/// can neither read them nor alter them undetected (`docs/PROTOCOL.md`, section 12.3).
final class RelayedLink: StreamLink {
    let remote: LinkAddress
    let localHost: String? = nil
    /// The member that relays the bytes.
    let relay: PeerID
    private let stream: ByteStream

    init(_ stream: ByteStream, to end: PeerID, through relay: PeerID) {
        self.stream = stream
        self.relay = relay
        remote = LinkAddress(host: "\(end.hex) through \(relay.hex)", port: 0)
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        do throws(StreamError) {
            guard let bytes = try stream.readBlocking(upTo: buffer.count) else { return 0 }
            buffer.copyBytes(from: bytes)
            return bytes.count
        } catch {
            throw LinkError(.broken, "the relayed link to \(remote) broke: \(error)")
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        do throws(StreamError) {
            try stream.writeBlocking(Array(bytes)[...])
        } catch {
            throw LinkError(.broken, "the relayed link to \(remote) broke: \(error)")
        }
    }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        do throws(StreamError) {
            return try stream.writeWithoutBlocking(Array(bytes)[...], onChange: {})
        } catch {
            throw LinkError(.broken, "the relayed link to \(remote) broke: \(error)")
        }
    }

    func finishWriting() { stream.finish() }
    func close() { stream.release() }
}
