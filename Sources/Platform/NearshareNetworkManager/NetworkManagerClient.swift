internal import NearshareBase
internal import NearshareDBus
internal import NearshareInterfaces

/// A connection to NetworkManager for one hotspot, and performs what ``WiFiMachine`` decides. Belongs to
/// the thread of its `EventLoopThread`: when that ends, so does the connection to the bus, and with it the hotspot.
final class NetworkManagerClient: EventLoop {
    enum Event: Sendable {
        case started(IPAddress)
        /// The last event; nil after ``NetworkManagerClient/stop()``.
        case ended(WiFiError?)
    }

    private let bus: DBusConnection
    private let wakeup: EventFD
    private let clock: @Sendable () -> MonotonicInstant
    private let emit: @Sendable (Event) -> Void
    private var machine: WiFiMachine
    private var isDisconnected = false

    /// NetworkManager asks polkit about twenty actions for `GetPermissions`, which takes seconds on a busy machine.
    private static let timeout = Duration.seconds(20)
    /// Timeout of an activation, equal to ``WiFiMachine/startTimeout``: the user may be asked for a password.
    private static let activationTimeout = WiFiMachine.startTimeout

    /// Connects, and finds the device; changes nothing.
    /// - Parameters:
    ///   - interface: the device to use; nil for any.
    ///   - emit: called on the thread.
    init(
        on interface: String?, for purpose: WiFiPurpose, wakeup: EventFD, clock: @escaping @Sendable () -> MonotonicInstant,
        emit: @escaping @Sendable (Event) -> Void
    ) throws(WiFiError) {
        (self.wakeup, self.clock, self.emit) = (wakeup, clock, emit)
        do throws(DBusError) {
            bus = try DBusConnection()
            // Asked first: a call would start a service that the user has disabled.
            guard try bus.hasOwner(NetworkManager.name, timeout: Self.timeout) else { throw DBusError(Self.absence) }
        } catch {
            throw error.text == Self.absence ? .noService : .noBus(error.text)
        }
        machine = WiFiMachine(try WiFiTarget(Self.facts(over: bus), interface: interface, purpose: purpose))
        do throws(DBusError) { try subscribe() } catch { throw .noBus(error.text) }
    }

    private static let absence = "absent"

    var target: WiFiTarget { machine.target }

    func start(_ network: WiFiNetwork, as role: WiFiRole) {
        machine.start(network, as: role, now: clock())
        perform()
    }

    func stop() {
        machine.stop(now: clock())
        perform()
    }

    // MARK: Facts

    /// Reads the properties on which a hotspot depends.
    static func facts(over bus: DBusConnection) throws(WiFiError) -> WiFiFacts {
        func properties(_ path: String, interface: String) throws(DBusError) -> [String: DBusValue] {
            try bus.call(NetworkManager.getAll(path, interface: interface), timeout: timeout).dictionary() ?? [:]
        }
        /// An object that has gone since it was listed has no properties.
        func optionalProperties(_ path: String, interface: String) -> [String: DBusValue] {
            path == NetworkManager.noObject ? [:] : (try? properties(path, interface: interface)) ?? [:]
        }
        var facts = WiFiFacts()
        do throws(DBusError) {
            let manager = try properties(NetworkManager.path, interface: NetworkManager.name)
            facts.isNetworkingEnabled = manager["NetworkingEnabled"]?.bool ?? true
            facts.isWirelessEnabled = manager["WirelessEnabled"]?.bool ?? true
            facts.isWirelessHardwareEnabled = manager["WirelessHardwareEnabled"]?.bool ?? true
            for path in manager["Devices"]?.strings ?? [] {
                let device = optionalProperties(path, interface: NetworkManager.device)
                guard device["DeviceType"]?.integer == NetworkManager.wifiDeviceType, let name = device["Interface"]?.string
                else { continue }
                let wireless = optionalProperties(path, interface: NetworkManager.wireless)
                let active = optionalProperties(
                    device["ActiveConnection"]?.string ?? NetworkManager.noObject, interface: NetworkManager.activeConnection)
                let connection = active["Id"]?.string.map {
                    WiFiFacts.Connection(name: $0, profile: active["Connection"]?.string ?? NetworkManager.noObject)
                }
                facts.devices.append(
                    WiFiFacts.WiFiDevice(
                        path: path, interface: name, state: device["State"]?.integer ?? 0,
                        capabilities: NetworkManager.Capabilities(
                            rawValue: wireless["WirelessCapabilities"]?.integer ?? 0), connection: connection))
            }
            let primary = optionalProperties(
                manager["PrimaryConnection"]?.string ?? NetworkManager.noObject, interface: NetworkManager.activeConnection)
            facts.uplink = primary["Id"]?.string.map {
                WiFiFacts.Uplink(name: $0, devices: primary["Devices"]?.strings ?? [])
            }
            let permissions = NetworkManager.call("GetPermissions", of: NetworkManager.name, at: NetworkManager.path)
            facts.permissions = try bus.call(permissions, timeout: timeout).stringDictionary() ?? [:]
        } catch {
            throw WiFiError(error)
        }
        return facts
    }

    // MARK: Signals

    private func subscribe() throws(DBusError) {
        try onSignal("StateChanged", NetworkManager.activeConnection) { client, message in
            guard let state = message.uint32(), let reason = message.uint32() else { return }
            client.machine.connectionChanged(
                message.path, WiFiMachine.ConnectionChange(state: state, reason: reason), now: client.clock())
        }
        try onSignal("StateChanged", NetworkManager.device) { client, message in
            // The new state, the old one, and the reason.
            guard message.uint32() != nil, message.uint32() != nil, let reason = message.uint32() else { return }
            client.machine.deviceChanged(message.path, reason: reason)
        }
        try onSignal("DeviceRemoved", NetworkManager.name) { client, message in
            if let path = message.objectPath() { client.machine.deviceRemoved(path) }
        }
        try bus.onSignal(
            "NameOwnerChanged", of: DBusConnection.name, from: DBusConnection.name, where: "arg0='\(NetworkManager.name)'"
        ) { [unowned self] message in
            guard message.string() == NetworkManager.name else { return }
            machine.serviceEnded()
            perform()
        }
    }

    private func onSignal(
        _ member: String, _ interface: String, _ handle: @escaping (NetworkManagerClient, DBusMessage) -> Void
    ) throws(DBusError) {
        try bus.onSignal(member, of: interface, from: NetworkManager.name) { [unowned self] message in
            handle(self, message)
            perform()
        }
    }

    // MARK: Reactions

    private func perform() {
        for reaction in machine.drainReactions() {
            switch reaction {
            case .activate(let network, let role, let target): activate(network, role, on: target)
            case .readAddress(let connection): readAddress(of: connection)
            case .deactivate(let connection):
                // The signal says when it is done.
                call("DeactivateConnection", [.objectPath(connection)]) { _, _ in }
            case .restore(let profile, let device):
                let arguments = [profile, device, NetworkManager.noObject].map { DBusValue.objectPath($0) }
                call("ActivateConnection", arguments) { client, _ in client.machine.restored() }
            case .started(let address): emit(.started(address))
            case .ended(let error): emit(.ended(error))
            }
        }
    }

    /// The new profile. It has no identifier of a saved one, so that NetworkManager replaces none of the same name (N18).
    static func settings(
        of network: WiFiNetwork, _ role: WiFiRole, on target: WiFiTarget
    ) -> [String: [String: DBusValue]] {
        var wireless: [String: DBusValue] = ["ssid": .bytes(Array(network.ssid.utf8)), "mode": .string("ap")]
        var addresses: [String: DBusValue] = ["method": .string("shared")]
        let band: WiFiBand?
        switch role {
        case .sharing: band = target.plan.band
        case .accessPoint(let address, let prefixLength):
            band = target.plan.band
            addresses = fixed(address, prefixLength)
        case .station(let address, let prefixLength, let known):
            wireless["mode"] = .string("infrastructure")
            band = known
            addresses = fixed(address, prefixLength)
        }
        if let band { wireless["band"] = .string(band == .ghz5 ? "a" : "bg") }
        return [
            "connection": [
                "id": .string(network.ssid), "type": .string("802-11-wireless"), "autoconnect": .boolean(false),
            ],
            "802-11-wireless": wireless,
            // Without WPA's first version and its ciphers.
            "802-11-wireless-security": [
                "key-mgmt": .string("wpa-psk"), "psk": .string(network.passphrase), "proto": .strings(["rsn"]),
                "pairwise": .strings(["ccmp"]), "group": .strings(["ccmp"]),
            ],
            "ipv4": addresses,
            "ipv6": ["method": .string("ignore")],
        ]
    }

    /// One address, and no way from there to other networks.
    private static func fixed(_ address: IPAddress, _ prefixLength: Int) -> [String: DBusValue] {
        [
            "method": .string("manual"), "never-default": .boolean(true), "ignore-auto-dns": .boolean(true),
            "address-data": .dictionaries([
                ["address": .string(address.description), "prefix": .uint32(UInt32(clamping: prefixLength))]
            ]),
        ]
    }

    private func activate(_ network: WiFiNetwork, _ role: WiFiRole, on target: WiFiTarget) {
        let settings = Self.settings(of: network, role, on: target)
        // The profile is in memory only, and ends with the connection; the connection ends with this one to the bus.
        let options: [String: DBusValue] = ["persist": .string("volatile"), "bind-activation": .string("dbus-client")]
        let arguments: [DBusValue] = [
            .interfaces(settings), .objectPath(target.device), .objectPath(NetworkManager.noObject), .dictionary(options),
        ]
        call("AddAndActivateConnection2", arguments, timeout: Self.activationTimeout) { client, reply in
            switch reply {
            case .success(let message):
                // The profile's path is first.
                guard message.objectPath() != nil, let connection = message.objectPath() else {
                    return client.machine.requestFailed(.refused("unexpected reply"))
                }
                client.machine.requested(connection, now: client.clock())
            case .failure(let error): client.machine.requestFailed(WiFiError(error))
            }
        }
    }

    /// Finds the address through the object that has the connection's IPv4 configuration.
    private func readAddress(of connection: String) {
        call(NetworkManager.get("Ip4Config", of: connection, interface: NetworkManager.activeConnection)) { client, reply in
            guard let path = (try? reply.get())?.value()?.string, path != NetworkManager.noObject else {
                return client.machine.addressFound(nil, now: client.clock())
            }
            client.call(NetworkManager.get("AddressData", of: path, interface: NetworkManager.addresses)) { client, reply in
                var address: IPAddress?
                if case .dictionaries(let list)? = (try? reply.get())?.value() {
                    address = list.first?["address"]?.string.flatMap { IPAddress(text: $0) }
                }
                client.machine.addressFound(address, now: client.clock())
            }
        }
    }

    private func call(
        _ member: String, _ arguments: [DBusValue], timeout: Duration = timeout,
        completion: @escaping (NetworkManagerClient, Result<DBusMessage, DBusError>) -> Void
    ) {
        call(
            NetworkManager.call(member, of: NetworkManager.name, at: NetworkManager.path, with: arguments), timeout: timeout,
            completion: completion)
    }

    /// - Parameter completion: what the machine is told; its reactions are performed afterwards.
    private func call(
        _ call: DBusMethodCall, timeout: Duration = timeout,
        completion: @escaping (NetworkManagerClient, Result<DBusMessage, DBusError>) -> Void
    ) {
        do throws(DBusError) {
            try bus.call(call, timeout: timeout) { [unowned self] reply in
                completion(self, reply)
                perform()
            }
        } catch {
            // The connection has ended, which `wait` finds as well.
            completion(self, .failure(error))
        }
    }

    // MARK: EventLoop

    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        isDisconnected ? nil : [bus.deadline, machine.deadline].compactMap(\.self).min()
    }

    func tick(at now: MonotonicInstant) {
        machine.advance(to: now)
        perform()
    }

    func wait(timeout: Duration?) {
        guard !isDisconnected else {
            _ = DescriptorPoll.wait(for: wakeup.descriptor, .readable, timeout: timeout)
            return
        }
        _ = DescriptorPoll.wait(for: bus.descriptor, bus.events, wakeup: wakeup, timeout: timeout)
        do throws(DBusError) {
            try bus.process()
        } catch {
            isDisconnected = true
            machine.serviceEnded()
            perform()
        }
    }

    func close() {}
}

extension WiFiError {
    /// The meaning of an error reply.
    init(_ error: DBusError) {
        switch error.name {
        case "org.freedesktop.NetworkManager.PermissionDenied", "org.freedesktop.NetworkManager.Settings.PermissionDenied",
            "org.freedesktop.NetworkManager.AccessDenied", "org.freedesktop.DBus.Error.AccessDenied",
            "org.freedesktop.DBus.Error.InteractiveAuthorizationRequired":
            self = .notPermitted
        case "org.freedesktop.DBus.Error.Timeout", "org.freedesktop.DBus.Error.NoReply": self = .noAnswer
        case "org.freedesktop.DBus.Error.UnknownMethod": self = .oldService
        case "org.freedesktop.DBus.Error.ServiceUnknown", "org.freedesktop.DBus.Error.NameHasNoOwner": self = .noService
        case nil: self = .noBus(error.text)
        default: self = .refused(error.text)
        }
    }
}
