internal import NearshareBase
internal import NearshareInterfaces

/// The state machine of one hotspot in which this machine is the access point or the station, from the question to the user until the device has its old
/// connection again.
///
///     asking ──start──► requesting ──path──► activating ──activated──► addressing ──address──► active
///       │                   │                    │                        │                      │
///       │ stop              │ error              ├── stop, deadline ──────┼──────── stop ────────┤
///       │                   │                    ▼                        ▼                      ▼
///       │                   │                deactivating ◄─────────────────────────────────────
///       │                   │                    │ deactivated, deadline
///       ▼                   ▼                    ▼
///     ended ◄──────────── ended ◄──────────── restoring ◄── deactivated by others, from activating, addressing and active
///
/// From activating a network that wpa_supplicant has not started is requested once more.
///
/// NetworkManager ends the network when the connection to the bus ends, so an end here needs no answer. The device that is gone,
/// NetworkManager that has ended, and a device that the user has connected otherwise lead to ``Phase/ended`` directly: nothing is
/// to be restored.
struct WiFiMachine: Machine {
    enum Reaction: Sendable, Hashable {
        /// The reply is passed to ``WiFiMachine/requested(_:)`` or ``WiFiMachine/requestFailed(_:)``.
        case activate(WiFiNetwork, WiFiRole, WiFiTarget)
        /// The reply is passed to ``WiFiMachine/addressFound(_:)``.
        case readAddress(connection: String)
        case deactivate(connection: String)
        /// Connects the device with a profile again; the reply, whatever it is, is passed to ``WiFiMachine/restored()``.
        case restore(profile: String, device: String)
        case started(IPAddress)
        /// The last reaction; nil after ``WiFiMachine/stop(now:)``.
        case ended(WiFiError?)
    }

    private enum Phase: Sendable {
        /// Nothing has been changed.
        case asking
        /// The network was asked for. NetworkManager may send signals about it before the reply that names it.
        case requesting(deadline: MonotonicInstant, early: [String: ConnectionChange])
        case activating(connection: String, deadline: MonotonicInstant)
        case addressing(connection: String, deadline: MonotonicInstant)
        case active(connection: String)
        /// - Parameter connection: nil before the reply that names it.
        case deactivating(connection: String?, deadline: MonotonicInstant, WiFiError?)
        case restoring(deadline: MonotonicInstant, WiFiError?)
        case ended
    }

    /// A state of a connection, and its reason.
    struct ConnectionChange: Sendable, Hashable {
        /// An NMActiveConnectionState.
        var state: UInt32
        /// An NMActiveConnectionStateReason.
        var reason: UInt32

        var hasEnded: Bool { state >= NetworkManager.ConnectionState.deactivating }
    }

    let target: WiFiTarget
    private var phase = Phase.asking
    private var reactions: [Reaction] = []
    /// The last NMDeviceStateReason with which the device has left a state.
    private var deviceReason: UInt32 = 0
    /// The network that was asked for, and how often.
    private var request: (network: WiFiNetwork, role: WiFiRole, count: Int)?

    /// A driver needs a few seconds, and a user who is asked for the administrator's password longer.
    static let startTimeout = Duration.seconds(60)
    /// Shorter than the time in which a command has to end after a signal.
    static let stopTimeout = Duration.seconds(2)
    /// A device that has just left a network may be scanning for others: then wpa_supplicant 2.10 fails at once ("Failed to start
    /// AP functionality"), which NetworkManager notices after 25 s. And a scan may miss a network that has just been made.
    static let maximumRequestCount = 2
    /// Limit on the connections whose signals are kept before the reply that names the hotspot's.
    static let maximumEarlyCount = 16

    init(_ target: WiFiTarget) { self.target = target }

    // MARK: Machine

    var deadline: MonotonicInstant? {
        switch phase {
        case .asking, .active, .ended: nil
        case .requesting(let deadline, _), .activating(_, let deadline), .addressing(_, let deadline): deadline
        case .deactivating(_, let deadline, _), .restoring(let deadline, _): deadline
        }
    }

    var hasReactions: Bool { !reactions.isEmpty }

    var isFinished: Bool { if case .ended = phase { true } else { false } }

    mutating func advance(to now: MonotonicInstant) {
        guard let deadline, deadline <= now else { return }
        let error = WiFiError.timedOut(interface: target.interface)
        switch phase {
        case .requesting: phase = .deactivating(connection: nil, deadline: now + Self.stopTimeout, error)
        case .activating(let connection, _), .addressing(let connection, _): deactivate(connection, now: now, error)
        case .deactivating(_, _, let error): restore(now: now, error)
        case .restoring(_, let error): end(error)
        case .asking, .active, .ended: break
        }
    }

    mutating func drainReactions() -> [Reaction] {
        defer { reactions = [] }
        return reactions
    }

    // MARK: Requests

    mutating func start(_ network: WiFiNetwork, as role: WiFiRole = .sharing, now: MonotonicInstant) {
        if case .asking = phase { request(network, role, count: 1, now: now) }
    }

    private mutating func request(_ network: WiFiNetwork, _ role: WiFiRole, count: Int, now: MonotonicInstant) {
        request = (network, role, count)
        deviceReason = 0
        phase = .requesting(deadline: now + Self.startTimeout, early: [:])
        reactions.append(.activate(network, role, target))
    }

    mutating func stop(now: MonotonicInstant) {
        switch phase {
        case .asking: end(nil)
        case .requesting: phase = .deactivating(connection: nil, deadline: now + Self.stopTimeout, nil)
        case .activating(let connection, _), .addressing(let connection, _), .active(let connection):
            deactivate(connection, now: now, nil)
        case .deactivating, .restoring, .ended: break
        }
    }

    // MARK: Replies

    /// NetworkManager has added the connection with this object path.
    mutating func requested(_ connection: String, now: MonotonicInstant) {
        switch phase {
        case .requesting(let deadline, let early):
            phase = .activating(connection: connection, deadline: deadline)
            if let change = early[connection] { connectionChanged(connection, change, now: now) }
        case .deactivating(nil, _, let error): deactivate(connection, now: now, error)
        default: break
        }
    }

    /// NetworkManager has refused, and has changed nothing.
    mutating func requestFailed(_ error: WiFiError) {
        switch phase {
        case .requesting: end(error)
        case .deactivating(nil, _, let error): end(error)
        default: break
        }
    }

    /// - Parameter address: of this machine in the network; nil for none.
    mutating func addressFound(_ address: IPAddress?, now: MonotonicInstant) {
        guard case .addressing(let connection, _) = phase else { return }
        guard let address else { return deactivate(connection, now: now, .noAddresses) }
        phase = .active(connection: connection)
        reactions.append(.started(address))
    }

    mutating func restored() {
        if case .restoring(_, let error) = phase { end(error) }
    }

    // MARK: Signals

    mutating func connectionChanged(_ path: String, _ change: ConnectionChange, now: MonotonicInstant) {
        switch phase {
        case .requesting(let deadline, var early):
            guard early[path] != nil || early.count < Self.maximumEarlyCount else { return }
            early[path] = change
            phase = .requesting(deadline: deadline, early: early)
        case .activating(path, let deadline):
            if change.hasEnded { return lose(change, now: now) }
            guard change.state == NetworkManager.ConnectionState.activated else { return }
            phase = .addressing(connection: path, deadline: deadline)
            reactions.append(.readAddress(connection: path))
        case .addressing(path, _), .active(path): if change.hasEnded { lose(change, now: now) }
        // Deactivating comes first, and the old profile would have to wait for the device.
        case .deactivating(path, _, let error) where change.state == NetworkManager.ConnectionState.deactivated:
            restore(now: now, error)
        default: break
        }
    }

    /// - Parameter reason: an NMDeviceStateReason.
    mutating func deviceChanged(_ path: String, reason: UInt32) {
        if path == target.device { deviceReason = reason }
    }

    mutating func deviceRemoved(_ path: String) {
        if path == target.device { endUnrestored(.deviceGone(interface: target.interface)) }
    }

    /// NetworkManager has ended, or the connection to the bus.
    mutating func serviceEnded() { endUnrestored(.serviceGone) }

    // MARK: Steps

    /// The connection has ended by itself.
    private mutating func lose(_ change: ConnectionChange, now: MonotonicInstant) {
        let isActive = if case .active = phase { true } else { false }
        let mayPass =
            NetworkManager.DeviceReason.supplicant.contains(deviceReason)
            || deviceReason == NetworkManager.DeviceReason.networkNotFound
        if !isActive, mayPass, let (network, role, count) = request, count < Self.maximumRequestCount {
            // Deactivating comes first.
            if change.state == NetworkManager.ConnectionState.deactivated {
                request(network, role, count: count + 1, now: now)
            }
            return
        }
        var error = Self.error(change.reason, deviceReason: deviceReason, isActive: isActive, interface: target.interface)
        if case .notStarted(let interface, let code) = error, case .station? = request?.role {
            error = .notJoined(interface: interface, code: code)
        }
        switch error {
        case .deviceGone, .replaced, .suspended, .serviceGone: end(error)
        default: restore(now: now, error)
        }
    }

    /// - Parameters:
    ///   - reason: an NMActiveConnectionStateReason.
    ///   - deviceReason: an NMDeviceStateReason.
    private static func error(
        _ reason: UInt32, deviceReason: UInt32, isActive: Bool, interface: String
    ) -> WiFiError {
        switch deviceReason {
        case NetworkManager.DeviceReason.removed: return .deviceGone(interface: interface)
        case NetworkManager.DeviceReason.sleeping: return .suspended
        case NetworkManager.DeviceReason.sharedStartFailed, NetworkManager.DeviceReason.sharedFailed: return .noAddresses
        case NetworkManager.DeviceReason.connectionRemoved, NetworkManager.DeviceReason.userRequested,
            NetworkManager.DeviceReason.newActivation:
            return .replaced(interface: interface)
        default: break
        }
        switch reason {
        case NetworkManager.ConnectionReason.deviceRemoved: return .deviceGone(interface: interface)
        case NetworkManager.ConnectionReason.serviceStopped: return .serviceGone
        case NetworkManager.ConnectionReason.userDisconnected, NetworkManager.ConnectionReason.connectionRemoved:
            return .replaced(interface: interface)
        default: break
        }
        guard isActive else { return .notStarted(interface: interface, code: deviceReason) }
        // There is no reason when Wi-Fi is switched off.
        return deviceReason == 0 ? .replaced(interface: interface) : .lost(interface: interface, code: deviceReason)
    }

    private mutating func deactivate(_ connection: String, now: MonotonicInstant, _ error: WiFiError?) {
        phase = .deactivating(connection: connection, deadline: now + Self.stopTimeout, error)
        reactions.append(.deactivate(connection: connection))
    }

    private mutating func restore(now: MonotonicInstant, _ error: WiFiError?) {
        guard let profile = target.replacedProfile else { return end(error) }
        phase = .restoring(deadline: now + Self.stopTimeout, error)
        reactions.append(.restore(profile: profile, device: target.device))
    }

    /// Nothing can be restored. A program that ends the network gets no error.
    private mutating func endUnrestored(_ error: WiFiError) {
        switch phase {
        case .deactivating(_, _, let earlier), .restoring(_, let earlier): end(earlier)
        case .asking, .requesting, .activating, .addressing, .active: end(error)
        case .ended: break
        }
    }

    private mutating func end(_ error: WiFiError?) {
        phase = .ended
        reactions.append(.ended(error))
    }
}
