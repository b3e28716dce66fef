internal import NearshareBase
internal import NearshareInterfaces

/// A device that BlueZ has reported, and the state of the connection to it.
struct RemoteDevice {
    /// BlueZ's object path.
    let path: String
    let address: BluetoothAddress
    var properties = DeviceProperties()
    /// The strength of the advertisement that BlueZ has received last while this process could see it.
    var signal: SignalReading?
    var origin = ConnectionOrigin()
    var connection = ConnectionState.idle
    var characteristics = RemoteCharacteristics()
    /// The device's ``ServiceRecord``, once it was read.
    var record: ServiceRecord?
    var backoff: RetryBackoff
    /// Attempts since the last link that BlueZ has refused because another program exchanges frames with the device.
    var refusalCount = 0
    /// The latest of: first reported, connected to this adapter, channel closed.
    var lastActivity: MonotonicInstant
    private var attemptCount = 0

    /// Time in which the other device may connect first: it has the lower address, or has just connected.
    static let courtesyTime = Duration.seconds(4)
    /// Failed attempts after which a device counts as out of range, though BlueZ may remember it for longer.
    static let maximumFailureCount = 3

    init(path: String, address: BluetoothAddress, now: MonotonicInstant) {
        self.path = path
        self.address = address
        lastActivity = now
        backoff = RetryBackoff(firstAttempt: now)
    }

    /// The object path's last component, for logs.
    var label: String { BlueZ.name(of: path) }

    /// BlueZ's cached services may be out of date: the device may have begun to offer the mesh service since they were
    /// discovered, as a sender does that now receives.
    var hasStaleServices: Bool {
        properties.isInRange && properties.hasCachedServices && !properties.offersMesh && !properties.offersBlueChat
            && !properties.isConnected && !properties.isKeptByUser
    }

    /// Starts a new attempt, whose replies are told from those to earlier ones by its number.
    mutating func makeAttempt(deadline: MonotonicInstant) -> ConnectionAttempt {
        attemptCount += 1
        return ConnectionAttempt(number: attemptCount, deadline: deadline)
    }

    /// Records a connection that this process has not made.
    mutating func recordIncomingConnection(at now: MonotonicInstant) {
        origin.recordIncoming(isEarly: now - lastActivity < Self.courtesyTime)
        lastActivity = now
    }

    /// Returns to ``ConnectionState/idle`` until the back-off allows the next attempt.
    mutating func recordFailure(at now: MonotonicInstant) {
        connection = .idle
        backoff.recordFailure(at: now, jitter: .milliseconds(Int(address.bytes[5] % 16) * 50))
    }

    /// The sighting that browsers receive; nil while the device is not known to accept channels.
    var sighting: ServiceSighting? {
        guard let record, record.psm != 0 else { return nil }
        return ServiceSighting(
            key: ServiceSighting.Key(instance: "bluetooth \(address)", interfaceIndex: Self.interfaceIndex, isIPv6: false),
            address: address.linkAddress(port: record.psm), txt: record.txt, isOwn: false)
    }

    /// An index that no network interface has.
    private static let interfaceIndex: Int32 = -2
}

/// Which side has made the connection to a device.
struct ConnectionOrigin: Equatable {
    /// This process has connected, so it may also disconnect.
    var isOutgoing = false
    /// The device has connected by itself at least once. Of other connections that this process has not made, another local
    /// program may have the use.
    private(set) var hasConnectedByItself = false
    /// BlueZ reported the device for the first time, without an advertisement: if it connects now, it does so by itself.
    var isNewToBlueZ = false

    /// - Parameter isEarly: whether the connection followed the device's first report closely.
    mutating func recordIncoming(isEarly: Bool) {
        hasConnectedByItself = hasConnectedByItself || (isNewToBlueZ && isEarly)
        isNewToBlueZ = false
    }
}

/// The object paths of a device's characteristics.
struct RemoteCharacteristics: Equatable {
    /// bitchat's: frames.
    var frames: String?
    /// nearshare's: the ``ServiceRecord``.
    var record: String?

    mutating func add(_ path: String, uuid: String) {
        switch uuid {
        case GATTProfile.meshCharacteristic: frames = path
        case GATTProfile.recordCharacteristic: record = path
        default: break
        }
    }

    mutating func remove(_ path: String) {
        if frames == path { frames = nil }
        if record == path { record = nil }
    }
}
