internal import NearshareInterfaces

/// The properties of NetworkManager and this machine's Wi-Fi devices on which a hotspot depends.
struct WiFiFacts: Sendable, Hashable {
    /// A profile in use.
    struct Connection: Sendable, Hashable {
        /// The name of the profile.
        var name: String
        /// The object path of the profile.
        var profile: String
    }

    struct WiFiDevice: Sendable, Hashable {
        /// The object path.
        var path: String
        var interface: String
        /// An NMDeviceState.
        var state: Int
        var capabilities: NetworkManager.Capabilities
        /// nil for none.
        var connection: Connection?
    }

    /// The connection that leads to the internet.
    struct Uplink: Sendable, Hashable {
        var name: String
        /// The object paths of its devices.
        var devices: [String]
    }

    var isNetworkingEnabled = true
    var isWirelessEnabled = true
    var isWirelessHardwareEnabled = true
    /// The answers of polkit by action: "yes", "auth" where the user is asked for a password, or "no".
    var permissions: [String: String] = [:]
    var devices: [WiFiDevice] = []
    /// nil for none.
    var uplink: Uplink?
}

/// The device that is used for a network.
struct WiFiTarget: Sendable, Hashable {
    /// The object path.
    var device: String
    var interface: String
    /// The object path of the profile to connect with again afterwards; nil for none.
    var replacedProfile: String?
    var plan: WiFiPlan

    /// Chooses the device: one that has no connection before one that loses it.
    /// - Parameter interface: the device to use; nil for any.
    init(
        _ facts: WiFiFacts, interface: String?, purpose: WiFiPurpose = .sharing
    ) throws(WiFiError) {
        guard facts.isNetworkingEnabled else { throw .networkingOff }
        let wanted = facts.devices.filter { interface == nil || $0.interface == interface }
        guard let first = wanted.first else { throw interface.map { .notWiFi(interface: $0) } ?? .noDevice }
        guard facts.isWirelessHardwareEnabled else { throw .radioOff(isHardwareSwitch: true) }
        guard facts.isWirelessEnabled else { throw .radioOff(isHardwareSwitch: false) }
        let managed = wanted.filter { $0.state > NetworkManager.DeviceState.unmanaged }
        guard !managed.isEmpty else { throw .unmanaged(interface: first.interface) }
        let needed: NetworkManager.Capabilities = purpose == .station ? .protected : .protectedAccessPoint
        let able = managed.filter { $0.capabilities.isSuperset(of: needed) }
        guard !able.isEmpty else {
            throw purpose == .station
                ? .noProtection(interface: managed[0].interface) : .noAccessPointMode(interface: managed[0].interface)
        }
        let available = able.filter { $0.state > NetworkManager.DeviceState.unavailable }
        let chosen = available.min {
            ($0.connection != nil ? 1 : 0, $0.interface) < ($1.connection != nil ? 1 : 0, $1.interface)
        }
        guard let chosen else { throw .deviceUnavailable(interface: able[0].interface) }
        // Without the right to share, no access point is started for a peer either.
        let needsSharing = purpose != .station
        for action in [NetworkManager.controlPermission] + (needsSharing ? [NetworkManager.sharingPermission] : []) {
            guard facts.permissions[action] != "no" else { throw .notPermitted }
        }
        (device, self.interface) = (chosen.path, chosen.interface)
        replacedProfile = chosen.connection?.profile
        let uplink = facts.uplink.flatMap { $0.devices.contains(chosen.path) ? nil : $0 }
        plan = WiFiPlan(
            interface: chosen.interface, replacedConnection: chosen.connection?.name,
            sharedConnection: purpose == .sharing ? uplink?.name : nil)
        plan.keepsInternet = uplink != nil
        let lacks2GHz = chosen.capabilities.contains(.knowsBands) && !chosen.capabilities.contains(.band2GHz)
        plan.band = lacks2GHz ? .ghz5 : .ghz2Point4
    }
}
