internal import CNearshareBluetooth
internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Accepts channels on one PSM.
final class L2CAPListener: StreamListener {
    let port: UInt16
    private let descriptor: Int32
    private let wakeup = EventFD()
    private let spare = SpareDescriptor()
    private let adapter: AdapterThread
    private let isClosed = Atomic(false)

    /// Takes ownership of a listening descriptor.
    init(descriptor: Int32, port: UInt16, adapter: AdapterThread) {
        self.descriptor = descriptor
        self.port = port
        self.adapter = adapter
    }

    deinit {
        Glibc.close(descriptor)
    }

    func accept() throws(LinkError) -> any StreamLink {
        while true {
            let events = DescriptorPoll.wait(for: descriptor, .readable, wakeup: wakeup, timeout: nil)
            if isClosed.load(ordering: .acquiring) { throw LinkError(.closed, "the listener was closed") }
            if !events.isDisjoint(with: .broken) {
                throw LinkError(.unavailable, "the Bluetooth adapter is missing: it accepts no channels any more")
            }
            guard events.contains(.readable) else { continue }
            var raw = nearshare_bluetooth_address()
            let accepted = nearshare_l2cap_accept(descriptor, &raw)
            guard accepted >= 0 else {
                // The peer may have disconnected already.
                if errno == EMFILE || errno == ENFILE {
                    spare.dropConnection { nearshare_l2cap_accept(descriptor, &raw) }
                }
                continue
            }
            let peer = BluetoothAddress(raw)
            let hold = adapter.holdDiscovery(for: peer)
            return L2CAPLink(
                descriptor: accepted, remote: peer.linkAddress(port: port), clock: adapter.clock,
                onClose: { hold.release(channelWasOpen: true) })
        }
    }

    func close() {
        isClosed.store(true, ordering: .releasing)
        wakeup.signal()
    }
}
