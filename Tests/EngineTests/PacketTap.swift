import NearshareInterfaces
import NearshareTCP

/// UDP packets of which an observer on the path keeps a copy, and which it may drop.
final class PacketTap: DatagramTransport, Sendable {
    struct Packet: Sendable {
        let bytes: [UInt8]
        let target: LinkAddress
    }

    private struct State {
        var packets: [Packet] = []
        var holds = false
    }

    private let state = Monitor(State())
    private let inner = UDPTransport()

    func open(port: UInt16, interface: String?) throws(LinkError) -> any DatagramSocket {
        TappedSocket(try inner.open(port: port, interface: interface), self)
    }

    /// All packets sent, delivered or not.
    var packets: [Packet] { state.withLock { $0.packets } }

    /// Whether all packets are dropped from now on.
    func hold(_ holds: Bool) {
        state.update { $0.holds = holds }
    }

    /// - Returns: Whether the packet is forwarded.
    fileprivate func passes(_ packet: Packet) -> Bool {
        state.update { state in
            state.packets.append(packet)
            return !state.holds
        }
    }
}

private final class TappedSocket: DatagramSocket {
    private let inner: any DatagramSocket
    private let tap: PacketTap

    init(_ inner: any DatagramSocket, _ tap: PacketTap) {
        self.inner = inner
        self.tap = tap
    }

    var port: UInt16 { inner.port }

    func send(_ bytes: [UInt8], to address: LinkAddress) {
        if tap.passes(PacketTap.Packet(bytes: bytes, target: address)) { inner.send(bytes, to: address) }
    }

    func receive(upTo limit: Int) -> (bytes: [UInt8], from: LinkAddress)? { inner.receive(upTo: limit) }
    func close() { inner.close() }
}
