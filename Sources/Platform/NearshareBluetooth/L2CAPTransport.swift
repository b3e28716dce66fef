internal import CNearshareBluetooth
internal import Glibc
internal import NearshareDBus
internal import NearshareInterfaces
internal import Synchronization

/// Stream links over LE connection-oriented channels: sockets that any user may have.
final class L2CAPTransport: StreamTransport {
    private let radio: AdapterThread

    /// Others than these need a capability (Bluetooth core specification, volume 3, part A, section 4.22: the dynamic range).
    static let freePSMs: ClosedRange<UInt16> = 0x80...0xFF

    init(_ radio: AdapterThread) {
        self.radio = radio
    }

    func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        let adapter = try radio.adapterAddress()
        let wanted = port == 0 ? Array(Self.freePSMs) : [port]
        for psm in wanted {
            var raw = adapter.raw
            let descriptor = nearshare_l2cap_open(&raw, psm, L2CAPLink.receiveLimit)
            if descriptor < 0, errno == EADDRINUSE { continue }
            guard descriptor >= 0 else { throw Self.unavailable() }
            guard Glibc.listen(descriptor, 8) == 0 else {
                defer { Glibc.close(descriptor) }
                // The address is free, the number may be taken all the same.
                if errno == EADDRINUSE { continue }
                throw Self.unavailable()
            }
            return L2CAPListener(descriptor: descriptor, port: psm, radio: radio)
        }
        throw LinkError(
            .unavailable, "no channel number is left on this Bluetooth adapter; end other programs that listen there")
    }

    func connect(to address: LinkAddress, timeout: Duration) throws(LinkError) -> any StreamLink {
        guard let peer = BluetoothAddress(address) else {
            throw LinkError(.unreachable, "\(address.host) is not the address of a Bluetooth device")
        }
        let adapter = try radio.adapterAddress()
        // With discovery on, connecting takes ten seconds instead of a tenth of one.
        let hold = radio.holdDiscovery(for: peer)
        do throws(LinkError) {
            let descriptor = try Self.connect(from: adapter, to: peer, psm: address.port, timeout: timeout)
            return L2CAPLink(descriptor: descriptor, remote: address, onClose: { hold.release() })
        } catch {
            hold.release()
            throw error
        }
    }

    private static func connect(
        from adapter: BluetoothAddress, to peer: BluetoothAddress, psm: UInt16, timeout: Duration
    ) throws(LinkError) -> Int32 {
        var raw = adapter.raw
        let descriptor = nearshare_l2cap_open(&raw, 0, L2CAPLink.receiveLimit)
        guard descriptor >= 0 else { throw unavailable() }
        do throws(LinkError) {
            let flags = fcntl(descriptor, F_GETFL)
            _ = fcntl(descriptor, F_SETFL, flags | O_NONBLOCK)
            raw = peer.raw
            if nearshare_l2cap_connect(descriptor, &raw, psm) != 0 {
                guard errno == EINPROGRESS else { throw refusal(of: peer, errno) }
                var waiting = pollfd(fd: descriptor, events: Int16(POLLOUT), revents: 0)
                var ready: Int32
                repeat {
                    ready = poll(&waiting, 1, Int32(clamping: Int64(timeout / .milliseconds(1))))
                } while ready < 0 && errno == EINTR
                guard ready > 0 else {
                    throw LinkError(.timedOut, "\(peer) does not answer over Bluetooth; is it near enough?")
                }
                var code: Int32 = 0
                var length = socklen_t(MemoryLayout<Int32>.size)
                getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length)
                guard code == 0 else { throw refusal(of: peer, code) }
            }
            _ = fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK)
            return descriptor
        } catch {
            Glibc.close(descriptor)
            throw error
        }
    }

    private static func refusal(of peer: BluetoothAddress, _ code: Int32) -> LinkError {
        switch code {
        case ECONNREFUSED:
            LinkError(.unreachable, "\(peer) takes no channel over Bluetooth; does `nearshare receive` run there?")
        case ETIMEDOUT, EHOSTDOWN: LinkError(.timedOut, "\(peer) does not answer over Bluetooth; is it near enough?")
        default: LinkError(.unreachable, "no way to \(peer) over Bluetooth: \(systemError(code))")
        }
    }

    static func unavailable(_ code: Int32 = errno) -> LinkError {
        switch code {
        case EAFNOSUPPORT:
            LinkError(.unavailable, "the kernel has no Bluetooth here; containers and network namespaces never have")
        case EADDRNOTAVAIL, ENODEV, ENETDOWN: LinkError(.unavailable, "the Bluetooth adapter is gone, or switched off")
        default: LinkError(.unavailable, "no Bluetooth socket to be had: \(systemError(code))")
        }
    }
}

final class L2CAPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let wakeup = EventFD()
    private let radio: AdapterThread
    private let isClosed = Atomic(false)

    /// Takes the descriptor over, which listens.
    init(descriptor: Int32, port: UInt16, radio: AdapterThread) {
        self.descriptor = descriptor
        self.port = port
        self.radio = radio
    }

    deinit {
        Glibc.close(descriptor)
    }

    func accept() throws(LinkError) -> any StreamLink {
        while true {
            var waiting = [
                pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeup.descriptor, events: Int16(POLLIN), revents: 0),
            ]
            let ready = poll(&waiting, nfds_t(waiting.count), -1)
            if isClosed.load(ordering: .acquiring) { throw LinkError(.closed, "no longer listening") }
            if ready < 0, errno == EINTR { continue }
            if waiting[0].revents & Int16(POLLERR | POLLHUP | POLLNVAL) != 0 {
                throw LinkError(.unavailable, "the Bluetooth adapter is gone; nobody can connect over it any more")
            }
            var raw = nearshare_bluetooth_address()
            let taken = nearshare_l2cap_accept(descriptor, &raw)
            guard taken >= 0 else {
                // Whoever connected may be gone already; without descriptors the next try is not for now.
                if errno == EMFILE || errno == ENFILE { poll(nil, 0, 100) }
                continue
            }
            let peer = BluetoothAddress(raw)
            let hold = radio.holdDiscovery(for: peer)
            return L2CAPLink(descriptor: taken, remote: peer.linkAddress(port: port), onClose: { hold.release() })
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }
}
