package import Nearshare
package import NearshareMesh

/// The user's address book and the peers in range, at one moment.
package struct ContactSnapshot: Sendable {
    /// The peers that are in range.
    package struct Presence: Sendable {
        package var meshPeers: [PeerID: MeshPeer] = [:]
        package var blueChatPeers: [PeerID: BlueChatPeer] = [:]
        /// Returns whether messages can be sealed for a peer.
        package var hasKeys: @Sendable (PeerID) -> Bool = { _ in false }

        package init() {}

        package init(of messenger: Messenger) {
            meshPeers = Dictionary(messenger.peers.map { ($0.id, $0) }) { first, _ in first }
            blueChatPeers = Dictionary(messenger.blueChatPeers.map { ($0.id, $0) }) { first, _ in first }
            hasKeys = { messenger.endpointKeys(of: $0) != nil }
        }

        package var ids: Set<PeerID> { Set(meshPeers.keys).union(blueChatPeers.keys) }
    }

    package let trust: TrustStore
    package let addressBook: ContactBook
    package let presence: Presence
    /// The names that peers have claimed in their latest messages.
    package let conversationNames: [PeerID: DisplayName]

    package init(
        trust: TrustStore, addressBook: ContactBook, presence: Presence = Presence(),
        conversationNames: [PeerID: DisplayName] = [:]
    ) {
        self.trust = trust
        self.addressBook = addressBook
        self.presence = presence
        self.conversationNames = conversationNames
    }

    /// Peers whose keys were imported or met.
    package var addressBookIDs: [PeerID] { addressBook.entries.keys.map(\.peerID) }
    /// Friends that messages can reach: LocalSend devices are left out.
    package var friendIDs: [PeerID] {
        trust.entries.filter { $0.value.isFriend && $0.value.certificate == nil }.keys.map(\.peerID)
    }

    package func contacts(_ ids: some Sequence<PeerID>) -> [Contact] { ids.map(contact) }

    package func contact(_ id: PeerID) -> Contact {
        if let peer = presence.blueChatPeers[id] {
            // Without a key there is nothing to trust or to block.
            return Contact(id: id, name: peer.name, trustStatus: .new, isNear: true, software: .blueChat, hasKeys: false)
        }
        let peer = presence.meshPeers[id]
        return Contact(
            id: id, name: knownName(of: id) ?? DisplayName(of: id), otherName: trust.entry(claiming: id)?.entry.otherName,
            trustStatus: announcedFingerprint(of: id).map { trust.trustStatus(of: $0, claiming: claimedName(of: id)) } ?? .new,
            isNear: peer?.isReachable ?? false,
            software: peer.map { $0.software == .nearshare ? .nearshare : .phone } ?? .unknown,
            hasKeys: presence.hasKeys(id), hops: peer?.hops, contentLimit: (peer?.contentLimit).map(UInt64.init))
    }

    /// The name by which a peer is judged: the one that it announces, or under which it is shown while it is out of range.
    private func claimedName(of id: PeerID) -> DisplayName? {
        if let name = announcedName(of: id) { return name }
        if let known = trust.entry(claiming: id)?.entry { return known.name }
        guard let entry = addressBook.entry(of: id) else { return conversationNames[id] }
        return entry.origin == .met ? entry.name : nil
    }

    /// The name that a peer in the mesh announces. The last announcement of a known peer that has left does not count: it may have
    /// been the name of another peer, while the stored name is still this one's (K2).
    private func announcedName(of id: PeerID) -> DisplayName? {
        guard let peer = presence.meshPeers[id] else { return nil }
        return peer.isReachable || fingerprint(of: id) == nil ? peer.name : nil
    }

    /// The fingerprint of a known key; nil for one that was only announced.
    func fingerprint(of id: PeerID) -> Fingerprint? {
        trust.entry(claiming: id)?.fingerprint
    }

    /// The fingerprint of a key that is known, or was only announced.
    func announcedFingerprint(of id: PeerID) -> Fingerprint? {
        fingerprint(of: id) ?? presence.meshPeers[id]?.fingerprint ?? addressBook.entry(of: id)?.fingerprint
    }

    /// The name of a peer that is in range, in the trust book or in the address book, or that has written; nil for others.
    package func knownName(of id: PeerID) -> DisplayName? {
        if let peer = presence.blueChatPeers[id] { return peer.name }
        if let name = announcedName(of: id) { return trust.shownName(claiming: id, named: name) }
        return trust.entry(claiming: id)?.entry.name ?? addressBook.entry(of: id)?.name ?? conversationNames[id]
    }

    /// The contacts of a list: in range, friends and `conversations`; near ones first, then by name.
    package func listed(with conversations: [PeerID]) -> [Contact] {
        contacts(presence.ids.union(friendIDs).union(conversations)).filter { !$0.trustStatus.isBlocked }
            .map { (order: ($0.isNear ? 0 : 1, $0.name.claimed.lowercased(), $0.id), contact: $0) }
            .sorted { $0.order < $1.order }.map(\.contact)
    }

    /// The peer that a text selects among those in range, friends, imported keys and conversations. BlueChat peers are left
    /// out, because their names are not authenticated; see ``blueChatPeer(named:)``.
    /// - Returns: nil when no peer matches.
    /// - Throws: ``ControlFailure`` when several peers match.
    package func contact(named text: String, with conversations: [PeerID]) throws(ControlFailure) -> Contact? {
        let all = contacts(presence.ids.union(friendIDs).union(conversations).union(addressBookIDs))
        if let id = PeerID(hex: text), let contact = all.first(where: { $0.id == id }) { return contact }
        if let tag = TaggedName(text) {
            let shown = all.filter { $0.software != .blueChat && !$0.trustStatus.isBlocked }
            if shown.contains(where: { tag.matches($0.name, $0.id) }) { return try match(text, among: shown) }
        }
        // A newcomer that takes the name of a trusted peer, or its beginning, is not meant (K2).
        let trusted = trust.trustedPeers(named: text).filter { key in all.contains { $0.id == key.id } }
        // A blocked peer does not make another peer's name ambiguous.
        let candidates = all.filter { $0.software != .blueChat && !$0.trustStatus.isBlocked }
        if trusted.count == 1, let key = trusted.first {
            try trust.requireUnambiguous(key.name, key.id, selectedBy: text)
            let others = candidates.filter { $0.id != key.id && $0.name.claimed.lowercased() == text.lowercased() }
            if !others.isEmpty, !trust.isWholeName(text, of: key.name, key.id) {
                throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, [contact(key.id)] + others))
            }
            return contact(key.id)
        }
        let listed = trust.peersListed(as: text)
        let owned = candidates.filter { nameOwner(of: $0) == nil }
        let known = listed.count == 1 ? listed : []
        let found = try match(text, among: owned, knownAs: known)
        // A known peer with this whole name is waited for.
        if let found, !listed.isEmpty, !trust.isWholeName(text, of: found.name, found.id) { return nil }
        if let found, !trusted.isEmpty, !trusted.contains(where: { $0.id == found.id }) {
            throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, trusted))
        }
        if let found {
            try requireUnambiguous(found, selectedBy: text)
            // A peer that only a rule has accepted may have come first with the name (K2).
            let others = candidates.filter { $0.isNear && $0.id != found.id && SharedName.areEqual($0.name, found.name) }
            if !others.isEmpty, let known = fingerprint(of: found.id), !trust.isContact(known), PeerID(hex: text) == nil {
                throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, [found] + others))
            }
        } else if let other = try match(text, among: candidates, knownAs: known) {
            try requireUnambiguous(other, selectedBy: text)
        }
        return found
    }

    /// The other known peer to which the name of a contact belongs (K2); nil for none.
    private func nameOwner(of contact: Contact) -> Fingerprint? {
        guard let name = claimedName(of: contact.id) else { return nil }
        if let fingerprint = announcedFingerprint(of: contact.id) { return trust.otherOwner(of: name, claimedBy: fingerprint) }
        // The key of a peer that has only written is not known here.
        return trust.peersListed(as: name.claimed).compactMap { trust.entry(claiming: $0) }
            .first { $0.entry.trust != .blocked }?.fingerprint
    }

    /// Refuses a contact that uses the name of another known peer, and one with the beginning of such a name (K2).
    /// - Parameter text: by which the contact was found. An id means one peer, and so does a name with the tag of its key.
    func requireUnambiguous(_ contact: Contact, selectedBy text: String) throws(ControlFailure) {
        guard PeerID(hex: text) != contact.id, TaggedName(text)?.matches(contact.name, contact.id) != true else { return }
        if let owner = nameOwner(of: contact) { throw .nameClash(contact, ownedBy: owner, in: trust) }
        try trust.requireUnambiguous(contact.name, contact.id, selectedBy: text)
    }

    /// The BlueChat peer that a text selects.
    package func blueChatPeer(named text: String) throws(ControlFailure) -> Contact? {
        try match(text, among: contacts(presence.blueChatPeers.keys))
    }

    /// The peer that a text selects among all known peers, in range or not; nil when none or several match.
    package func remembered(_ text: String) -> Contact? {
        let known = contacts(trust.entries.keys.map(\.peerID))
        if let id = PeerID(hex: text) { return known.first { $0.id == id } }
        let all = known + contacts(presence.ids.subtracting(known.map(\.id)))
        guard case .one(let contact, _) = NameSelection(of: text, among: all, knownAs: trust.peersListed(as: text)) else {
            return nil
        }
        return contact
    }

    /// The blocked peer that a text selects: by the name in the list of known peers or the one that it claims now, or by its id or
    /// the beginning of it.
    /// - Returns: nil when no blocked peer matches.
    /// - Throws: ``ControlFailure`` when several match.
    func blockedPeer(named text: String) throws(ControlFailure) -> NamedKey? {
        let listed = trust.entries.filter { $0.value.trust == .blocked }
            .map { NamedKey(($0.key, $0.value)) }
        let renamed = listed.compactMap { key in
            presence.meshPeers[key.id].map { NamedKey(fingerprint: key.fingerprint, name: $0.name) }
        }
        if let key = try match(text, among: listed) { return key }
        if let key = try match(text, among: renamed) { return key }
        let found = trust.peers(withIDPrefix: text).filter { key in listed.contains { $0.fingerprint == key.fingerprint } }
        guard found.count < 2 else { throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, found)) }
        return found.first
    }

    private func match<Candidate: NamedPeer>(
        _ text: String, among candidates: [Candidate], knownAs ids: Set<PeerID> = []
    ) throws(ControlFailure) -> Candidate? {
        switch NameSelection(of: text, among: candidates, knownAs: ids) {
        case .none: return nil
        case .one(let candidate, _): return candidate
        case .several(let several): throw ControlFailure(.ambiguous, NameSelection.ambiguity(of: text, several))
        }
    }

    /// Whether a sender is blocked by the name that it claims, also an unauthenticated one: texts of a peer that claims a
    /// blocked identity are dropped.
    package func isBlocked(_ sender: ClaimedSender) -> Bool {
        switch sender {
        case .announced(let id): isBlocked(id)
        // Announced with a blocked key is enough: the owner of the signing key has signed the announcement.
        case .signing(let address):
            addressBook.entries.values.contains { isBlocked($0.id) && EndpointID(of: $0.signingKey) == address }
        }
    }

    private func isBlocked(_ id: PeerID) -> Bool { trust.entry(claiming: id)?.entry.trust == .blocked }

    /// The peer that sealed a message, or that signed a public one; nil when neither is certain.
    package func sender(of message: ReceivedBundle) -> PeerID? {
        message.sender ?? addressBook.signer(message.signer)?.id
    }
}

extension ContactBook {
    /// The owner of a signing key, where it is certain: any peer can announce a signing key of its own beside the agreement key
    /// of another one.
    fileprivate func signer(_ address: EndpointID) -> Entry? {
        entries.values.first {
            $0.areKeysProven && EndpointID(of: $0.signingKey) == address
        }
    }
}

extension DisplayName {
    /// The id as a name, for a peer without one.
    init(of id: PeerID) {
        // Safe: 16 hexadecimal digits are neither empty nor too long.
        self = DisplayName(truncating: id.hex)!
    }
}
