internal import NearshareInterfaces

/// The properties of a remote device that BlueZ reports (org.bluez.Device1).
struct DeviceProperties: Equatable {
    var name: String?
    /// Received signal strength in dBm, as of the last advertisement.
    var rssi = Self.minimumRSSI
    /// Whether BlueZ has received an advertisement lately: it withdraws the signal strength after a while.
    var isInRange = false
    /// Offers bitchat's service.
    var offersMesh = false
    /// Offers BlueChat's service.
    var offersBlueChat = false
    /// BlueZ has discovered the device's services before, and trusts that result more than later advertisements.
    var hasCachedServices = false
    /// Paired with or trusted by the user: not to be removed.
    var isBonded = false
    var isConnected = false
    var hasResolvedServices = false

    /// The weakest signal that a controller reports; also stands for an unknown one.
    static let minimumRSSI = -127

    /// Applies everything but `Connected` and `ServicesResolved`, which are transitions: see ``ConnectionScheduler``.
    /// - Parameter invalidated: names of properties that have no value any more.
    mutating func apply(_ changed: BlueZ.Properties, invalidated: [String]) {
        if let name = changed["Name"]?.string { self.name = name }
        if let uuids = changed["UUIDs"]?.strings.map({ Set($0.map { $0.lowercased() }) }) {
            offersMesh = uuids.contains(GATTProfile.meshService)
            offersBlueChat = uuids.contains(BlueChat.service)
            hasCachedServices = uuids.contains(GATTProfile.attributeService)
        }
        if changed["Paired"]?.bool == true || changed["Trusted"]?.bool == true { isBonded = true }
        if let rssi = changed["RSSI"]?.integer {
            isInRange = true
            self.rssi = rssi
        }
        if invalidated.contains("RSSI") { isInRange = false }
    }
}
