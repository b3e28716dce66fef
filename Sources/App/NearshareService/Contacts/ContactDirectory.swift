package import Nearshare

/// The user's contacts: the files of this machine together with the peers that a messenger has in range.
package struct ContactDirectory: Sendable {
    private let machine: LocalMachine
    /// nil where no node runs in this process.
    private let messenger: Messenger?
    private let settlingTime: Duration

    /// Time for other peers with the same name to appear after the first one: a node that has just started connects to the peers
    /// nearby one after the other.
    static let defaultSettlingTime = Duration.seconds(1)
    /// Delay before BlueChat peers are considered, because their names are not authenticated.
    private static let blueChatDelay = Duration.seconds(2)

    package init(_ machine: LocalMachine, messenger: Messenger? = nil) {
        self.init(machine, messenger: messenger, settlingTime: Self.defaultSettlingTime)
    }

    /// - Parameter settlingTime: the time for other peers to appear that have the name of an unknown one.
    init(_ machine: LocalMachine, messenger: Messenger?, settlingTime: Duration) {
        self.machine = machine
        self.messenger = messenger
        self.settlingTime = settlingTime
    }

    /// The current contacts. Reads the files once.
    /// - Parameter names: the names that peers have claimed in conversations.
    package func snapshot(names: [PeerID: DisplayName] = [:]) throws(StorageError) -> ContactSnapshot {
        ContactSnapshot(
            trust: try machine.trust.read(), addressBook: try machine.contacts.read(),
            presence: messenger.map { ContactSnapshot.Presence(of: $0) } ?? ContactSnapshot.Presence(), conversationNames: names
        )
    }

    /// The address at which a peer has last proven its key; nil for one that was never reached on the network.
    func lastAddress(of id: PeerID) -> LinkAddress? { machine.lastAddress(of: id) }

    /// The contacts of a list, see ``ContactSnapshot/listed(with:)``.
    package func listed() async throws -> [Contact] {
        let conversations = try await conversations()
        return try snapshot(names: conversations.names).listed(with: conversations.ids)
    }

    /// The peers of conversations, and the names that they have claimed in them last.
    private func conversations() async throws -> (ids: [PeerID], names: [PeerID: DisplayName]) {
        var (ids, names): ([PeerID], [PeerID: DisplayName]) = ([], [:])
        for summary in try await messenger?.conversations() ?? [] {
            guard case .peer(let id) = summary.conversation else { continue }
            ids.append(id)
            names[id] = summary.peerName
        }
        return (ids, names)
    }

    /// Waits until a peer that `text` selects is known or in range. A peer that the user does not know counts only when other peers
    /// with its name have had time to appear.
    ///
    /// ``PeerSearch`` reads announcements until the timeout of each medium. This function searches the files, the conversations and
    /// the mesh of this node, again at each event of its messenger. It finds a contact that is away at once: messages to it wait.
    /// - Throws: ``NodeError/notFound(_:nearby:)`` at the timeout, ``ControlFailure`` when the text is empty or ambiguous.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on this function.
    @_optimize(none)
    package func find(_ text: String, timeout: Duration) async throws -> Contact {
        if text.allSatisfy(\.isWhitespace) { throw ControlFailure(.refused, "the name of the peer is empty") }
        let text = try wholeID(of: text)
        if let known = try await knownContact(text) { return try await settled(known, selectedBy: text, timeout: timeout) }
        guard let messenger else { throw NodeError.notFound(text, nearby: []) }
        let device = machine.localSendDevice(named: text)
        do {
            let found = try await search(
                text, messenger, timeout: device == nil ? timeout : min(timeout, NamedLocalSendDevice.lookupTimeout))
            return try await settled(found, selectedBy: text, timeout: timeout)
        } catch NodeError.ambiguous(let text, let peers) {
            // The peers of the error include blocked ones, which make no name ambiguous.
            if let known = try await knownContact(text) { return try await settled(known, selectedBy: text, timeout: timeout) }
            throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, try snapshot().contacts(peers.map(\.id))))
        } catch NodeError.notFound(let text, let nearby) {
            // A final check: a short timeout does not wait for BlueChat.
            if let contact = try snapshot().blueChatPeer(named: text) { return contact }
            if let device { throw device.refusal }
            throw NodeError.notFound(text, nearby: nearby)
        }
    }

    /// Waits until other peers that the text may mean have had time to appear, unless the user knows the selected one: to be
    /// connected first is no reason why a peer is meant (K2).
    /// - Throws: ``ControlFailure`` when the text then selects several peers.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such loops.
    @_optimize(none)
    private func settled(_ contact: Contact, selectedBy text: String, timeout: Duration) async throws -> Contact {
        let trust = try machine.trust.read()
        let isKnown = trust.isContact(claiming: contact.id)
        guard let messenger, !isKnown, PeerID(hex: text) != contact.id, contact.software != .blueChat else { return contact }
        let changes = messenger.events()
        let _: Void? = try await withTimeout(min(timeout, settlingTime)) { () async throws -> Void in
            _ = try await self.knownContact(text)
            for await case .peerChanged in changes { _ = try await self.knownContact(text) }
        }
        try Task.checkCancellation()
        return try await knownContact(text) ?? contact
    }

    private func search(_ text: String, _ messenger: Messenger, timeout: Duration) async throws -> Contact {
        // Nothing but an event of the messenger makes a contact appear.
        let changes = messenger.events()
        return try await firstResult(
            of: {
                let listed = try self.snapshot().trust.peersListed(as: text)
                let peer = try await messenger.find(text, knownAs: listed, timeout: timeout)
                let snapshot = try self.snapshot()
                let contact = snapshot.contact(peer.id)
                try snapshot.requireUnambiguous(contact, selectedBy: text)
                return contact
            },
            { try await self.contact(named: text, after: changes, timeout: timeout) })
    }

    /// Waits until an event of the messenger makes a contact appear.
    /// - Throws: `CancellationError` when the messenger has stopped, or when the other search has an answer.
    private func contact(
        named text: String, after changes: AsyncStream<MessengerEvent>, timeout: Duration
    ) async throws -> Contact {
        // A BlueChat peer counts only if no other peer with this name has appeared in the meantime.
        let isBlueChatAllowed = timeout > Self.blueChatDelay
        if isBlueChatAllowed {
            try await Task.sleep(for: Self.blueChatDelay)
            if let contact = try snapshot().blueChatPeer(named: text) { return contact }
        }
        return try await contact(named: text, after: changes, withBlueChat: isBlueChatAllowed)
    }

    // Not optimized: the optimizer of Swift 6.3.1 crashes on this function.
    @_optimize(none)
    private func contact(
        named text: String, after changes: AsyncStream<MessengerEvent>, withBlueChat: Bool
    ) async throws -> Contact {
        for await case .peerChanged in changes {
            if let contact = try await knownContact(text) { return contact }
            if withBlueChat, let contact = try snapshot().blueChatPeer(named: text) { return contact }
        }
        throw CancellationError()
    }

    /// The contact that a text selects without waiting, see ``ContactSnapshot/contact(named:with:)``.
    package func knownContact(_ text: String) async throws -> Contact? {
        let text = try wholeID(of: text)
        let conversations = try await conversations()
        return try snapshot(names: conversations.names).contact(named: text, with: conversations.ids)
    }

    /// The whole id of the known peer that a text means by the beginning of its id; any other text as it is.
    /// - Throws: ``ControlFailure`` when several known peers' ids begin so.
    package func wholeID(of text: String) throws -> String {
        let peers = try machine.trust.read().peers(withIDPrefix: text)
        guard peers.count < 2 else { throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, peers)) }
        return peers.first?.id.hex ?? text
    }

    /// Records that a peer has proven the keys of the verification link that the user has received.
    /// - Returns: false when the peer is blocked, or the trust store is full.
    func recordVerification(of peer: AuthenticatedPeer, named name: DisplayName) throws(StorageError) -> Bool {
        try machine.trust.update { $0.recordVerification(of: peer, named: name, at: SystemClock.wall()) }
    }

    /// Stores the key of a peer to which the user has sent something over the mesh, if a session has proven the key: from then on,
    /// another key under the peer's name is noticed (K2).
    func recordReceiver(_ id: PeerID) async {
        guard let peer = await messenger?.authenticatedPeer(id, timeout: .zero), let snapshot = try? snapshot(),
            snapshot.trust[peer.fingerprint] == nil
        else { return }
        let contact = snapshot.contact(id)
        if case .nameClash = contact.trustStatus { return }
        // The file has arrived; without the entry only the warning about another key is missing.
        try? recordContact(with: peer, named: contact.name)
    }

    /// Records a contact with a peer that has proven its key, and pins the key.
    func recordContact(with peer: AuthenticatedPeer, named name: DisplayName) throws(StorageError) {
        try machine.trust.update { $0.recordContact(with: peer, named: name, at: SystemClock.wall()) }
    }

    /// Makes a known peer a friend, or no longer one.
    /// - Returns: false when the peer is not known.
    func setFriend(_ id: PeerID, to isFriend: Bool) throws(StorageError) -> Bool {
        try machine.trust.update { trust in
            trust.entry(claiming: id).map { trust.setFriend($0.fingerprint, to: isFriend) } ?? false
        }
    }

    /// Blocks a key, which may be unknown so far.
    /// - Returns: false when the trust store is full.
    func block(_ fingerprint: Fingerprint, named name: DisplayName) throws(StorageError) -> Bool {
        try machine.trust.update { $0.block(fingerprint, named: name, at: SystemClock.wall()) }
    }

    /// Unblocks a key. Earlier trust in it is not restored.
    func unblock(_ fingerprint: Fingerprint) throws(StorageError) {
        try machine.trust.update { _ = $0.setBlocked(fingerprint, to: false) }
    }

    /// Records whether a peer's user has made the local user a favourite.
    /// - Parameter mayWrite: called before the file is replaced; false leaves it as it is.
    /// - Returns: nil when nothing has changed.
    func recordFavorite(
        _ isFavorite: Bool, of peer: AuthenticatedPeer, ifAllowed mayWrite: () -> Bool
    ) throws(StorageError) -> Contact? {
        guard let known = try machine.trust.read()[peer.fingerprint], known.favorsLocalUser != isFavorite, mayWrite() else {
            return nil
        }
        try machine.trust.update { _ = $0.setFavorsLocalUser(peer.fingerprint, to: isFavorite) }
        return try snapshot().contact(peer.id)
    }

    /// Whether a peer is in range and has announced keys that messages can be sealed for.
    func hasAnnouncedKeys(_ id: PeerID) -> Bool { messenger?.announcedKeys(of: id) != nil }

    /// Stores the keys of peers in range. Sessions with friends among them are started, so that their keys are proven.
    /// - Parameter mayWrite: called before the file is replaced where all changed keys are unproven.
    /// - Returns: false when `mayWrite` has forbidden the change.
    package func storeAnnouncedKeys(of ids: Set<PeerID>, ifAllowed mayWrite: () -> Bool) throws -> Bool {
        guard let messenger else { return true }
        let trust = try machine.trust.read()
        let isFriend: (Fingerprint) -> Bool = { trust.entries[$0]?.isFriend ?? false }
        let met = ids.compactMap { id in messenger.announcedKeys(of: id) }
        for peer in met where !peer.isProven && isFriend(peer.keys.fingerprint) {
            messenger.secure(peer.keys.fingerprint.peerID)
        }
        let now = SystemClock.wall()
        func record(in contacts: inout ContactBook) -> (isChanged: Bool, isProven: Bool) {
            var (isChanged, isProven) = (false, false)
            for peer in met {
                let isRecorded = contacts.storeAnnouncedKeys(
                    agreementKey: peer.keys.agreementKey, signingKey: peer.keys.signingKey, name: peer.name,
                    isProven: peer.isProven, isFriend: isFriend, at: now)
                isChanged = isChanged || isRecorded
                isProven = isProven || (isRecorded && peer.isProven)
            }
            return (isChanged, isProven)
        }
        // Checked on a copy first: most announcements change nothing, and a change locks and writes the file.
        var copy = try machine.contacts.read()
        let (isChanged, isProven) = record(in: &copy)
        guard isChanged else { return true }
        guard isProven || mayWrite() else { return false }
        try machine.contacts.update { _ = record(in: &$0) }
        return true
    }
}
