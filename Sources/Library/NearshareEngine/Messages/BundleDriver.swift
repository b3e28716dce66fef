internal import Logging
package import NearshareBase
package import NearshareBundles
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Sends, receives and forwards bundles as long as the node runs. Created by
/// ``MeshDriver/startBundles(profile:store:observing:)``.
///
///     send, packets, neighbours ──► BundleMachine ──► reactions ──► BundlePerformer ──► events, store, mesh
///
/// Inputs go to the machine on the caller's thread. One thread performs its reactions, because the store blocks. It takes all
/// that are waiting at once, so that their changes of the store share a transaction.
package final class BundleDriver: Sendable {
    private unowned let mesh: MeshDriver
    private let settings: NodeSettings
    private let store: any BundleStore
    private let observe: @Sendable (BundleDriverEvent) -> Void
    private let subscribers = Broadcast<BundleDriverEvent>()
    private let driver: MachineDriver<BundleMachine>
    let contacts: ContactEndpoints
    private let creationClock = Mutex(CreationClock())
    /// The latest decisions about bundles, for diagnosis.
    let trace: BundleTrace
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
        trace = BundleTrace(wallClock: settings.wallClock)
        var routerSettings = BundleRouterSettings()
        routerSettings.profile = profile
        let contacts = ContactEndpoints(settings.contacts())
        self.contacts = contacts
        routerSettings.isContact = { contacts.contains($0) }
        routerSettings.isBlocked = { settings.trustStatus($0, nil).isBlocked }
        let now = settings.moment()
        var router = BundleRouter(
            keys: RouterKeys(settings.identity), settings: routerSettings, random: KernelRandom(draw: settings.random),
            now: now)
        try router.restore(from: store, now: now)
        driver = MachineDriver(BundleMachine(router), clock: settings.moment)
    }

    /// Sets the user's contacts, whose bundles are the last to be evicted.
    func setContacts(_ keys: [PeerID: SigningPublicKey]) { contacts.set(keys) }

    // MARK: Sending

    /// Sends a message. Its progress follows among ``events()``.
    /// - Parameters:
    ///   - receiver: nil for a broadcast.
    ///   - isPrivate: forwarding nodes learn neither the sender nor the receiver.
    ///   - profile: nil for the node's own.
    package func send(
        _ content: StructuredValue, mode: MessageMode, to receiver: EndpointKeys? = nil, isEncrypted: Bool,
        isPrivate: Bool = false, profile: PropagationProfile? = nil
    ) throws(MessageError) -> BundleID {
        let request = MessageRequest(
            .structured(content), mode: mode, hasReceiver: receiver != nil, isEncrypted: isEncrypted, isPrivate: isPrivate)
        let prepared = try prepare(request, to: receiver, profile: profile)
        submit(prepared)
        return prepared.id
    }

    func prepare(
        _ request: MessageRequest, to receiver: EndpointKeys?, profile: PropagationProfile? = nil
    ) throws(MessageError) -> PreparedBundle {
        let address = receiver?.address
        let (isInRange, needsRadio) = driver.read { machine in
            (receiver.map { machine.isInRange($0) } ?? false, machine.router.needsRadio(to: address))
        }
        let encoded = try request.validatedEncoding(needsRadio: needsRadio)
        let isDirect = request.mode == .direct || (request.mode == .full && isInRange)
        guard request.mode != .direct || isInRange else { throw .receiverNotInRange }
        var random = KernelRandom(draw: settings.random)
        let bundle = OutgoingBundle(
            // A direct bundle is sealed by the session, which has forward secrecy. Only its destination sees it, so it need not
            // be private, and its single hop leaves none to search for an unnamed destination.
            encoded, from: RouterKeys(settings.identity), to: receiver, isSealed: request.isEncrypted && !isDirect,
            isPrivate: request.isPrivate && !isDirect, profile: isDirect ? .direct : (profile ?? self.profile),
            created: creationClock.withLock { $0.next(at: settings.wallClock()) }, random: &random)
        return PreparedBundle(bundle: bundle, neighbour: isDirect ? address : nil)
    }

    func submit(_ prepared: PreparedBundle) {
        driver.update { machine, now in machine.send(prepared, now: now) }
    }

    /// Replaces a stored bundle of this node by the same one with the present time of creation. Blocks.
    /// - Returns: the id of the new bundle; nil for a bundle with a sealed part, which stays, and where none is stored.
    func redate(_ id: BundleID) throws(StorageError) -> BundleID? {
        guard let bytes = try store.copy(of: id), let copy = try? BundleCopy(decoding: bytes[...]) else { return nil }
        let created = creationClock.withLock { $0.next(at: settings.wallClock()) }
        return driver.update { machine, now in machine.redate(copy, created: created, now: now) }
    }

    /// Deletes a bundle of this node that another one replaces. Its progress is not reported any more.
    func discard(_ id: BundleID) {
        driver.update { machine, now in machine.discard(id, now: now) }
    }

    // MARK: State

    /// The progress of bundles from now on, until the node stops.
    package func events() -> AsyncStream<BundleDriverEvent> { subscribers.subscribe() }

    /// Whether a bundle is still stored. Blocks.
    func isStored(_ id: BundleID) throws(StorageError) -> Bool { try store.contains(id) }

    /// Whether a stored bundle reaches its receiver only while that one is in range.
    func isDirect(_ id: BundleID) -> Bool { driver.read { $0.router.isDirect(id) } }

    /// The endpoint to which a stored bundle is addressed; nil for one to everyone, and for one that is not stored.
    func destination(of id: BundleID) -> EndpointID? { driver.read { $0.router.destination(of: id) } }

    /// The keys that a peer has announced in the mesh, which may belong to another peer; nil for one that is not known.
    package func announcedKeys(of id: PeerID) -> EndpointKeys? {
        mesh.read { $0.keys(of: id) }.map { EndpointKeys(agreementKey: $0.agreementKey, signingKey: $0.signingKey) }
    }

    /// Stored bundles, this node's own and others'.
    package var bundleCount: Int { driver.read { $0.router.bundleCount } }

    // MARK: Inputs from the mesh

    func receive(_ packet: BundlePacket, from peer: PeerID) {
        // The packet may arrive before the change of neighbours.
        if !driver.read({ $0.isNeighbour(peer) }) { updateNeighbours() }
        settings.log.trace("from \(peer): \(packet.summary)")
        driver.update { machine, now in machine.receive(packet, from: peer, now: now) }
    }

    /// Passes the present neighbours to the machine.
    func updateNeighbours() {
        driver.update { machine, now in
            // Read under the lock, so that an older list never replaces a newer one.
            machine.setNeighbours(mesh.read { $0.bundleNeighbours }, now: now)
        }
    }

    func stop() {
        driver.update { machine, _ in machine.stop() }
    }

    /// Ends a driver whose thread could not be started.
    func finishWithoutThread() {
        stop()
        subscribers.finish()
    }

    // MARK: The thread

    /// Performs reactions until ``stop()``, and until all before it are performed.
    func run() {
        var performer = BundlePerformer(
            store: store, log: settings.log, record: { [trace] in trace.record($0, $1) },
            emit: { if let event = self.translate($0) { self.publish(event) } },
            send: { self.transmit($0, to: $1, inSession: $2) })
        driver.run { reactions in
            for reaction in reactions {
                switch reaction {
                case .neighbourAppeared(let peer): publish(.neighbourAppeared(peer))
                case .rejected(let id, let reason): publish(.failed(id, reason.description))
                case .perform: break
                }
            }
            performer.perform(reactions.compactMap { if case .perform(let reaction) = $0 { reaction } else { nil } })
        }
        subscribers.finish()
    }

    // MARK: Outputs

    private func transmit(_ packet: BundlePacket, to endpoint: EndpointID, inSession: Bool) {
        guard let peer = driver.read({ $0.peer(endpoint) }) else { return }
        mesh.update { router, now in
            if inSession {
                router.sendSealedBundlePacket(packet.encoded, to: peer, now: now)
            } else {
                router.sendBundlePacket(packet.encoded, to: peer, now: now)
            }
        }
    }

    /// The driver's event for one of the machine; nil for content that is malformed, and for a warning, which is logged.
    private func translate(_ event: BundleEvent) -> BundleDriverEvent? {
        switch event {
        case .sent(let id): return .sent(id)
        case .delivered(let id): return .delivered(id)
        case .expired(let id): return .failed(id, "not acknowledged within its time to live")
        case .received(let delivered):
            do throws(MalformedInput) {
                return .received(ReceivedMeshMessage(delivered, try BundleContent(decoding: delivered.content[...])))
            } catch {
                trace.record(delivered.id, .unreadable(error))
                settings.log.debug("message \(delivered.id): its content is not readable: \(error)")
                return nil
            }
        case .createdAhead(let ids): return .createdAhead(ids)
        case .clockDiffers(let sender, let lead):
            // Any key can sign such a bundle, so this is only a warning.
            settings.log.warning(
                """
                a message of \(name(of: sender)) was created \(lead.components.seconds) s in the future; the sender's clock or \
                this one is wrong
                """)
            return nil
        }
    }

    /// The signer of a bundle for display: by name where a peer in the mesh has proven the key or announces it, by id where it is a
    /// contact's.
    private func name(of signer: EndpointID) -> String {
        let peers = mesh.read { router in
            router.announcedPeers.filter { peer in router.keys(of: peer.id).map { EndpointID(of: $0.signingKey) } == signer }
        }
        if let peer = peers.first(where: { peer in mesh.read { $0.hasProvenSigningKey(peer.id) } }) {
            return peer.name.identified(by: peer.id)
        }
        if let contact = contacts.id(of: signer) { return contact.hex }
        // Any peer can announce a key of its own beside another's id (K2).
        guard let peer = peers.first else { return "the unknown key \(signer.hex)" }
        return "\(peer.name.identified(by: peer.id)), by its announcement alone,"
    }

    private func publish(_ event: BundleDriverEvent) {
        observe(event)
        subscribers.publish(event)
    }
}

/// The endpoints of the user's contacts.
final class ContactEndpoints: Sendable {
    private let ids: Mutex<[EndpointID: PeerID]>

    init(_ keys: [PeerID: SigningPublicKey]) {
        ids = Mutex(Self.idsByEndpoint(keys))
    }

    func contains(_ endpoint: EndpointID) -> Bool { id(of: endpoint) != nil }

    /// The contact behind an endpoint; nil for none.
    func id(of endpoint: EndpointID) -> PeerID? { ids.withLock { $0[endpoint] } }

    func set(_ keys: [PeerID: SigningPublicKey]) {
        let present = Self.idsByEndpoint(keys)
        ids.withLock { $0 = present }
    }

    private static func idsByEndpoint(_ keys: [PeerID: SigningPublicKey]) -> [EndpointID: PeerID] {
        Dictionary(keys.map { (EndpointID(of: $0.value), $0.key) }) { first, _ in first }
    }
}

extension PropagationProfile {
    /// To a neighbour and no further, and only while it is in range.
    // Safe: all values are within their bounds.
    fileprivate static let direct = try! PropagationProfile(
        hopLimit: 1, timeToLiveSeconds: 60, sharingTimeMilliseconds: 15_000, maximumPropagation: 10, tracklistLimit: 0)
}
