internal import NearshareBase
internal import NearshareInterfaces

/// Decides which remote devices the adapter connects to as a central, when, and for how long: a value without clock or bus.
///
/// The scheduler owns the ``DeviceTable``. BlueZ's reports, replies and the time go in; ``ConnectionReaction``s come out, in the order in
/// which they have to be carried out. A controller makes one connection at a time; the states of each device are those of
/// ``ConnectionState``.
struct ConnectionScheduler {
    private(set) var devices = DeviceTable()
    /// Since when ready connections are kept that no subscriber needs.
    private var unneededSince: MonotonicInstant?
    /// When the properties of a device outside the table may be read next.
    private var nextPropertyRead = MonotonicInstant(nanoseconds: 0)
    /// Addresses that BlueZ was made to forget, and when.
    private var removals: [BluetoothAddress: MonotonicInstant] = [:]

    /// The current needs and state of the adapter's other parts.
    struct Context {
        var localAddress: BluetoothAddress
        var adapterName: String
        var isPowered = true
        /// Whether frame links have a subscriber.
        var wantsFrames = false
        /// Whether peers are browsed for.
        var wantsPeers = false
        var isAdvertising = false
        /// Whether a connection for BlueChat is being made: a controller makes one at a time.
        var isBlueChatConnecting = false
        /// Addresses to which a channel is open or being opened.
        var heldAddresses: Set<BluetoothAddress> = []
        /// Devices that exchange frames with this machine as their peripheral.
        var servedPaths: Set<String> = []
        /// Devices linked for BlueChat.
        var chattingPaths: Set<String> = []

        var wantsConnections: Bool { wantsFrames || wantsPeers }
    }

    // The first two are bitchat's (its specification, section 11).
    static let maximumLinkCount = 6
    static let connectTimeout = Duration.seconds(10)
    /// Time after which a peer that had to make room for another one is connected to again while peers are browsed for.
    static let returnInterval = Duration.seconds(60)
    /// Between two reads of the properties of devices outside the table.
    static let propertyReadInterval = Duration.milliseconds(250)
    /// Time for which ready connections outlive their last subscriber: after browsing, a channel is usually opened over the
    /// same connection.
    static let gracePeriod = Duration.seconds(10)
    /// Time after which a silent device that has connected to this adapter is disconnected. bitchat's phones write at once.
    static let silenceTimeout = Duration.seconds(60)
    /// Time before a device is removed from BlueZ again, so that its services are discovered anew.
    static let removalInterval = Duration.seconds(60)

    var linkCount: Int { devices.all.count { $0.connection.isLinked } }
    /// Ready connections, and those with links.
    private var connectionCount: Int { devices.all.count { $0.connection.isReady || $0.connection.isLinked } }
    var isConnecting: Bool { devices.all.contains { $0.connection.isInProgress } }

    // MARK: Reports of BlueZ

    /// Adds a device, or updates one that is there.
    /// - Parameter isNew: whether BlueZ has just created the object.
    mutating func add(
        _ path: String, _ properties: BlueZ.Properties, isNew: Bool, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard devices[path] == nil else { return apply(path, properties, invalidated: [], at: now, in: context) }
        guard let text = properties["Address"]?.string,
            let address = BluetoothAddress(text, kind: properties["AddressType"]?.string ?? "public"),
            let admission = devices.admission(
                rssi: DeviceProperties.strength(in: properties) ?? DeviceProperties.minimumRSSI)
        else { return [] }
        var reactions: [ConnectionReaction] = []
        if case .replacing(let other) = admission { reactions += remove(other) }
        var device = RemoteDevice(path: path, address: address, now: now)
        device.origin.isNewToBlueZ = isNew && properties["RSSI"]?.integer == nil
        devices.insert(device)
        // The advertisement of an object that was there before may have been received at any time.
        if isNew { reactions += recordSignal(of: path, properties, at: now, in: context) }
        return reactions + apply(path, properties, invalidated: [], at: now, in: context)
    }

    /// Applies properties that BlueZ reports as changed.
    /// - Parameter invalidated: names of properties that have no value any more.
    mutating func update(
        _ path: String, _ changed: BlueZ.Properties, invalidated: [String], at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard devices[path] != nil else {
            guard let rssi = DeviceProperties.strength(in: changed) else { return [] }
            return reconsider(path, rssi: rssi, at: now, in: context)
        }
        return recordSignal(of: path, changed, at: now, in: context)
            + apply(path, changed, invalidated: invalidated, at: now, in: context)
    }

    /// Records the strength of an advertisement that was received now, and reports it for the links of the device.
    private mutating func recordSignal(
        of path: String, _ changed: BlueZ.Properties, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard let strength = DeviceProperties.strength(in: changed) else { return [] }
        let signal = SignalReading(strength: strength, time: now)
        devices.update(path) { $0.signal = signal }
        let isLinked = devices[path]?.connection.isLinked == true || context.servedPaths.contains(path)
        return isLinked ? [.signalChanged(path: path, signal)] : []
    }

    /// Applies properties of a device in the table, whether they have just changed or were read.
    private mutating func apply(
        _ path: String, _ changed: BlueZ.Properties, invalidated: [String], at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        devices.update(path) { device in
            device.properties.apply(changed, invalidated: invalidated)
            if changed["RSSI"] != nil { device.origin.isNewToBlueZ = false }
        }
        var reactions: [ConnectionReaction] = []
        if let isResolved = changed["ServicesResolved"]?.bool {
            devices.update(path) { $0.properties.hasResolvedServices = isResolved }
            reactions += listServicesIfResolved(path)
        }
        if let isConnected = changed["Connected"]?.bool {
            reactions += setConnected(path, isConnected, at: now, in: context)
        }
        return reactions
    }

    /// A device outside the table may be worth adding by now: it has come nearer, or others have gone.
    private mutating func reconsider(
        _ path: String, rssi: Int, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard now >= nextPropertyRead, devices.admission(rssi: rssi) != nil else { return [] }
        nextPropertyRead = now + Self.propertyReadInterval
        return [.readProperties(path: path)]
    }

    private mutating func setConnected(
        _ path: String, _ isConnected: Bool, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard let before = devices[path] else { return [] }
        var reactions: [ConnectionReaction] = []
        if isConnected, !before.properties.isConnected, !before.connection.isInProgress {
            devices.update(path) { $0.recordIncomingConnection(at: now) }
            reactions.append(.adapterConnectionsChanged)
        }
        if !isConnected, before.properties.isConnected { reactions.append(.adapterConnectionsChanged) }
        devices.update(path) { $0.properties.isConnected = isConnected }
        guard !isConnected else { return reactions }
        devices.update(path) { device in
            device.properties.hasResolvedServices = false
            device.origin.isOutgoing = false
        }
        switch before.connection {
        // While connecting, the reply to `Connect` says how it ended.
        case .idle, .connecting: return reactions
        default: return reactions + fail(path, at: now, in: context)
        }
    }

    mutating func addCharacteristic(_ path: String, uuid: String, of device: String) {
        devices.update(device) { $0.characteristics.add(path, uuid: uuid) }
    }

    mutating func removeCharacteristic(_ path: String, of device: String) {
        devices.update(device) { $0.characteristics.remove(path) }
    }

    /// BlueZ has removed the device.
    mutating func remove(_ path: String) -> [ConnectionReaction] {
        guard let device = devices.remove(path) else { return [.removed(path: path)] }
        var reactions: [ConnectionReaction] = [.removed(path: path)]
        if device.connection.isLinked { reactions.append(.closeLink(path: path)) }
        if let key = device.sighting?.key { reactions.append(.emit(.gone(key))) }
        return reactions
    }

    /// The adapter, BlueZ or the bus is gone.
    mutating func removeAll() -> [ConnectionReaction] { devices.paths.flatMap { remove($0) } }

    // MARK: Time

    mutating func tick(at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        var reactions: [ConnectionReaction] = []
        for device in devices.all where device.connection.deadline.map({ now >= $0 }) ?? false {
            reactions += timeOut(device.path, at: now, in: context)
        }
        if context.isPowered, context.wantsConnections {
            reactions += removeStaleServices(at: now)
            reactions += connectNext(at: now, in: context)
        }
        reactions += disconnectUnneeded(at: now, in: context)
        reactions += disconnectSilent(at: now, in: context)
        return reactions
    }

    /// When ``tick(at:in:)`` has something to do next without another event.
    func nextDeadline(after now: MonotonicInstant, in context: Context) -> MonotonicInstant? {
        var deadlines: [MonotonicInstant] = []
        for device in devices.all {
            if let deadline = device.connection.deadline { deadlines.append(deadline) }
            if isSilent(device, in: context) { deadlines.append(device.lastActivity + Self.silenceTimeout) }
        }
        if context.isPowered, context.wantsConnections {
            if !isConnecting, !context.isBlueChatConnecting {
                deadlines += devices.all.filter { isEligible($0, in: context) }.map { earliestAttempt(to: $0, in: context) }
            }
            deadlines += devices.all.filter(\.hasStaleServices).compactMap {
                removals[$0.address].map { $0 + Self.removalInterval }
            }
        }
        if let since = unneededSince, !unneeded(in: context).isEmpty { deadlines.append(since + Self.gracePeriod) }
        return deadlines.min()
    }

    /// Makes BlueZ forget devices whose cached services may be out of date; it reports them anew with their next advertisement.
    private mutating func removeStaleServices(at now: MonotonicInstant) -> [ConnectionReaction] {
        removals = removals.filter { now - $0.value < Self.removalInterval }
        var reactions: [ConnectionReaction] = []
        for device in devices.all where device.hasStaleServices && removals[device.address] == nil {
            guard removals.count < DeviceTable.capacity else { break }
            removals[device.address] = now
            reactions += [
                .log("\(device.label) is removed, to discover its services again"), .removeFromBlueZ(path: device.path),
            ]
        }
        return reactions
    }

    // MARK: Connecting

    /// Whether the device is worth a connection, now or later.
    private func isEligible(_ device: RemoteDevice, in context: Context) -> Bool {
        guard device.properties.offersMesh, device.properties.isInRange || device.properties.isConnected,
            !context.servedPaths.contains(device.path), linkCount < Self.maximumLinkCount
        else { return false }
        switch device.connection {
        case .idle: return connectionCount < Self.maximumLinkCount || replaceable(in: context) != nil
        case .ready: return context.wantsFrames
        default: return false
        }
    }

    /// The connection that makes room for another one: of peers that are only browsed for, the one that has been ready for longest.
    private func replaceable(in context: Context) -> RemoteDevice? {
        guard !context.wantsFrames else { return nil }
        return devices.all.filter { device in
            device.connection.isReady && device.origin.isOutgoing && !context.heldAddresses.contains(device.address)
        }.min { $0.backoff.nextAttempt < $1.backoff.nextAttempt }
    }

    /// Two devices that both advertise must not connect to each other at once: while they try, neither receives the other's
    /// advertisement. A device that has connected is about to write; or BlueZ is about to end that connection, and nothing may
    /// be started in it.
    private func earliestAttempt(to device: RemoteDevice, in context: Context) -> MonotonicInstant {
        let isRemoteTurn =
            device.properties.isConnected
            ? !device.origin.isOutgoing : context.isAdvertising && context.localAddress > device.address
        let earliest = device.backoff.nextAttempt
        return isRemoteTurn ? max(earliest, device.lastActivity + RemoteDevice.courtesyTime) : earliest
    }

    private mutating func connectNext(at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        guard !isConnecting, !context.isBlueChatConnecting else { return [] }
        let due = devices.all.filter { isEligible($0, in: context) && earliestAttempt(to: $0, in: context) <= now }
        // Ready connections, then the fewest failures, the strongest signal, the longest due.
        func rank(_ device: RemoteDevice) -> (Int, Int, Int, MonotonicInstant) {
            (
                device.connection.isReady ? 0 : 1, device.backoff.failureCount, -device.properties.rssi,
                device.backoff.nextAttempt
            )
        }
        guard let next = due.min(by: { rank($0) < rank($1) }) else { return [] }
        if next.connection.isReady { return acquireNotifications(next.path, at: now, in: context) }
        var reactions: [ConnectionReaction] = []
        if connectionCount >= Self.maximumLinkCount, let other = replaceable(in: context) {
            reactions = disconnect(other.path, in: context)
            devices.update(other.path) { device in
                device.connection = .idle
                device.backoff.schedule(at: now + Self.returnInterval)
            }
        }
        return reactions + [.stopDiscovery, .log("connecting to \(next.label)")]
            + begin(next.path, .connect, at: now) { .connecting($0, wasConnected: next.properties.isConnected) }
    }

    /// Enters a state that waits for BlueZ's reply to `call`.
    private mutating func begin(
        _ path: String, _ call: DeviceCall, at now: MonotonicInstant, _ state: (ConnectionAttempt) -> ConnectionState
    ) -> [ConnectionReaction] {
        let attempt = devices.update(path) { device in
            let attempt = device.makeAttempt(deadline: now + Self.connectTimeout)
            device.connection = state(attempt)
            return attempt
        }
        return attempt.map { [.call(call, path: path, attempt: $0.number)] } ?? []
    }

    /// Handles BlueZ's reply to a call. A reply that the device's state does not wait for belongs to an attempt that has timed
    /// out or failed.
    mutating func handle(
        _ reply: DeviceReply, attempt number: Int, of path: String, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard let device = devices[path], let attempt = device.connection.attempt, attempt.number == number else { return [] }
        switch (device.connection, reply) {
        case (_, .failed(let reason, let isAcquiredByOther)):
            // BlueZ may still hold what the last connection had acquired: only the second refusal without a link between them is
            // the user's concern.
            if isAcquiredByOther { devices.update(path) { $0.refusalCount += 1 } }
            let warning: [ConnectionReaction] =
                isAcquiredByOther && device.refusalCount == 1
                ? [
                    .warn(
                        "another program on this machine exchanges frames with \(device.address) over \(context.adapterName), and BlueZ allows only one; "
                            + "stop it, or use another adapter with --adapter")
                ] : []
            return [.log("\(device.label): \(reason)")] + warning + fail(path, at: now, in: context)
        case (.connecting(let attempt, let wasConnected), .connected):
            devices.update(path) { device in
                if !wasConnected { device.origin.isOutgoing = true }
                device.properties.isConnected = true
                device.connection = .resolvingServices(attempt.with(deadline: now + Self.connectTimeout))
            }
            return listServicesIfResolved(path)
        case (.listingServices, .servicesListed):
            guard device.characteristics.frames != nil else { return fail(path, at: now, in: context) }
            guard let record = device.characteristics.record else {
                return setRecord(nil, of: path) + setReady(path, at: now, in: context)
            }
            return begin(path, .readRecord(characteristic: record), at: now) { .readingRecord($0) }
        case (.readingRecord, .record(let bytes)):
            return setRecord(bytes.flatMap { ServiceRecord($0) }, of: path) + setReady(path, at: now, in: context)
        case (.acquiringNotifications, .notifications(let descriptor)):
            guard let descriptor, let frames = device.characteristics.frames else { return fail(path, at: now, in: context) }
            return begin(path, .acquireWrite(characteristic: frames), at: now) {
                .acquiringWrites($0, notifications: descriptor)
            }
        case (.acquiringWrites(let attempt, let notifications), .writing(let descriptor, let mtu)):
            guard let descriptor else { return fail(path, at: now, in: context) }
            guard context.wantsFrames else { return setReady(path, at: now, in: context) }
            devices.update(path) { device in
                device.connection = .linked(attempt: attempt.number, since: now)
                device.refusalCount = 0
            }
            let descriptors = ConnectionReaction.FrameDescriptors(
                writing: descriptor, notifications: notifications, mtu: mtu)
            return [
                .log("frames go to \(device.label), \(mtu) bytes at once"),
                .openLink(path: path, attempt: attempt.number, descriptors),
            ]
        // A reply to another call of this attempt: none is outstanding, since calls follow one another.
        default: return []
        }
    }

    /// Replaces the record of a device; browsers hear when it accepts channels, and when it no longer does.
    private mutating func setRecord(_ record: ServiceRecord?, of path: String) -> [ConnectionReaction] {
        guard let old = devices[path] else { return [] }
        devices.update(path) { $0.record = record }
        if let sighting = devices[path]?.sighting { return [.emit(.seen(sighting))] }
        return old.sighting.map { [.emit(.gone($0.key))] } ?? []
    }

    /// Continues once the connection is made and BlueZ knows the device's services, whichever comes last.
    private mutating func listServicesIfResolved(_ path: String) -> [ConnectionReaction] {
        guard let device = devices[path], case .resolvingServices(let attempt) = device.connection,
            device.properties.hasResolvedServices
        else { return [] }
        devices.update(path) { $0.connection = .listingServices(attempt) }
        return [.call(.listServices, path: path, attempt: attempt.number)]
    }

    private mutating func setReady(
        _ path: String, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        devices.update(path) { device in
            device.connection = .ready
            device.backoff.schedule(at: now)
            // The device can be reached, and nothing more is wanted of it.
            if !context.wantsFrames { device.backoff.recordSuccess() }
        }
        return []
    }

    /// Notifications come first: the other side answers the first frame that is written.
    private mutating func acquireNotifications(
        _ path: String, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard let frames = devices[path]?.characteristics.frames else { return fail(path, at: now, in: context) }
        return begin(path, .acquireNotify(characteristic: frames), at: now) { .acquiringNotifications($0) }
    }

    // MARK: Ending links

    /// A link has been closed, by either side.
    mutating func linkClosed(
        _ path: String, attempt: Int, at now: MonotonicInstant, in context: Context
    ) -> [ConnectionReaction] {
        guard let device = devices[path], case .linked(attempt, let since) = device.connection else { return [] }
        devices.update(path) { device in
            if now - since > RetryBackoff.maximumDelay { device.backoff.recordSuccess() }
            device.recordFailure(at: now)
        }
        // The device may be using the same connection as a central.
        return context.servedPaths.contains(path) ? [] : disconnect(path, in: context)
    }

    /// Ends an attempt or a link; the next attempt follows after the back-off.
    private mutating func fail(_ path: String, at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        guard let device = devices[path] else { return [] }
        var reactions: [ConnectionReaction] = []
        if device.connection.isLinked { reactions.append(.closeLink(path: path)) }
        // BlueZ may hold on to what was half done; the next attempt makes a connection of its own.
        if device.connection.isInProgress { reactions += disconnect(path, in: context) }
        devices.update(path) { $0.recordFailure(at: now) }
        if let failed = devices[path], failed.backoff.failureCount >= RemoteDevice.maximumFailureCount, failed.record != nil {
            reactions += setRecord(nil, of: path)
        }
        return reactions + [.log("\(device.label): retry later (\(device.connection.label))")]
    }

    private mutating func timeOut(_ path: String, at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        // Ends BlueZ's own attempt, which would go on for half a minute.
        let cancels = devices[path]?.properties.isConnected == false
        return (cancels ? [.disconnect(path: path)] : []) + fail(path, at: now, in: context)
    }

    /// Ends a connection that this process has made, unless a channel is open on it.
    private mutating func disconnect(_ path: String, in context: Context) -> [ConnectionReaction] {
        guard let device = devices[path], device.origin.isOutgoing, device.properties.isConnected,
            !context.heldAddresses.contains(device.address)
        else { return [] }
        devices.update(path) { $0.origin.isOutgoing = false }
        return [.disconnect(path: path)]
    }

    mutating func disconnectAll(in context: Context) -> [ConnectionReaction] {
        devices.paths.flatMap { disconnect($0, in: context) }
    }

    private func unneeded(in context: Context) -> [RemoteDevice] {
        guard !context.wantsConnections else { return [] }
        return devices.all.filter { $0.connection.isReady && !context.heldAddresses.contains($0.address) }
    }

    private mutating func disconnectUnneeded(at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        guard !context.wantsConnections, devices.all.contains(where: { $0.connection.isReady }) else {
            unneededSince = nil
            return []
        }
        let since = unneededSince ?? now
        unneededSince = since
        guard now - since >= Self.gracePeriod else { return [] }
        var reactions: [ConnectionReaction] = []
        for device in unneeded(in: context) {
            reactions += disconnect(device.path, in: context)
            devices.update(device.path) { $0.connection = .idle }
        }
        return reactions
    }

    /// A device that has connected and wants neither frames nor a channel nor a chat. A controller supports few connections at
    /// once.
    private func isSilent(_ device: RemoteDevice, in context: Context) -> Bool {
        device.origin.hasConnectedByItself && !device.origin.isOutgoing && device.properties.isConnected
            && !device.properties.isKeptByUser && device.connection.isIdle && !context.heldAddresses.contains(device.address)
            && !context.servedPaths.contains(device.path) && !context.chattingPaths.contains(device.path)
    }

    private mutating func disconnectSilent(at now: MonotonicInstant, in context: Context) -> [ConnectionReaction] {
        var reactions: [ConnectionReaction] = []
        for device in devices.all
        where isSilent(device, in: context) && now - device.lastActivity >= Self.silenceTimeout {
            // The call is repeated after the same time if the device stays.
            devices.update(device.path) { $0.lastActivity = now }
            reactions += [.log("\(device.label) has connected and stays silent"), .disconnect(path: device.path)]
        }
        return reactions
    }

    // MARK: Other parts of the adapter

    /// A channel to this address was closed: its owner may open another one, so the courtesy time starts again.
    mutating func channelClosed(_ address: BluetoothAddress, at now: MonotonicInstant) {
        for device in devices.all where device.address == address { devices.update(device.path) { $0.lastActivity = now } }
    }

    /// A connection that was made for BlueChat serves the mesh from now on.
    mutating func adoptConnection(_ path: String) {
        devices.update(path) { device in
            if device.properties.isConnected { device.origin.isOutgoing = true }
        }
    }

    /// Decides about frames that a central writes while this machine may have a link to it of its own. Between two nodes that
    /// have connected to each other, the link of the one with the lower address stays.
    func admission(ofFramesFrom path: String, localAddress: BluetoothAddress) -> FrameAdmission {
        guard let device = devices[path], device.connection.isLinked, device.record != nil else { return .accepted }
        return localAddress > device.address ? .replacesLocalLink : .rejected
    }

    enum FrameAdmission: Equatable {
        case accepted
        /// The link that this machine has opened is closed.
        case replacesLocalLink
        case rejected
    }
}

extension ConnectionState {
    /// For logs.
    var label: String {
        switch self {
        case .idle: "idle"
        case .connecting: "connecting"
        case .resolvingServices: "resolving services"
        case .listingServices: "listing services"
        case .readingRecord: "reading its record"
        case .ready: "ready"
        case .acquiringNotifications: "acquiring notifications"
        case .acquiringWrites: "acquiring writes"
        case .linked: "linked"
        }
    }
}
