internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces
internal import Synchronization

/// Owns the thread of an ``AdapterController``, which ends with this object.
final class AdapterThread: Sendable {
    let thread: EventLoopThread<AdapterController>
    let clock: @Sendable () -> MonotonicInstant

    init(
        adapter: String?, clock: @escaping @Sendable () -> MonotonicInstant, log: @escaping @Sendable (String) -> Void,
        warn: @escaping @Sendable (String) -> Void
    ) throws(BluetoothError) {
        self.clock = clock
        do throws(EventLoopStartError<BluetoothError>) {
            thread = try EventLoopThread(clock: clock) { handle throws(BluetoothError) in
                try AdapterController(
                    adapter: adapter, wakeup: handle.wakeup,
                    dependencies: AdapterDependencies(clock: clock, log: log, warn: warn, post: { handle.post($0) }))
            }
        } catch {
            switch error {
            case .notMade(let error): throw error
            case .noThread(let reason): throw .failed(reason)
            }
        }
    }

    deinit { thread.close() }

    func adapterAddress() throws(LinkError) -> BluetoothAddress {
        let address: BluetoothAddress?
        do throws(DiscoveryError) {
            address = try thread.run { $0.adapter.isPowered ? $0.adapter.address : nil }
        } catch {
            throw LinkError(.unavailable, error.description)
        }
        guard let address else { throw LinkError(.unavailable, "the Bluetooth adapter is missing or powered off") }
        return address
    }

    /// Stops discovery, and waits until it has stopped; it stays off until the hold is released. Connections to the peer are
    /// kept meanwhile.
    func holdDiscovery(for peer: BluetoothAddress) -> DiscoveryHold {
        // After the thread has ended there is nothing to stop.
        try? thread.run { $0.holdDiscovery(peer) }
        return DiscoveryHold { [weak self] channelWasOpen in
            self?.thread.post { $0.releaseDiscovery(peer, channelWasOpen: channelWasOpen) }
        }
    }
}

/// Keeps discovery off from the attempt to open a channel to a peer until the channel is closed.
final class DiscoveryHold: Sendable {
    private let isReleased = Atomic(false)
    private let onRelease: @Sendable (_ channelWasOpen: Bool) -> Void

    init(onRelease: @escaping @Sendable (_ channelWasOpen: Bool) -> Void) {
        self.onRelease = onRelease
    }

    /// - Parameter channelWasOpen: whether there was a channel; false when opening it has failed.
    func release(channelWasOpen: Bool) {
        if !isReleased.exchange(true, ordering: .relaxed) { onRelease(channelWasOpen) }
    }
}
