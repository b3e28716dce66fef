internal import Logging
package import NearshareBase
package import NearshareBundles
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Sends, receives and forwards bundles as long as the node runs. Created by ``MeshDriver/startBundles(profile:store:observing:)``.
///
///     send, packets, neighbours ──► queue ──► BundleRouter ──► BundlePerformer ──► events, store, mesh
///
/// One thread owns the performer, because the store blocks. It takes all queued inputs at once, so that their changes of the store share
/// a transaction.
package final class BundleDriver: Sendable {
    private struct State {
        var router: BundleRouter
        var neighbours = BundleNeighbourTable()
        var inputs: [Input] = []
        var isStopping = false
    }

    private enum Input: Sendable {
        case send(Prepared)
        case packet(BundlePacket, from: PeerID)
        case neighboursChanged
    }

    private enum Wake {
        case inputs([Input])
        case stop
    }

    private unowned let mesh: MeshDriver
    private let settings: NodeSettings
    private let store: any BundleStore
    private let observe: @Sendable (BundleDriverEvent) -> Void
    private let listeners = Broadcast<BundleDriverEvent>()
    private let state: Monitor<State>
    /// Limits of this node's own bundles, and of what it forwards for others.
    package let profile: PropagationProfile

    init(
        _ mesh: MeshDriver, _ settings: NodeSettings, profile: PropagationProfile, store: any BundleStore,
        observing observe: @escaping @Sendable (BundleDriverEvent) -> Void
    ) throws(StorageError) {
        self.mesh = mesh
        self.settings = settings
        self.store = store
        self.observe = observe
        self.profile = profile
        var routerSettings = BundleRouterSettings()
        routerSettings.profile = profile
        let now = Moment(monotonic: settings.clock(), wall: settings.wallClock())
        var router = BundleRouter(
            keys: RouterKeys(settings.identity), settings: routerSettings, random: KernelRandom(draw: settings.random),
            now: now)
        try store.removeExpired(now: now.wall)
        let stored = try store.bundles().compactMap { persisted -> StoredBundle? in
            guard let copy = try? BundleCopy(decoding: persisted.copy[...]) else { return nil }
            return StoredBundle(
                id: persisted.id, copy: copy, previousNode: persisted.previousNode, forwardCount: persisted.forwardCount)
        }
        router.restore(stored, delivered: try store.deliveries(), now: now)
        state = Monitor(State(router: router))
    }

    // MARK: Sending

    /// Sends a message. Its progress follows among ``events()``.
    /// - Parameters:
    ///   - receiver: nil for a broadcast.
    ///   - isPrivate: forwarding nodes learn neither the sender nor the receiver.
    ///   - profile: nil for the node's own.
    package func send(
        _ content: StructuredValue, mode: MessageMode, to receiver: EndpointKeys? = nil, isEncrypted: Bool,
        isPrivate: Bool = false, profile: PropagationProfile? = nil
    ) throws(MessageRule) -> BundleID {
        let request = MessageRequest(
            .structured(content), mode: mode, hasReceiver: receiver != nil, isEncrypted: isEncrypted, isPrivate: isPrivate)
        let prepared = try prepare(request, to: receiver, profile: profile)
        submit(prepared)
        return prepared.id
    }

    /// A bundle that is sealed and signed, and not submitted yet.
    struct Prepared: Sendable {
        fileprivate let bundle: OutgoingBundle
        /// The only neighbour that gets it; nil for a bundle that others forward.
        fileprivate let neighbour: EndpointID?

        var id: BundleID { bundle.id }
        var isDirect: Bool { neighbour != nil }
    }

    func prepare(
        _ request: MessageRequest, to receiver: EndpointKeys?, profile: PropagationProfile? = nil
    ) throws(MessageRule) -> Prepared {
        let address = receiver?.address
        let (isInRange, needsRadio) = state.withLock { state in
            // Any node can sign for an address; the session in which a direct bundle travels proves the other key.
            let isInRange = receiver.map {
                state.router.isNeighbour($0.address) && state.neighbours.peer($0.address) == $0.fingerprint.peerID
            }
            return (isInRange ?? false, state.router.needsRadio(to: address))
        }
        let encoded = try MessageRule.check(request, needsRadio: needsRadio)
        let isDirect = request.mode == .direct || (request.mode == .full && isInRange)
        guard request.mode != .direct || isInRange else { throw .receiverNotInRange }
        var random = KernelRandom(draw: settings.random)
        let bundle = OutgoingBundle(
            // A direct bundle is sealed by the session, which keeps it secret even when long-term keys become known later. Only its
            // destination sees it, so it need not be private, and its single hop leaves none to search for an unnamed destination.
            encoded, from: RouterKeys(settings.identity), to: receiver, isSealed: request.isEncrypted && !isDirect,
            isPrivate: request.isPrivate && !isDirect, profile: isDirect ? .direct : profile ?? self.profile,
            created: settings.wallClock(), random: &random)
        return Prepared(bundle: bundle, neighbour: isDirect ? address : nil)
    }

    func submit(_ prepared: Prepared) {
        state.update { $0.inputs.append(.send(prepared)) }
    }

    // MARK: State

    /// The progress of bundles from now on, until the node stops.
    package func events() -> AsyncStream<BundleDriverEvent> { listeners.subscribe() }

    /// Whether a bundle is still stored. Blocks.
    func isStored(_ id: BundleID) -> Bool { (try? store.contains(id)) ?? false }

    /// The keys that a peer has announced in the mesh; nil for one that is not known.
    package func contact(_ id: PeerID) -> EndpointKeys? {
        mesh.read { $0.keys(of: id) }.map { EndpointKeys(agreementKey: $0.agreementKey, signingKey: $0.signingKey) }
    }

    /// Stored bundles, this node's own and others'.
    package var bundleCount: Int { state.withLock { $0.router.bundleCount } }

    // MARK: Inputs from the mesh

    func receive(_ packet: BundlePacket, from peer: PeerID) {
        state.update { state in
            // Beyond the limit packets are dropped, and sent again by routers that get no receipt (R1).
            guard state.inputs.count < Self.maximumInputCount else { return }
            state.inputs.append(.packet(packet, from: peer))
        }
    }

    func neighboursChanged() {
        state.update { $0.inputs.append(.neighboursChanged) }
    }

    func stop() {
        state.update { $0.isStopping = true }
    }

    // MARK: The thread

    /// Runs until ``stop()``, and until all inputs before it are handled.
    func run() {
        var performer = BundlePerformer(
            store: store, log: settings.log, emit: { self.publish($0) },
            send: { self.send($0, to: $1, inSession: $2) })
        // Restored bundles may have expired.
        var reactions = change { _, _ in }
        while true {
            performer.perform(reactions)
            guard let inputs = nextInputs() else { break }
            reactions = []
            for input in inputs { reactions += handle(input) }
            reactions += change { router, now in router.advance(to: now) }
        }
        listeners.finish()
    }

    /// Waits for inputs, or for the router's deadline.
    /// - Returns: nil once the driver stops and no input is left.
    private func nextInputs() -> [Input]? {
        let deadline = state.withLock { $0.router.deadline } ?? settings.clock() + Self.idleInterval
        let wake: Wake? = state.wait(untilNanoseconds: deadline.nanoseconds) { state in
            guard state.inputs.isEmpty else {
                defer { state.inputs = [] }
                return .inputs(state.inputs)
            }
            return state.isStopping ? .stop : nil
        }
        switch wake {
        case .inputs(let inputs): return inputs
        case .stop: return nil
        case nil: return []
        }
    }

    private func handle(_ input: Input) -> [BundleReaction] {
        switch input {
        case .send(let prepared):
            do throws(BundleRejection) {
                return try change { (router, now) throws(BundleRejection) in
                    if let neighbour = prepared.neighbour {
                        try router.sendDirect(prepared.bundle, to: neighbour, now: now)
                    } else {
                        try router.send(prepared.bundle, now: now)
                    }
                }
            } catch {
                publish(.failed(prepared.id, error.description))
                return []
            }
        case .packet(let packet, let peer):
            // The packet may arrive before the change of neighbours.
            let isKnown = state.withLock { $0.neighbours.endpoint(of: peer) != nil }
            let reactions = isKnown ? [] : updateNeighbours()
            guard let endpoint = state.withLock({ $0.neighbours.endpoint(of: peer) }) else { return reactions }
            settings.log.trace("from endpoint \(endpoint): \(packet.summary)")
            return reactions + change { router, now in router.receive(packet, from: endpoint, now: now) }
        case .neighboursChanged: return updateNeighbours()
        }
    }

    private func updateNeighbours() -> [BundleReaction] {
        let present = mesh.read { $0.bundleNeighbours }
        let (removed, added) = state.withLock { $0.neighbours.update(to: present) }
        let reactions = change { router, now in
            for endpoint in removed { router.neighbourDown(endpoint, now: now) }
            for neighbour in added { router.neighbourUp(neighbour.endpoint, link: neighbour.link, now: now) }
        }
        for neighbour in added { publish(.neighbourAppeared(neighbour.peer)) }
        return reactions
    }

    private func change<Failure: Error>(
        _ body: (inout BundleRouter, Moment) throws(Failure) -> Void
    ) throws(Failure) -> [BundleReaction] {
        let now = Moment(monotonic: settings.clock(), wall: settings.wallClock())
        return try state.withLock { (state) throws(Failure) in
            try body(&state.router, now)
            return state.router.drainReactions()
        }
    }

    // MARK: Outputs

    private func send(_ packet: BundlePacket, to endpoint: EndpointID, inSession: Bool) {
        guard let peer = state.withLock({ $0.neighbours.peer(endpoint) }) else { return }
        mesh.update { router, now in
            if inSession {
                router.sendSealedBundlePacket(packet.encoded, to: peer, now: now)
            } else {
                router.sendBundlePacket(packet.encoded, to: peer, now: now)
            }
        }
    }

    private func publish(_ event: BundleEvent) {
        switch event {
        case .sent(let id): publish(BundleDriverEvent.sent(id))
        case .delivered(let id): publish(BundleDriverEvent.delivered(id))
        case .expired(let id): publish(BundleDriverEvent.failed(id, "not acknowledged within its time to live"))
        case .received(let delivered):
            // Messages of blocked peers are dropped, whichever node forwarded them.
            if let peer = delivered.sealedBy, settings.trustStatus(peer, nil).isBlocked { return }
            guard let content = try? BundleContent(decoding: delivered.content[...]) else { return }
            publish(BundleDriverEvent.received(ReceivedMeshMessage(delivered, content)))
        case .clockDiffers(let lead):
            settings.log.error(
                "a message was created \(lead.components.seconds) s in the future; the sender's clock or this one is wrong")
        }
    }

    private func publish(_ event: BundleDriverEvent) {
        observe(event)
        listeners.publish(event)
    }

    private static let maximumInputCount = 4_096
    /// Longest wait of a router without a deadline.
    private static let idleInterval = Duration.seconds(3_600)
}

extension PropagationProfile {
    /// To a neighbour and no further, and only while it is in range.
    // Safe: all values are within their bounds.
    fileprivate static let direct = try! PropagationProfile(
        hopLimit: 1, timeToLive: 60, sharingTime: 15_000, maximumPropagation: 10, tracklistLimit: 0)
}
