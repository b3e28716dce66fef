internal import NearshareInterfaces

/// The properties of a remote device that BlueZ reports (org.bluez.Device1).
struct DeviceProperties: Equatable {
    var name: String?
    /// Received signal strength in dBm, as of the last advertisement.
    var rssi = Self.minimumRSSI
    /// Whether BlueZ has received an advertisement lately: BlueZ invalidates the property `RSSI` after a while.
    var isInRange = false
    /// Whether the device advertises or has bitchat's service.
    var offersMesh = false
    /// Whether the device advertises or has BlueChat's service.
    var offersBlueChat = false
    /// Whether BlueZ has cached the device's services, so that its property `UUIDs` no longer follows advertisements.
    var hasCachedServices = false
    private var isPaired = false
    private var isTrusted = false
    var isConnected = false
    var hasResolvedServices = false

    /// The weakest signal that a controller reports; also the value of an unknown one.
    static let minimumRSSI = -127

    /// The signal strength among changed properties; nil where it has not changed, or the controller does not know it.
    static func strength(in changed: BlueZ.Properties) -> Int? {
        changed["RSSI"]?.integer.flatMap { SignalReading.strength(reported: $0) }
    }

    /// Paired with or trusted by the user: not to be removed from BlueZ's list of devices.
    var isKeptByUser: Bool { isPaired || isTrusted }

    /// Applies everything but `Connected` and `ServicesResolved`, which are transitions: see ``ConnectionScheduler``.
    /// - Parameter invalidated: names of the properties without a value (D-Bus: `invalidated_properties`).
    mutating func apply(_ changed: BlueZ.Properties, invalidated: [String]) {
        if let name = changed["Name"]?.string { self.name = name }
        if let uuids = changed["UUIDs"]?.strings.map({ Set($0.map { $0.lowercased() }) }) {
            offersMesh = uuids.contains(GATTProfile.meshService)
            offersBlueChat = uuids.contains(BlueChat.service)
            hasCachedServices = uuids.contains(GATTProfile.attributeService)
        }
        if let isPaired = changed["Paired"]?.bool { self.isPaired = isPaired }
        if let isTrusted = changed["Trusted"]?.bool { self.isTrusted = isTrusted }
        if changed["RSSI"]?.integer != nil { isInRange = true }
        if let strength = Self.strength(in: changed) { rssi = strength }
        if invalidated.contains("RSSI") { isInRange = false }
    }
}
