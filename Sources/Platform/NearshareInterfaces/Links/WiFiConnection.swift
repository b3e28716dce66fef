package import NearshareBase

/// A Wi-Fi network in which this machine is the access point or a station for as long as a program needs it. The network ends
/// with the process, however that ends.
///
/// Used once, in this order: ``prepare(on:for:)``, which changes nothing, so that the user can be asked; ``start(_:as:)``;
/// ``failure``; ``stop()``.
package protocol WiFiConnection: AnyObject, Sendable {
    /// Finds the device that would be used, and what the network would interrupt.
    /// - Parameter interface: the device to use; nil for any.
    func prepare(on interface: String?, for purpose: WiFiPurpose) async throws(WiFiError) -> WiFiPlan

    /// Starts the access point, and waits until devices can join; or joins the network.
    /// - Parameter role: one that the purpose of ``prepare(on:for:)`` permits.
    /// - Returns: the address of this machine in the network.
    /// - Throws: ``WiFiError/stopped`` after ``beginStop()``.
    func start(_ network: WiFiNetwork, as role: WiFiRole) async throws(WiFiError) -> IPAddress

    /// Waits until the network has ended by other means than ``stop()``.
    /// - Returns: the reason; nil after ``stop()``, and when the task is cancelled.
    var failure: WiFiError? { get async }

    /// Begins to end the network, without waiting. May be called from any thread.
    func beginStop()

    /// Ends the network, and connects the device again as it was before. May be called at any time, and more than once.
    /// - Returns: whether there was a network that this call has ended.
    @discardableResult
    func stop() async -> Bool
}

extension WiFiConnection {
    /// Finds the device that would be the access point for any device.
    package func prepare(on interface: String?) async throws(WiFiError) -> WiFiPlan {
        try await prepare(on: interface, for: .sharing)
    }

    /// Starts an access point for any device.
    package func start(_ network: WiFiNetwork) async throws(WiFiError) -> IPAddress {
        try await start(network, as: .sharing)
    }
}

/// The use of a Wi-Fi network.
package enum WiFiPurpose: Sendable, Hashable {
    /// An access point for any device that has the passphrase.
    case sharing
    /// An access point for one peer. A device that has this mode can be a station as well.
    case accessPoint
    /// A station in the network of a peer.
    case station
}

/// The role of this machine in a Wi-Fi network (IEEE 802.11, 3.1).
package enum WiFiRole: Sendable, Hashable {
    /// An access point that gives addresses to stations, and shares the connection to the internet with them.
    case sharing
    /// An access point with this address. Nothing is shared, and no addresses are given.
    case accessPoint(IPAddress, prefixLength: Int)
    /// A station with this address. No other traffic goes into the network.
    case station(IPAddress, prefixLength: Int, WiFiBand?)
}

/// The consequences of a Wi-Fi network on this machine.
package struct WiFiPlan: Sendable, Hashable {
    /// The interface of the device that is used, such as "wlan0".
    package var interface: String
    /// The name of the connection that the device has now, and loses; nil for none.
    package var replacedConnection: String?
    /// The name of the connection that leads to the internet on another device, and which stations use as well; nil for none.
    package var sharedConnection: String?
    /// Whether another device leads to the internet.
    package var keepsInternet = false
    /// The band of an access point on this device.
    package var band = WiFiBand.ghz2Point4

    package init(interface: String, replacedConnection: String?, sharedConnection: String?) {
        self.interface = interface
        self.replacedConnection = replacedConnection
        self.sharedConnection = sharedConnection
    }
}

/// The reason why there is no Wi-Fi network of this machine, or none any more.
package enum WiFiError: Error, Sendable, Hashable {
    /// The system bus cannot be used, for this reason.
    case noBus(String)
    /// The network service does not run.
    case noService
    /// The service runs, and has not answered in time.
    case noAnswer
    /// The service is too old.
    case oldService
    /// The service has networking switched off.
    case networkingOff
    /// Wi-Fi is switched off, by a switch of the machine or by the user.
    case radioOff(isHardwareSwitch: Bool)
    /// The machine has no Wi-Fi device.
    case noDevice
    /// The named interface is not a Wi-Fi device.
    case notWiFi(interface: String)
    /// The service leaves the device to others.
    case unmanaged(interface: String)
    /// The device has no access-point mode with WPA2.
    case noAccessPointMode(interface: String)
    /// The device has no WPA2.
    case noProtection(interface: String)
    /// The service cannot use the device now.
    case deviceUnavailable(interface: String)
    /// The user may not start an access point.
    case notPermitted
    /// The device or its driver did not start the network; a code of the service.
    case notStarted(interface: String, code: UInt32)
    /// The device has not joined the network; a code of the service.
    case notJoined(interface: String, code: UInt32)
    /// The device or its driver has ended the network; a code of the service.
    case lost(interface: String, code: UInt32)
    /// The service has no program that gives addresses to stations.
    case noAddresses
    /// The service has refused, for this reason.
    case refused(String)
    /// The network was not there in time.
    case timedOut(interface: String)
    /// The device is gone.
    case deviceGone(interface: String)
    /// The user, or another program, has given the device another connection, or none.
    case replaced(interface: String)
    /// The machine goes to sleep.
    case suspended
    /// The service has ended.
    case serviceGone
    /// The program has ended the network.
    case stopped
}

extension WiFiError: CustomStringConvertible {
    /// The failure, and a suggested remedy.
    package var description: String { advice.map { "\(reason); \($0)" } ?? reason }

    /// The failure.
    package var reason: String {
        switch self {
        case .lost, .deviceGone, .replaced, .suspended: "the hotspot has ended: \(cause)"
        case .serviceGone, .stopped: cause
        default: "no hotspot: \(cause)"
        }
    }

    /// The cause of the failure.
    package var cause: String {
        switch self {
        case .noBus(let reason): "the system bus is not available (\(reason))"
        case .noService: "NetworkManager does not run on this machine"
        case .noAnswer: "NetworkManager does not answer"
        case .oldService: "this NetworkManager is older than 1.16"
        case .networkingOff: "NetworkManager has networking switched off"
        case .radioOff(true): "a switch or key of this machine has Wi-Fi switched off"
        case .radioOff(false): "Wi-Fi is switched off"
        case .noDevice: "NetworkManager knows no Wi-Fi device"
        case .notWiFi(let interface): "\(TerminalText.escaped(interface)) is not a Wi-Fi device"
        case .unmanaged(let interface): "NetworkManager does not manage \(TerminalText.escaped(interface))"
        case .noAccessPointMode(let interface):
            "\(TerminalText.escaped(interface)) has no access-point mode with WPA2"
        case .noProtection(let interface): "\(TerminalText.escaped(interface)) has no WPA2"
        case .deviceUnavailable(let interface):
            "NetworkManager cannot use \(TerminalText.escaped(interface)) at the moment"
        case .notPermitted: "this user may not make a Wi-Fi network"
        case .notStarted(let interface, let code):
            "\(TerminalText.escaped(interface)) did not start it (NetworkManager's reason \(code))"
        case .notJoined(let interface, let code):
            "\(TerminalText.escaped(interface)) could not join it (NetworkManager's reason \(code))"
        case .lost(let interface, let code):
            "\(TerminalText.escaped(interface)) stopped it (NetworkManager's reason \(code))"
        case .noAddresses: "NetworkManager cannot give addresses to devices that join"
        case .refused(let reason): "NetworkManager refuses it: \(TerminalText.escaped(reason, columns: 200))"
        case .timedOut(let interface): "\(TerminalText.escaped(interface)) did not start it in time"
        case .deviceGone(let interface): "\(TerminalText.escaped(interface)) is gone"
        case .replaced(let interface):
            "\(TerminalText.escaped(interface)) was disconnected, or has another connection"
        case .suspended: "the machine went to sleep"
        case .serviceGone: "the hotspot has ended, because NetworkManager has"
        case .stopped: "the hotspot was stopped"
        }
    }

    /// A suggested remedy; nil where nothing is needed.
    package var advice: String? {
        switch self {
        case .noBus, .refused: "use --qr alone, on a common network"
        case .noService: "start it, or make a Wi-Fi network by other means and use --qr alone"
        case .noAnswer: "try again, or restart it: `systemctl restart NetworkManager`"
        case .oldService: "update it, or make a Wi-Fi network by other means and use --qr alone"
        case .networkingOff: "`nmcli networking on` switches it on"
        case .radioOff(true): "switch it on there"
        case .radioOff(false): "`nmcli radio wifi on` switches it on"
        case .noDevice: "`nmcli device` lists what it knows; or use --qr alone, on a common network"
        case .notWiFi: "`nmcli device` lists them, and --interface chooses one"
        case .unmanaged(let interface): "`nmcli device set \(TerminalText.escaped(interface)) managed yes` changes that"
        case .noAccessPointMode, .noProtection: "use another Wi-Fi device, or --qr alone, on a common network"
        case .deviceUnavailable: "is wpa_supplicant installed?"
        case .notPermitted: "try in a session at the machine itself, not over SSH, or ask an administrator"
        case .notStarted, .notJoined, .lost, .timedOut: "try again, or look into `journalctl -u NetworkManager`"
        case .noAddresses: "install dnsmasq (Debian: dnsmasq-base)"
        case .deviceGone: "plug it in again, and start again"
        case .replaced, .suspended: "start again to have it back"
        case .serviceGone: "start again when it runs"
        case .stopped: nil
        }
    }
}
