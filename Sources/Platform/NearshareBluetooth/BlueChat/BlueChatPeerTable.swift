internal import NearshareBase
internal import NearshareInterfaces

/// BlueChat's peers, by object path, and the progress of each: a value without clock or bus. Reactions are performed in order.
struct BlueChatPeerTable {
    enum Reaction: Equatable {
        case connect(path: String)
        /// The device's services may be known better now: the mesh may take the connection over.
        case identify(path: String)
        /// Subscribe to the disconnect requests, then to the texts.
        case subscribe(path: String, disconnectRequests: String, texts: String)
        case disconnect(path: String)
        case linked(path: String)
        case unlinked(LinkAddress)
        /// Texts on their way to the peer are lost.
        case cancelTexts(path: String)
        case log(String)
    }

    private var peers: [String: BlueChatPeer] = [:]
    /// Centrals that were asked to disconnect, and when this machine disconnects instead.
    private var leaving: [String: MonotonicInstant] = [:]

    static let capacity = 32
    static let maximumLinkCount = 4
    /// BlueChat's own central gives up after 3 s; a connection over BlueZ takes longer while others are made.
    static let stepTimeout = Duration.seconds(10)
    /// A central disconnects within this time of a request.
    static let leavingTimeout = Duration.seconds(3)

    subscript(path: String) -> BlueChatPeer? { peers[path] }

    var isConnecting: Bool { peers.values.contains { $0.deadline != nil } }
    var linkedPaths: Set<String> { Set(peers.filter(\.value.isLinked).keys) }

    func path(of address: LinkAddress) -> String? { peers.first { $0.value.linkAddress == address }?.key }

    // MARK: Reports of BlueZ

    /// A device that advertises the service, or offers it once connected.
    mutating func discover(_ path: String, _ address: BluetoothAddress, name: String?, at now: MonotonicInstant) {
        if peers[path] == nil {
            if peers.count >= Self.capacity,
                let unreachable = peers.first(where: { $0.value.isIdle && $0.value.backoff.failureCount > 0 })?.key
            {
                peers[unreachable] = nil
            }
            guard peers.count < Self.capacity else { return }
            // nearshare advertises two services in turns: the mesh has to be seen before a connection is made for a chat.
            peers[path] = BlueChatPeer(
                address: address, backoff: RetryBackoff(firstAttempt: now + RemoteDevice.courtesyTime))
        }
        if let name { peers[path]?.name = name }
    }

    mutating func addCharacteristic(_ path: String, uuid: String, of device: String) {
        peers[device]?.characteristics.add(path, uuid: uuid)
    }

    /// Gives up a device that also offers bitchat's service.
    /// - Returns: whether there is a connection of this process's own; it stays, for the mesh.
    mutating func yieldToMesh(_ path: String) -> (isOutgoing: Bool, reactions: [Reaction]) {
        guard let peer = peers[path] else { return (false, []) }
        switch peer.state {
        // BlueZ makes one connection at a time; calls meanwhile fail.
        case .connecting, .served: return (false, [])
        case .idle, .resolvingServices, .subscribing, .linked: break
        }
        peers[path] = nil
        return (peer.isOutgoing, [.cancelTexts(path: path)] + (peer.isLinked ? [.unlinked(peer.linkAddress)] : []))
    }

    mutating func disconnected(_ path: String, at now: MonotonicInstant) -> [Reaction] {
        leaving[path] = nil
        guard let peer = peers[path] else { return [] }
        peers[path]?.isOutgoing = false
        switch peer.state {
        case .idle: return [.cancelTexts(path: path)]
        case .served:
            peers[path] = nil
            return [.cancelTexts(path: path), .unlinked(peer.linkAddress)]
        case .connecting, .resolvingServices, .subscribing, .linked: return fail(path, at: now)
        }
    }

    /// BlueZ has removed the device.
    mutating func remove(_ path: String) -> [Reaction] {
        leaving[path] = nil
        guard let peer = peers.removeValue(forKey: path) else { return [] }
        return [.cancelTexts(path: path)] + (peer.isLinked ? [.unlinked(peer.linkAddress)] : [])
    }

    mutating func removeAll() -> [Reaction] { Array(peers.keys).flatMap { remove($0) } }

    /// Ends the chat: disconnects what this process has connected.
    mutating func leave() -> [Reaction] {
        let reactions = peers.flatMap { path, peer -> [Reaction] in
            [.cancelTexts(path: path)] + (peer.isOutgoing ? [.disconnect(path: path)] : [])
        }
        peers = [:]
        leaving = [:]
        return reactions
    }

    // MARK: As a central

    /// Starts the next connection that is due.
    /// - Parameter device: the device of a path, as the adapter knows it; nil for one that is not reachable now.
    mutating func connectNext(
        at now: MonotonicInstant, reachable device: (String) -> RemoteDevice?
    ) -> [Reaction] {
        guard peers.values.count(where: \.isLinked) < Self.maximumLinkCount else { return [] }
        let due = peers.filter { $0.value.isIdle && $0.value.backoff.nextAttempt <= now }
        let ordered = due.sorted { $0.value.backoff.nextAttempt < $1.value.backoff.nextAttempt }
        for (path, peer) in ordered {
            guard let device = device(path) else { continue }
            peers[path]?.state = .connecting(
                deadline: now + Self.stepTimeout, wasConnected: device.properties.isConnected)
            return [.log("connecting to \(peer.address) for BlueChat"), .connect(path: path)]
        }
        return []
    }

    mutating func connected(_ path: String, at now: MonotonicInstant) -> [Reaction] {
        guard case .connecting(_, let wasConnected)? = peers[path]?.state else { return [] }
        peers[path]?.isOutgoing = !wasConnected
        peers[path]?.state = .resolvingServices(deadline: now + Self.stepTimeout)
        return [.identify(path: path)]
    }

    /// Continues once all three characteristics are known.
    mutating func subscribeIfResolved(_ path: String, at now: MonotonicInstant) -> [Reaction] {
        guard let peer = peers[path], case .resolvingServices = peer.state, peer.characteristics.text != nil,
            let texts = peer.characteristics.indication, let requests = peer.characteristics.disconnectRequest
        else { return [] }
        peers[path]?.state = .subscribing(deadline: now + Self.stepTimeout)
        return [.subscribe(path: path, disconnectRequests: requests, texts: texts)]
    }

    mutating func subscribed(_ path: String) -> [Reaction] {
        guard case .subscribing? = peers[path]?.state else { return [] }
        peers[path]?.state = .linked
        peers[path]?.backoff.recordSuccess()
        return [.linked(path: path)]
    }

    /// Ends an attempt after a failed call to BlueZ, or when a step has timed out.
    mutating func fail(_ path: String, at now: MonotonicInstant) -> [Reaction] {
        guard peers[path] != nil else { return [] }
        peers[path]?.backoff.recordFailure(at: now)
        return end(path)
    }

    /// Disconnects because the peer asks this central to, or the user wants to.
    mutating func pause(_ path: String, at now: MonotonicInstant) -> [Reaction] {
        peers[path]?.backoff.schedule(at: now + RetryBackoff.maximumDelay)
        return end(path)
    }

    private mutating func end(_ path: String) -> [Reaction] {
        guard let peer = peers[path] else { return [] }
        var reactions: [Reaction] = [.cancelTexts(path: path)]
        if peer.isLinked { reactions.append(.unlinked(peer.linkAddress)) }
        // An attempt that never ends would keep BlueZ from all others.
        if peer.isOutgoing || peer.deadline != nil { reactions.append(.disconnect(path: path)) }
        peers[path]?.state = .idle
        peers[path]?.isOutgoing = false
        return reactions
    }

    /// The peer that indicates values on a characteristic, and whether they are disconnect requests.
    func linkedPeer(ofCharacteristic path: String) -> (path: String, isRequest: Bool)? {
        for (device, peer) in peers where peer.state == .linked {
            if peer.characteristics.disconnectRequest == path { return (device, true) }
            if peer.characteristics.indication == path { return (device, false) }
        }
        return nil
    }

    // MARK: As a peripheral

    /// Serves a central that has written a text, or must be the one that has subscribed.
    mutating func serve(_ path: String, name: String?, at now: MonotonicInstant) -> [Reaction] {
        if peers[path] == nil {
            guard let address = BlueZ.address(ofDevice: path), peers.count < Self.capacity else { return [] }
            peers[path] = BlueChatPeer(address: address, backoff: RetryBackoff(firstAttempt: now))
        }
        if let name { peers[path]?.name = name }
        guard peers[path]?.isLinked == false else { return [] }
        peers[path]?.state = .served
        return [.linked(path: path)]
    }

    /// The central was asked to disconnect.
    mutating func expectDisconnect(_ path: String, at now: MonotonicInstant) {
        leaving[path] = now + Self.leavingTimeout
    }

    // MARK: Time

    mutating func tick(at now: MonotonicInstant) -> [Reaction] {
        var reactions: [Reaction] = []
        for (path, peer) in peers {
            guard let deadline = peer.deadline, now >= deadline else { continue }
            reactions += fail(path, at: now)
        }
        for (path, deadline) in leaving where now >= deadline {
            leaving[path] = nil
            peers[path]?.isOutgoing = false
            reactions.append(.disconnect(path: path))
        }
        return reactions
    }

    /// When ``tick(at:)`` or ``connectNext(at:reachable:)`` may have something to do next without another event.
    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant? {
        let attempts = peers.values.filter(\.isIdle).map(\.backoff.nextAttempt).filter { $0 > now }
        return (attempts + peers.values.compactMap(\.deadline) + leaving.values).min()
    }
}
