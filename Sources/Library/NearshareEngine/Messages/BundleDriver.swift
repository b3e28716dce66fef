internal import Logging
package import NearshareBase
package import NearshareBundles
package import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Messages that others carry: sends, receives, and carries for others, as long as the node runs. Made by
/// ``MeshDriver/startBundles(profile:store:observing:)``.
///
/// ``BundleRouter`` decides. One thread does what it says, for the store blocks: what people send and what the mesh brings comes
/// to it through a queue.
package final class BundleDriver: Sendable {
    struct State {
        var carrier: BundleRouter
        var inputs: [Input] = []
        var isStopping = false
        /// Who carries and is near, and how they are called in the mesh.
        var neighbours: [EndpointID: PeerID] = [:]
    }

    enum Input: Sendable {
        case send(OutgoingBundle, directlyTo: EndpointID?)
        case packet(BundlePacket, from: PeerID)
        case neighboursChanged
    }

    private unowned let mesh: MeshDriver
    private let settings: NodeSettings
    private let store: any BundleStore
    private let observe: @Sendable (BundleDriverEvent) -> Void
    private let listeners = Broadcast<BundleDriverEvent>()
    private let state: Monitor<State>
    /// Of this node: what it sends goes so far, and what it carries for others at most.
    package let profile: PropagationProfile

    init(
        _ mesh: MeshDriver, _ settings: NodeSettings, profile: PropagationProfile, store: any BundleStore,
        _ observe: @escaping @Sendable (BundleDriverEvent) -> Void
    ) throws(StorageError) {
        self.mesh = mesh
        self.settings = settings
        self.store = store
        self.observe = observe
        self.profile = profile
        var carrySettings = BundleRouterSettings()
        carrySettings.profile = profile
        let now = Moment(monotonic: settings.clock(), wall: settings.wallClock())
        var carrier = BundleRouter(
            keys: RouterKeys(settings.identity), settings: carrySettings, random: KernelRandom(draw: settings.random), now: now
        )
        try store.expire(now: now.wall)
        carrier.restore(
            try store.messages().compactMap { stored in
                guard let copy = try? BundleCopy(decoding: stored.copy[...]) else { return nil }
                return StoredBundle(id: stored.id, copy: copy, previousNode: stored.depositor, forwardCount: stored.forwards)
            },
            delivered: try store.delivered().map { ($0.id, $0.until) }, now: now)
        state = Monitor(State(carrier: carrier))
    }

    // MARK: What people use

    /// Sends a message, or says which rule it breaks. It has its id at once; what becomes of it follows among ``events()``.
    /// - Parameters:
    ///   - receiver: nil for a broadcast.
    ///   - isPrivate: carriers learn neither who sent it nor whom it is for.
    ///   - profile: nil for the node's own.
    package func send(
        _ content: StructuredValue, mode: MessageMode, to receiver: EndpointKeys? = nil, isEncrypted: Bool,
        isPrivate: Bool = false, profile: PropagationProfile? = nil
    ) throws(MessageRule) -> BundleID {
        let message = try prepare(
            MessageRequest(
                .structured(content), mode: mode, hasReceiver: receiver != nil, isEncrypted: isEncrypted, isPrivate: isPrivate),
            to: receiver, profile: profile)
        submit(message)
        return message.id
    }

    /// A message that is sealed and has its id, and that nobody has been given yet.
    struct Prepared: Sendable {
        fileprivate let message: OutgoingBundle
        /// Set for one that only goes to a neighbour.
        fileprivate let neighbour: EndpointID?

        var id: BundleID { message.id }
        var isDirect: Bool { neighbour != nil }
    }

    func prepare(
        _ request: MessageRequest, to receiver: EndpointKeys?, profile: PropagationProfile? = nil
    ) throws(MessageRule) -> Prepared {
        let address = receiver?.address
        let (isNear, needsRadio) = state.withLock { state in
            // Anybody can sign for an address; the session in which a direct message goes proves the other key.
            let isNear = receiver.map {
                state.carrier.isNeighbour($0.address) && state.neighbours[$0.address] == $0.fingerprint.peerID
            }
            return (isNear ?? false, state.carrier.needsRadio(to: address))
        }
        let encoded = try MessageRule.check(request, needsRadio: needsRadio)
        let isDirect = request.mode == .direct || (request.mode == .full && isNear)
        guard request.mode != .direct || isNear else { throw .receiverNotInRange }
        var random = KernelRandom(draw: settings.random)
        let message = OutgoingBundle(
            // What goes directly is sealed by the session that it goes in, which keeps it secret also from who gets our keys later.
            encoded, from: RouterKeys(settings.identity), to: receiver, isSealed: request.isEncrypted && !isDirect,
            // Nobody but its receiver sees it either; and its acknowledgement has no hop for looking around.
            isPrivate: request.isPrivate && !isDirect, profile: isDirect ? .direct : profile ?? self.profile,
            created: settings.wallClock(),
            random: &random)
        return Prepared(message: message, neighbour: isDirect ? address : nil)
    }

    func submit(_ prepared: Prepared) {
        state.update { $0.inputs.append(.send(prepared.message, directlyTo: prepared.neighbour)) }
    }

    /// What becomes of messages from now on, until the node stops.
    package func events() -> AsyncStream<BundleDriverEvent> { listeners.subscribe() }

    /// Whether a message of ours is still kept, to be handed to others.
    func isKept(_ id: BundleID) -> Bool { (try? store.copy(of: id)) != nil }

    /// Whether somebody is a neighbour who carries.
    func isNear(_ address: EndpointID) -> Bool { state.withLock { $0.carrier.isNeighbour(address) } }

    /// Whom messages can be sealed for, as they announced themselves in the mesh; nil for somebody who hasn't been heard of.
    package func contact(_ id: PeerID) -> EndpointKeys? {
        mesh.read { $0.keys(of: id) }.map { EndpointKeys(agreementKey: $0.agreementKey, signingKey: $0.signingKey) }
    }

    /// How many messages this node carries, its own and others'.
    package var carriedCount: Int { state.withLock { $0.carrier.bundleCount } }

    // MARK: What the mesh brings

    func take(_ packet: BundlePacket, from peer: PeerID) {
        state.update { state in
            // A flood waits its turn in the links' own buffers.
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

    /// Runs until ``stop()``.
    func run() {
        change { _, _ in }
        while true {
            let deadline = state.withLock { $0.carrier.deadline }
            let waitUntil = deadline ?? settings.clock() + .seconds(3_600)
            let work: [Input]?? = state.wait(untilNanoseconds: waitUntil.nanoseconds) { state in
                // What has come is still taken, for its sender may have gone.
                if state.isStopping, state.inputs.isEmpty { return .some(nil) }
                guard !state.inputs.isEmpty || state.carrier.deadline != deadline else { return nil }
                defer { state.inputs = [] }
                return .some(state.inputs)
            }
            if case .some(.none) = work { break }
            for input in work.flatMap(\.self) ?? [] { take(input) }
            change { carrier, now in carrier.advance(to: now) }
        }
        listeners.finish()
    }

    private func take(_ input: Input) {
        switch input {
        case .send(let message, let receiver):
            do throws(BundleRejection) {
                try change { (carrier, now) throws(BundleRejection) in
                    if let receiver {
                        try carrier.sendDirect(message, to: receiver, now: now)
                    } else {
                        try carrier.send(message, now: now)
                    }
                }
            } catch {
                tell(.failed(message.id, error.description))
            }
        case .packet(let packet, let peer):
            // It may speak before this thread has heard that it is there.
            if address(of: peer) == nil { followNeighbours() }
            guard let address = address(of: peer) else { return }
            settings.log.trace("carrier \(address) says: \(packet.summary)")
            change { carrier, now in carrier.receive(packet, from: address, now: now) }
        case .neighboursChanged: followNeighbours()
        }
    }

    private func address(of peer: PeerID) -> EndpointID? {
        state.withLock { state in state.neighbours.first { $0.value == peer }?.key }
    }

    private func followNeighbours() {
        let present = mesh.read { $0.bundleNeighbours }.map { neighbour in
            (address: EndpointID(of: neighbour.signingKey), neighbour: neighbour)
        }
        let known = state.withLock { $0.neighbours }
        for (address, _) in known where !present.contains(where: { $0.address == address }) {
            state.withLock { $0.neighbours[address] = nil }
            change { carrier, now in carrier.neighbourDown(address, now: now) }
        }
        for (address, neighbour) in present where known[address] == nil {
            state.withLock { $0.neighbours[address] = neighbour.id }
            // A stream loses nothing while it stands, but what was written last may be lost with it, or with the process at its other
            // end: only a receipt says that a message is kept.
            let link = BundleLink(isRadio: neighbour.isRadio || !neighbour.isDirect, isReliable: false)
            change { carrier, now in carrier.neighbourUp(address, link: link, now: now) }
            tell(.neighbourAppeared(neighbour.id))
        }
    }

    private func change<Failure: Error>(
        _ body: (inout BundleRouter, Moment) throws(Failure) -> Void
    ) throws(Failure) {
        let now = Moment(monotonic: settings.clock(), wall: settings.wallClock())
        let actions = try state.update { (state) throws(Failure) in
            try body(&state.carrier, now)
            return state.carrier.drainReactions()
        }
        for action in actions { perform(action) }
    }

    // MARK: What the carrier wants

    private func perform(_ action: BundleReaction) {
        do throws(StorageError) {
            switch action {
            case .store(let kept):
                settings.log.trace(
                    "carried message \(kept.id): kept, from \(kept.previousNode?.hex ?? "here"), hop \(kept.copy.hopCount)")
                try store.insert(
                    StoredMessage(
                        id: kept.id, copy: kept.copy.encoded, depositor: kept.previousNode, expiry: kept.copy.bundle.expiry,
                        forwards: kept.forwardCount))
            case .delete(let ids):
                settings.log.trace("carried messages done with: \(ids)")
                try store.remove(ids)
            case .recordDelivery(let id, let until):
                settings.log.trace("carried message \(id): delivered here")
                try store.remember(id, until: until)
            case .forward(let id, let address, let hops, let way, let carriers):
                guard let bytes = try store.copy(of: id), var copy = try? BundleCopy(decoding: bytes[...]) else { return }
                try store.countForward(of: id)
                (copy.hopCount, copy.forwarding, copy.visitedTags) = (hops, way, carriers)
                settings.log.trace("carried message \(id): handed to \(address) as hop \(hops), \(way)")
                send(.copy(copy), to: address, inSession: copy.bundle.requiresSession)
            case .send(let packet, let address):
                settings.log.trace("carrier \(address) is told: \(packet.summary)")
                send(packet, to: address)
            case .emit(let event): tell(event)
            }
        } catch {
            settings.log.error("\(error)")
        }
    }

    private func send(_ packet: BundlePacket, to address: EndpointID, inSession: Bool = false) {
        guard let peer = state.withLock({ $0.neighbours[address] }) else { return }
        mesh.update { router, now in
            if inSession {
                router.sendSealedBundlePacket(packet.encoded, to: peer, now: now)
            } else {
                router.sendBundlePacket(packet.encoded, to: peer, now: now)
            }
        }
    }

    private func tell(_ event: BundleEvent) {
        switch event {
        case .sent(let id): tell(BundleDriverEvent.sent(id))
        case .delivered(let id): tell(BundleDriverEvent.delivered(id))
        case .expired(let id): tell(BundleDriverEvent.failed(id, "nobody has acknowledged it in its time"))
        case .received(let message):
            // Whom the person has blocked is not heard, whoever carries for them.
            if let peer = message.sealedBy, settings.trustStatus(peer, nil).isBlocked { return }
            guard let content = try? BundleContent(decoding: message.content[...]) else { return }
            tell(BundleDriverEvent.received(ReceivedMeshMessage(message, content)))
        case .clockDiffers(let difference):
            settings.log.error(
                "a carried message comes from \(difference.components.seconds) s ahead; its sender's clock is wrong, or this one's"
            )
        }
    }

    private func tell(_ event: BundleDriverEvent) {
        observe(event)
        listeners.publish(event)
    }

    private static let maximumInputCount = 4_096
}

/// What becomes of a message.
package enum BundleDriverEvent: Sendable, Hashable {
    /// A carrier, or the receiver, has taken it.
    case sent(BundleID)
    /// The receiver has acknowledged it.
    case delivered(BundleID)
    /// It won't be delivered; the text says why.
    case failed(BundleID, String)
    /// A message for us, or for everybody.
    case received(ReceivedMeshMessage)
    /// Messages can be sent to a peer directly now.
    case neighbourAppeared(PeerID)
}

/// A message for us, or for everybody.
package struct ReceivedMeshMessage: Sendable, Hashable {
    /// The same at every receiver.
    package var id: BundleID
    /// What its sender's program said.
    package var content: BundleContent
    /// Whose key sealed it; nil for what was not sealed.
    package var sender: AuthenticatedPeer?
    /// Whose key signed it: the sender's, unless it was made for this message.
    package var signer: EndpointID
    /// It was meant for all who are reached.
    package var isForEverybody: Bool
    /// When its sender wrote it, by the sender's clock.
    package var created: WallTime
    /// How often it was handed on.
    package var hops: Int

    init(_ message: DeliveredBundle, _ content: BundleContent) {
        id = message.id
        self.content = content
        sender = message.sealedBy
        signer = EndpointID(of: message.signingKey)
        isForEverybody = message.isForEveryone
        created = message.created
        hops = message.hopCount
    }
}

extension PropagationProfile {
    /// To a neighbour and no further, and only while he is there.
    fileprivate static let direct = try! PropagationProfile(
        hopLimit: 1, timeToLive: 60, sharingTime: 15_000, maximumPropagation: 10, tracklistLimit: 0)
}

extension BundlePacket {
    /// For logs: no content.
    fileprivate var summary: String {
        switch self {
        case .copy(let copy): "message \(copy.bundle.id), hop \(copy.hopCount), \(copy.forwarding)"
        case .report(let report):
            "root \(report.position.root), epoch \(report.position.epoch), distance \(report.position.distance)"
                + (report.summary == nil ? "" : ", what is here") + (report.reachability == nil ? "" : ", who is reached")
        case .receipt(let ids): "\(ids.count) have come"
        }
    }
}
