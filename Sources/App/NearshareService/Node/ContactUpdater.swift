internal import Nearshare
internal import NearshareMesh
internal import Synchronization

/// Changes the stored contacts of a node: on request of commands, and when peers in range change.
final class ContactUpdater: Sendable {
    private let directory: ContactDirectory
    private let messenger: Messenger
    private let events: ControlEvents
    private let ownID: PeerID
    private let changes = ChangeCollector<PeerID>(clock: SystemClock.monotonic)
    private let postponedKeys = Mutex(PostponedKeys())
    private let keyWrites = KeyWriteLimit()
    /// When the latest change of each peer's favourites was recorded.
    private let favoriteChanges = Mutex<[PeerID: MonotonicInstant]>([:])

    /// Timeout of proving and verifying a key: a peer appears shortly before it can be reached.
    private static let proofTimeout = Duration.seconds(3)
    /// Shortest interval between two recorded changes of a peer's favourites (M12).
    private static let favoriteInterval = Duration.seconds(60)

    init(_ directory: ContactDirectory, _ messenger: Messenger, _ events: ControlEvents, ownID: PeerID) {
        (self.directory, self.messenger, self.events, self.ownID) = (directory, messenger, events, ownID)
    }

    // MARK: Peers in range

    /// Records that a peer appeared, changed or left.
    func recordChange(of id: PeerID) { changes.insert(id) }

    /// Ends ``run()`` after the changes that wait.
    func finish() { changes.finish() }

    /// Stores the keys of peers that change, and publishes the contacts, until ``finish()``.
    func run() async { await changes.run { await self.handleChanges($0) } }

    // Not optimized: the optimizer of Swift 6.3.1 crashes on it.
    @_optimize(none)
    private func handleChanges(_ ids: Set<PeerID>) async {
        do {
            try storeAnnouncedKeys(of: ids)
            events.publish(.contacts(try await directory.listed()))
        } catch {
            events.publish(.notice("\(error)"))
        }
    }

    /// Stores the keys of peers in range. Announced keys are free, so a flood of them must not replace the file each time (R14).
    private func storeAnnouncedKeys(of ids: Set<PeerID>) throws {
        // Only ``run()`` changes the postponed keys, so none are lost between the two locks.
        var postponed = postponedKeys.withLock { $0 }
        postponed.add(ids) { directory.hasAnnouncedKeys($0) }
        // Before the file is written, which may fail.
        postponedKeys.withLock { $0 = postponed }
        guard try directory.storeAnnouncedKeys(of: postponed.owners, ifAllowed: { keyWrites.admit() }) else { return }
        postponedKeys.withLock { $0.removeAll() }
    }

    /// Records and publishes that a known peer's user has made the local user a favourite, or no longer has: at most once per peer
    /// and minute.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on it.
    @_optimize(none)
    func recordFavorite(_ isFavorite: Bool, by peer: AuthenticatedPeer) async {
        do {
            let changed = try directory.recordFavorite(isFavorite, of: peer) { admitFavoriteChange(of: peer.id) }
            guard let changed else { return }
            let shown = SharedName.shown(changed.name, of: peer.id, among: try await directory.listed())
            events.publish(
                .notice("\(shown) \(isFavorite ? "has made you a favourite" : "no longer has you as a favourite")"))
        } catch {
            events.publish(.notice("\(error)"))
        }
    }

    private func admitFavoriteChange(of peer: PeerID) -> Bool {
        let now = SystemClock.monotonic()
        return favoriteChanges.withLock { changes in
            changes = changes.filter { now - $0.value < Self.favoriteInterval }
            guard changes[peer] == nil else { return false }
            changes[peer] = now
            return true
        }
    }

    // MARK: Trust

    /// Makes a peer a friend, or revokes that. A peer that is not known yet has to prove its key first.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    func setFriend(_ id: PeerID, to isFriend: Bool) async throws -> Contact {
        let snapshot = try directory.snapshot()
        let contact = try Self.requireKey(snapshot.contact(id))
        let known = snapshot.fingerprint(of: id)
        if !isFriend, known.map({ snapshot.trust[$0]?.isFriend == true }) != true {
            throw ControlFailure(.refused, "\(contact.name.identified(by: id)) is not a friend")
        }
        if known == nil {
            guard let peer = await messenger.authenticatedPeer(id, timeout: Self.proofTimeout) else {
                let reason =
                    contact.isNear
                    ? "and answers no handshake now; try again later" : "and is not in range; try again when it is"
                throw ControlFailure(
                    .peerNotFound, "\(contact.name.shown) has not proven its key, as a friend must, \(reason)")
            }
            try directory.recordContact(with: peer, named: contact.name)
        }
        guard try directory.setFriend(id, to: isFriend) else { throw Self.addressBookFull }
        return try await publishChange(of: id)
    }

    /// Blocks a peer by the key that it has announced. No proof of the key is required: a peer could escape by withholding the proof.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    func block(_ id: PeerID) async throws -> Contact {
        let snapshot = try directory.snapshot()
        let contact = try Self.requireKey(snapshot.contact(id))
        guard let fingerprint = snapshot.announcedFingerprint(of: id) else {
            throw ControlFailure(
                .peerNotFound,
                "the key of \(contact.name.shown) is not known to this machine; try again when the peer is in range")
        }
        guard try directory.block(fingerprint, named: contact.name) else { throw Self.addressBookFull }
        return try await publishChange(of: id)
    }

    /// - Parameter name: the id, the name, or the beginning of the name of a blocked peer.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    func unblock(_ name: String) async throws -> Contact {
        guard let key = try directory.snapshot().blockedPeer(named: name) else {
            if let contact = try? await directory.knownContact(name) {
                throw ControlFailure(.refused, "\(contact.name.identified(by: contact.id)) is not blocked")
            }
            throw ControlFailure(
                .peerNotFound,
                "no blocked peer has the name or id \(TerminalText.escaped(name, columns: 40)); `nearshare peers` lists all")
        }
        try directory.unblock(key.fingerprint)
        return try await publishChange(of: key.id)
    }

    /// - Throws: ``ControlFailure`` for a peer without a key.
    private static func requireKey(_ contact: Contact) throws(ControlFailure) -> Contact {
        guard contact.software != .blueChat else {
            throw ControlFailure(
                .refused, "\(contact.name.shown) has no key: every peer that uses its address counts as the same one")
        }
        return contact
    }

    private static var addressBookFull: ControlFailure {
        ControlFailure(.storage, ErrorMessage.addressBookFull)
    }

    private func publishChange(of id: PeerID) async throws -> Contact {
        events.publish(.contacts(try await directory.listed()))
        return try directory.snapshot().contact(id)
    }

    /// Verifies the peer of a verification link that the user has received: the peer proves that it holds the keys of the link.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    func verify(_ link: String) async throws -> Contact {
        let code: MeshVerificationCode
        do throws(MalformedInput) {
            code = try MeshVerificationCode.decode(address: link, now: SystemClock.wall())
        } catch {
            throw ControlFailure(.refused, error.description)
        }
        guard let key = code.agreementKey else { throw ControlFailure(.refused, "the link has no valid key") }
        let id = Fingerprint(of: key).peerID
        guard id != ownID else { throw ControlFailure(.refused, "this is the link of this machine; paste the peer's") }
        let contact = try directory.snapshot().contact(id)
        guard !contact.trustStatus.isBlocked else { throw ControlFailure.blocked(contact) }
        let peer = try await messenger.find(id.hex, timeout: Self.proofTimeout)
        guard let proven = await messenger.verify(code) else {
            throw ControlFailure(
                .unavailable, "\(peer.name.shown) has not proven that it holds the keys of the link; ask for a new one")
        }
        guard try directory.recordVerification(of: proven, named: peer.name) else {
            let latest = try directory.snapshot().contact(id)
            throw latest.trustStatus.isBlocked ? ControlFailure.blocked(latest) : Self.addressBookFull
        }
        return try await publishChange(of: id)
    }
}
