internal import NearshareDBus

/// The names and numbers of NetworkManager's D-Bus interface (its reference manual, "D-Bus API").
enum NetworkManager: DBusService {
    static let name = "org.freedesktop.NetworkManager"
    static let path = "/org/freedesktop/NetworkManager"
    static let device = "org.freedesktop.NetworkManager.Device"
    static let wireless = "org.freedesktop.NetworkManager.Device.Wireless"
    static let activeConnection = "org.freedesktop.NetworkManager.Connection.Active"
    static let addresses = "org.freedesktop.NetworkManager.IP4Config"
    static let properties = "org.freedesktop.DBus.Properties"
    /// The path that means no object.
    static let noObject = "/"

    /// Polkit actions: to make a network with a passphrase, and to connect at all.
    static let sharingPermission = "org.freedesktop.NetworkManager.wifi.share.protected"
    static let controlPermission = "org.freedesktop.NetworkManager.network-control"

    /// NMDeviceType.
    static let wifiDeviceType = 2

    /// NMDeviceState, as far as it matters.
    enum DeviceState {
        static let unmanaged = 10
        static let unavailable = 20
        static let disconnected = 30
        static let deactivating = 110
        static let failed = 120
    }

    /// NMActiveConnectionState, as far as it matters.
    enum ConnectionState {
        static let activated: UInt32 = 2
        static let deactivating: UInt32 = 3
        static let deactivated: UInt32 = 4
    }

    /// NMDeviceStateReason, as far as it matters.
    enum DeviceReason {
        /// wpa_supplicant has disconnected, rejected its configuration, failed or not answered in time.
        static let supplicant: ClosedRange<UInt32> = 8...11
        static let sharedStartFailed: UInt32 = 18
        static let sharedFailed: UInt32 = 19
        static let removed: UInt32 = 36
        static let networkNotFound: UInt32 = 53
        static let sleeping: UInt32 = 37
        static let connectionRemoved: UInt32 = 38
        static let userRequested: UInt32 = 39
        static let newActivation: UInt32 = 60
    }

    /// NMActiveConnectionStateReason, as far as it matters.
    enum ConnectionReason {
        static let userDisconnected: UInt32 = 2
        static let serviceStopped: UInt32 = 4
        static let connectionRemoved: UInt32 = 11
        static let deviceRemoved: UInt32 = 14
    }

    /// Bits of NMDeviceWifiCapabilities.
    struct Capabilities: OptionSet, Sendable, Hashable {
        let rawValue: Int

        static let ccmp = Capabilities(rawValue: 0x08)
        static let rsn = Capabilities(rawValue: 0x20)
        static let accessPoint = Capabilities(rawValue: 0x40)
        static let knowsBands = Capabilities(rawValue: 0x100)
        static let band2GHz = Capabilities(rawValue: 0x200)

        /// The features that joining a network with WPA2 needs.
        static let protected: Capabilities = [.rsn, .ccmp]
        /// The features that making one needs.
        static let protectedAccessPoint: Capabilities = [.accessPoint, .rsn, .ccmp]
    }

    static func getAll(_ path: String, interface: String) -> DBusMethodCall {
        call("GetAll", of: properties, at: path, with: [.string(interface)])
    }

    static func get(_ property: String, of path: String, interface: String) -> DBusMethodCall {
        call("Get", of: properties, at: path, with: [.string(interface), .string(property)])
    }
}
