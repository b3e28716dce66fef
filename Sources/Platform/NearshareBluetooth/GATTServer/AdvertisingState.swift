internal import NearshareBase

/// The registration of a GATT application and its advertisement with BlueZ: a value without clock or bus.
///
///     off → pending (application, then advertisement registered) → advertising
///     advertising → pending when BlueZ or the adapter comes back;   pending → pending after a delay on failure
struct AdvertisingState {
    private enum Phase: Equatable {
        case off
        /// Being registered; or refused, and repeated at `retryAt`.
        case pending(retryAt: MonotonicInstant?)
        /// On the air; renewed at `renewals`, which ascend.
        case advertising(renewals: [MonotonicInstant])
    }

    enum Reaction: Equatable {
        case registerApplication
        case registerAdvertisement
        case unregisterAdvertisement
        case unregisterApplication
        /// The connection to BlueZ has a new owner.
        case forgetDaemon
        /// For the caller of ``start()``: nil once advertised.
        case report(BluetoothError?)
    }

    private var phase = Phase.off
    /// Whether the caller of ``start()`` still waits for the result.
    private var isFirst = false

    /// BlueZ is busy with a connection that has just been made or ended.
    private static let renewalDelay = Duration.milliseconds(500)
    /// A second renewal: during the first one, Linux may still be resuming the old advertisement.
    private static let secondRenewalDelay = Duration.seconds(4)
    private static let retryDelay = Duration.seconds(10)

    var isOn: Bool { phase != .off }
    var isAdvertising: Bool { if case .advertising = phase { true } else { false } }

    var nextDeadline: MonotonicInstant? {
        switch phase {
        case .off: nil
        case .pending(let retryAt): retryAt
        case .advertising(let renewals): renewals.first
        }
    }

    mutating func start() -> [Reaction] {
        phase = .pending(retryAt: nil)
        isFirst = true
        return [.registerApplication]
    }

    mutating func stop() -> [Reaction] {
        guard isOn else { return [] }
        phase = .off
        isFirst = false
        return [.unregisterAdvertisement, .unregisterApplication]
    }

    /// BlueZ is new, or the adapter has come back: what BlueZ may still hold is no longer on the air.
    mutating func renew() -> [Reaction] {
        guard isOn else { return [.forgetDaemon] }
        phase = .pending(retryAt: nil)
        return [.forgetDaemon, .unregisterAdvertisement, .unregisterApplication, .registerApplication]
    }

    /// BlueZ or the adapter is gone; ``renew()`` follows.
    mutating func suspend() {
        if isOn { phase = .pending(retryAt: nil) }
    }

    /// BlueZ has withdrawn the advertisement by itself, as it does with the adapter.
    mutating func released() {
        if case .advertising(let renewals) = phase { phase = .pending(retryAt: renewals.first) }
    }

    mutating func applicationRegistered(_ error: BluetoothError?, at now: MonotonicInstant) -> [Reaction] {
        guard isOn else { return [] }
        return error.map { fail($0, at: now) } ?? [.registerAdvertisement]
    }

    mutating func advertisementRegistered(_ error: BluetoothError?, at now: MonotonicInstant) -> [Reaction] {
        guard isOn else { return [] }
        // Not every controller advertises while it is connected.
        if let error { return fail(error, at: now) }
        if !isAdvertising { phase = .advertising(renewals: []) }
        return report(nil)
    }

    /// Records that a device has connected or disconnected. While connected, a controller does not advertise, and Linux does
    /// not start again before the device leaves; a device that connects and stays silent would keep all others out. When it
    /// leaves, Linux resumes, on adapters before Bluetooth 5, the advertisement as it was before, which is then not
    /// connectable.
    mutating func connectionsChanged(at now: MonotonicInstant) {
        guard isAdvertising else { return }
        let first = now + Self.renewalDelay
        phase = .advertising(renewals: [first, first + Self.secondRenewalDelay])
    }

    mutating func tick(at now: MonotonicInstant) -> [Reaction] {
        switch phase {
        case .pending(let retryAt?) where now >= retryAt: return renew()
        case .advertising(let renewals):
            guard let first = renewals.first, now >= first else { return [] }
            phase = .advertising(renewals: Array(renewals.dropFirst()))
            return [.unregisterAdvertisement, .registerAdvertisement]
        default: return []
        }
    }

    /// The caller handles a failure of the first registration; a registration that has worked before is repeated.
    private mutating func fail(_ error: BluetoothError, at now: MonotonicInstant) -> [Reaction] {
        guard !isFirst else {
            phase = .off
            return [.unregisterAdvertisement, .unregisterApplication] + report(error)
        }
        let retry = now + Self.retryDelay
        phase = isAdvertising ? .advertising(renewals: [retry]) : .pending(retryAt: retry)
        return []
    }

    private mutating func report(_ error: BluetoothError?) -> [Reaction] {
        guard isFirst else { return [] }
        isFirst = false
        return [.report(error)]
    }
}
