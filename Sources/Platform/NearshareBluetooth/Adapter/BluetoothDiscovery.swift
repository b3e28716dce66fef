internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Finds peers by their ``ServiceRecord``s, and advertises this machine's.
final class BluetoothDiscovery: Discovery {
    let engine = "Bluetooth"
    private let adapter: AdapterThread

    private static let advertisingTimeout = Duration.seconds(10)

    init(_ adapter: AdapterThread) {
        self.adapter = adapter
    }

    /// The advertisement's port is a PSM. There is one type of service, and one interface.
    func advertise(_ advertisement: Advertisement) throws(DiscoveryError) -> any RunningAdvertisement {
        let outcome = Monitor<BluetoothError??>(nil)
        let record = ServiceRecord(psm: advertisement.port, txt: advertisement.txt)
        adapter.thread.post { controller in
            controller.advertise(record) { error in outcome.update { $0 = .some(error) } }
        }
        let deadline = (adapter.clock() + Self.advertisingTimeout).nanoseconds
        guard let outcome = outcome.wait(untilNanoseconds: deadline, { $0 }) else {
            adapter.thread.post { $0.withdraw() }
            throw DiscoveryError("bluetoothd does not respond; `sudo systemctl restart bluetooth` may help")
        }
        if let outcome { throw DiscoveryError(outcome.description) }
        return BluetoothAdvertisement(adapter)
    }

    func browse(
        for type: ServiceType, interface: String?
    ) throws(DiscoveryError) -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let id = try adapter.thread.run { $0.browse(continuation) }
        continuation.onTermination = { [adapter] _ in adapter.thread.post { $0.endBrowsing(id) } }
        return stream
    }
}

private final class BluetoothAdvertisement: RunningAdvertisement {
    private let adapter: AdapterThread
    private let isStopped = Atomic(false)

    init(_ adapter: AdapterThread) {
        self.adapter = adapter
    }

    deinit { stop() }

    func update(txt: [[UInt8]]) throws(DiscoveryError) {
        try Advertisement.check(txt: txt)
        adapter.thread.post { $0.update(txt: txt) }
    }

    func stop() {
        if !isStopped.exchange(true, ordering: .relaxed) { adapter.thread.post { $0.withdraw() } }
    }
}
