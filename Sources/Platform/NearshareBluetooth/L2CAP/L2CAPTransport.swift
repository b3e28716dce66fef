internal import CNearshareBluetooth
internal import Glibc
internal import NearshareInterfaces

/// Stream links over LE connection-oriented channels: kernel sockets that need no privilege.
final class L2CAPTransport: StreamTransport {
    private let adapter: AdapterThread

    /// The dynamic range (Bluetooth Core specification, volume 3, part A, section 4.22); lower PSMs need a capability.
    static let dynamicPSMs: ClosedRange<UInt16> = 0x80...0xFF
    private static let backlog: Int32 = 8

    init(_ adapter: AdapterThread) {
        self.adapter = adapter
    }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        let address = try adapter.adapterAddress()
        let candidates = port == 0 ? Array(Self.dynamicPSMs) : [port]
        for psm in candidates {
            var raw = address.raw
            let descriptor = nearshare_l2cap_open(&raw, psm, UInt16(L2CAPLink.receiveMTU))
            if descriptor < 0, errno == EADDRINUSE { continue }
            guard descriptor >= 0 else { throw Self.unavailable() }
            guard Glibc.listen(descriptor, Self.backlog) == 0 else {
                defer { Glibc.close(descriptor) }
                // bind(2) may succeed for a PSM on which another socket listens.
                if errno == EADDRINUSE { continue }
                throw Self.unavailable()
            }
            return L2CAPListener(descriptor: descriptor, port: psm, adapter: adapter)
        }
        throw LinkError(
            .unavailable,
            "all channel numbers (PSM) of this Bluetooth adapter are in use; stop other programs that listen there")
    }

    func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        guard let peer = BluetoothAddress(address) else {
            throw LinkError(.unreachable, "\(address.host) is not a Bluetooth address")
        }
        let local = try adapter.adapterAddress()
        // During discovery, connecting takes ten seconds instead of a tenth of a second.
        let hold = adapter.holdDiscovery(for: peer)
        do throws(LinkError) {
            let descriptor = try Self.connect(
                from: local, to: peer, psm: address.port, timeout: timeout, cancelledBy: cancellation)
            return L2CAPLink(
                descriptor: descriptor, remote: address, clock: adapter.clock, onClose: { hold.release(channelWasOpen: true) })
        } catch {
            hold.release(channelWasOpen: false)
            throw error
        }
    }

    private static func connect(
        from local: BluetoothAddress, to peer: BluetoothAddress, psm: UInt16, timeout: Duration,
        cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> Int32 {
        var raw = local.raw
        let descriptor = nearshare_l2cap_open(&raw, 0, UInt16(L2CAPLink.receiveMTU))
        guard descriptor >= 0 else { throw unavailable() }
        raw = peer.raw
        let code = SocketCalls.connect(descriptor, timeout: timeout, cancelledBy: cancellation) {
            nearshare_l2cap_connect(descriptor, &raw, psm)
        }
        guard code == 0 else {
            Glibc.close(descriptor)
            throw connectError(code, to: peer)
        }
        return descriptor
    }

    private static func connectError(_ code: Int32, to peer: BluetoothAddress) -> LinkError {
        switch code {
        case ECONNREFUSED:
            LinkError(.unreachable, "\(peer) refuses the channel over Bluetooth; is it receiving?")
        case ECANCELED: LinkError(.closed, "the connection to \(peer) was cancelled")
        case ETIMEDOUT, EHOSTDOWN: LinkError(.timedOut, "\(peer) does not answer over Bluetooth; is it near enough?")
        default: LinkError(.unreachable, "could not connect to \(peer) over Bluetooth: \(systemErrorText(code))")
        }
    }

    private static func unavailable(_ code: Int32 = errno) -> LinkError {
        switch code {
        case EAFNOSUPPORT:
            LinkError(.unavailable, "Bluetooth is not available in this kernel, container or network namespace")
        case EADDRNOTAVAIL, ENODEV, ENETDOWN: LinkError(.unavailable, "the Bluetooth adapter is missing or powered off")
        default: LinkError(.unavailable, "could not create a Bluetooth socket: \(systemErrorText(code))")
        }
    }
}
