internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareInterfaces
internal import Synchronization

/// The UDP datagrams of one session (`docs/PROTOCOL.md`, section 12.5): a tag (u64), then a ciphertext under a key of the
/// link's handshake.
///
///     a link's packets:   unknown ── the port and tag of the peer ──► probing ── an answer ──► proven
///
/// Until the path is proven, and on relayed links, unreliable messages travel over the link itself.
final class SessionDatagrams: Sendable {
    private enum Kind {
        static let probe: UInt8 = 0
        static let answer: UInt8 = 1
        static let payload: UInt8 = 2
    }

    private static let maximumByteCount = 2048
    private let socket: any DatagramSocket

    init?(_ settings: NodeSettings) {
        do throws(LinkError) {
            guard let socket = try settings.datagrams?.open(port: 0, interface: settings.interface) else { return nil }
            self.socket = socket
        } catch {
            settings.log.info("no UDP socket for unreliable messages: \(error)")
            return nil
        }
    }

    var port: UInt16 { socket.port }

    func close() {
        socket.close()
    }

    /// Passes received packets to `take` until the socket is closed.
    func receiveLoop(_ take: (_ packet: [UInt8], _ tag: UInt64) -> Void) {
        while let (bytes, _) = socket.receive(upTo: Self.maximumByteCount) {
            guard bytes.count > 8 else { continue }
            take(Array(bytes.dropFirst(8)), UInt64(truncatingBigEndian: bytes.prefix(8)))
        }
    }

    /// Records where the peer receives packets: a port of the host that its link leads to, never another host.
    func learn(_ link: SessionLink, port: UInt16, tag: UInt64) {
        guard link.relay == nil, port > 0, let host = link.remoteHost else { return }
        link.datagramPath.withLock { $0.remote = (LinkAddress(host: host, port: port), tag) }
        write(Kind.probe, [], on: link)
    }

    /// - Returns: false while packets are not known to arrive.
    func send(_ payload: [UInt8], on link: SessionLink) -> Bool {
        guard link.datagramPath.withLock({ $0.isProven }) else {
            // The first probe may have been lost.
            write(Kind.probe, [], on: link)
            return false
        }
        write(Kind.payload, payload, on: link)
        return true
    }

    private func write(_ kind: UInt8, _ payload: [UInt8], on link: SessionLink) {
        let packet: (bytes: [UInt8], to: LinkAddress)? = link.datagramPath.withLock { path in
            guard let remote = path.remote, let sealed = try? path.cipher.seal([kind] + payload) else { return nil }
            return (withUnsafeBytes(of: remote.tag.bigEndian) { Array($0) } + sealed, remote.address)
        }
        if let packet { socket.send(packet.bytes, to: packet.to) }
    }

    /// Decrypts a packet, and answers a probe.
    /// - Returns: the payload; nil for a forged or replayed packet, a probe or an answer.
    func open(_ packet: [UInt8], on link: SessionLink) -> [UInt8]? {
        guard let plaintext = link.datagramPath.withLock({ try? $0.cipher.open(packet[...]) }) else { return nil }
        switch plaintext.first {
        case Kind.probe: write(Kind.answer, [], on: link)
        case Kind.answer: link.datagramPath.withLock { $0.isProven = true }
        case Kind.payload: return Array(plaintext.dropFirst())
        default: break
        }
        return nil
    }
}
