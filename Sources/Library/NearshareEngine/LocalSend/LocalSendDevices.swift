internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareLocalSend

/// The LocalSend devices that have announced themselves or have registered, by the certificates that they claim. A connection proves
/// them.
final class LocalSendDevices: Sendable {
    private struct Entry {
        var sighting: ServiceSighting
        var lastSeen: MonotonicInstant
        /// Changes of name and address that are reported; others wait for a later sign of the device.
        var changes: TokenBucket
    }

    /// A device in one address family.
    private struct Key: Hashable {
        let certificate: [UInt8]
        let isIPv6: Bool
    }

    private struct State {
        var entries: [Key: Entry] = [:]
        var readers: [UInt64: AsyncThrowingStream<DiscoveryEvent, any Error>.Continuation] = [:]
        var lastReader: UInt64 = 0
        var isFinished = false
    }

    /// Limit on devices; known ones stay, so that a flood cannot displace them (F17).
    static let maximumCount = 256
    /// Limit on the devices of one address: several users of one machine.
    static let maximumCountPerHost = 8
    /// The time without a sign after which a device is gone: two announcements of this node, which devices answer.
    static let lifetime = Duration.seconds(150)

    /// A claimed certificate costs nothing: each change is an event for programs, and a line on a screen (F17).
    private static let changeBurst = 3.0
    private static let changesPerSecond = 0.1

    private let own: [UInt8]
    private let clock: @Sendable () -> MonotonicInstant
    private let state = Monitor(State())

    /// - Parameter own: SHA-256 of this node's certificate.
    init(own: [UInt8], clock: @escaping @Sendable () -> MonotonicInstant) {
        (self.own, self.clock) = (own, clock)
    }

    /// Records a device. Nearshare nodes are found by their own protocol, and devices without encryption are not sent to.
    func receive(_ device: LocalSendDevice, from host: String) {
        guard let certificate = device.certificate, certificate != own, !device.isNearshare else { return }
        let now = clock()
        let key = Key(certificate: certificate, isIPv6: host.contains(":"))
        let id = ForeignPeer(localSend: certificate).fingerprint.peerID
        let sighting = ServiceSighting(
            key: ServiceSighting.Key(instance: "localsend \(Hex.encode(certificate))", interfaceIndex: 0, isIPv6: key.isIPv6),
            address: LinkAddress(host: host, port: device.port), txt: PeerTXTRecord(id: id, name: device.name).strings,
            isOwn: false, certificate: certificate)
        state.update { state in
            Self.removeExpired(&state, now: now)
            if state.entries[key] == nil {
                guard state.entries.count < Self.maximumCount,
                    state.entries.values.count(where: { $0.sighting.address.host == host }) < Self.maximumCountPerHost
                else { return }
            }
            let changes = TokenBucket(capacity: Self.changeBurst, perSecond: Self.changesPerSecond, now: now)
            var entry = state.entries[key] ?? Entry(sighting: sighting, lastSeen: now, changes: changes)
            entry.lastSeen = now
            let isNew = state.entries[key] == nil
            let isChanged = entry.sighting != sighting && entry.changes.consume(now: now)
            if isChanged { entry.sighting = sighting }
            state.entries[key] = entry
            if isNew || isChanged { Self.emit(.seen(sighting), &state) }
        }
    }

    /// The devices for as long as the sequence is iterated.
    func browse() -> AsyncThrowingStream<DiscoveryEvent, any Error> {
        let (stream, continuation) = DiscoveryEvent.makeStream()
        let now = clock()
        state.update { state in
            Self.removeExpired(&state, now: now)
            for entry in state.entries.values { continuation.yield(.seen(entry.sighting)) }
            continuation.yield(.settled)
            guard !state.isFinished else { return continuation.finish() }
            state.lastReader += 1
            // Removed by the first event that is not read any more: a termination handler must not take the lock under which
            // events are yielded.
            state.readers[state.lastReader] = continuation
        }
        return stream
    }

    /// Ends all sequences.
    func finish() {
        let readers = state.update { state in
            state.isFinished = true
            defer { state.readers = [:] }
            return Array(state.readers.values)
        }
        for reader in readers { reader.finish() }
    }

    /// Reports the devices that have given no sign for too long.
    func removeExpired() {
        let now = clock()
        state.update { Self.removeExpired(&$0, now: now) }
    }

    private static func removeExpired(_ state: inout State, now: MonotonicInstant) {
        for (key, entry) in state.entries where now - entry.lastSeen >= lifetime {
            state.entries[key] = nil
            emit(.gone(entry.sighting.key), &state)
        }
    }

    private static func emit(_ event: DiscoveryEvent, _ state: inout State) {
        for (number, reader) in state.readers {
            if case .terminated = reader.yield(event) { state.readers[number] = nil }
        }
    }
}
