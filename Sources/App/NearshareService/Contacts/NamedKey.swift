package import Nearshare

/// A key of the user's files, and the name of its peer.
package struct NamedKey: Sendable, Hashable, NamedPeer {
    package let fingerprint: Fingerprint
    package let name: DisplayName
    package let otherName: DisplayName?
    package let trustLabel: String?

    package var id: PeerID { fingerprint.peerID }

    package init(
        fingerprint: Fingerprint, name: DisplayName, otherName: DisplayName? = nil, trustLabel: String? = nil
    ) {
        self.fingerprint = fingerprint
        self.name = name
        self.otherName = otherName
        self.trustLabel = trustLabel
    }

    init(_ known: (fingerprint: Fingerprint, entry: TrustStore.Entry)) {
        self.init(
            fingerprint: known.fingerprint, name: known.entry.name,
            otherName: known.entry.otherName,
            trustLabel: TrustStatus.known(known.entry.trust, isFriend: known.entry.isFriend).listText)
    }

    /// Whether a text selects the peer only by the name that it calls itself beside its local one, or by the beginning of that: another
    /// peer may have it (K2).
    func isSelectedByOtherName(_ text: String) -> Bool {
        let wanted = text.lowercased()
        return otherName?.claimed.lowercased().hasPrefix(wanted) == true && !name.claimed.lowercased().hasPrefix(wanted)
            && ![id.hex, fingerprint.hex].contains(wanted)
    }

    /// The key that a text selects: a fingerprint, an id, a name or the beginning of one.
    /// - Returns: nil when no key matches.
    /// - Throws: ``CommandFailure`` when several keys match.
    package static func find(_ text: String, among keys: [NamedKey]) throws(CommandFailure) -> NamedKey? {
        let wanted = text.lowercased()
        if let key = keys.first(where: { $0.fingerprint.hex == wanted }) { return key }
        switch NameSelection(of: text, among: keys) {
        case .none: return nil
        case .one(let key, _): return key
        case .several(let several):
            throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, several))
        }
    }
}

extension TrustStore.Entry {
    /// The name that the peer has claimed, where the user has given it another one; nil for the name of another peer.
    var otherName: DisplayName? { givenName == nil || isNameContested ? nil : claimedName }
}

extension TrustStore {
    /// The peers with a reserved name: friends, verified ones, and those to which the user has given a name. A new peer that
    /// claims such a name is not selected by it, nor by its beginning (K2).
    /// - Parameter text: a name, the beginning of one, or an id. The whole name of another peer that the user has decided about selects
    ///   no peer whose name only begins so.
    package func trustedPeers(named text: String) -> [NamedKey] {
        let trusted = peers(named: text) { $0.isTrusted || $0.givenName != nil }
        guard !trusted.contains(where: { isWholeName(text, of: $0.name, $0.id) }) else { return trusted }
        let isOwned = entries.contains { key, entry in
            entry.name.claimed.lowercased() == text.lowercased() && !entry.isNameContested
                && (isContact(key) || entry.trust == .blocked)
        }
        return isOwned ? [] : trusted
    }

    /// Whether a text is the whole name of a peer, also with a tag: the one that it has, or the one by which it is listed.
    func isWholeName(_ text: String, of name: DisplayName, _ id: PeerID) -> Bool {
        let wanted = text.lowercased()
        return name.claimed.lowercased() == wanted || TaggedName(text)?.matches(name, id) == true
            || entry(claiming: id)?.entry.name.claimed.lowercased() == wanted
    }

    /// Whether a text is the name by which a known peer is listed, also with a tag, and that name is no other peer's.
    func isStoredName(_ text: String, of id: PeerID) -> Bool {
        guard let entry = self.entry(claiming: id)?.entry, entry.givenName != nil || !entry.isNameContested else {
            return false
        }
        return entry.name.claimed.lowercased() == text.lowercased() || TaggedName(text)?.matches(entry.name, id) == true
    }

    /// Refuses a peer that was found by the beginning of its name, where other known peers have the text as their name, or names
    /// with this beginning: they may be away (K2). A peer that is not known is refused by its whole name, too, where the names of known
    /// ones begin so, and any peer whose name is the text where that is the tag of a blocked one.
    /// - Parameters:
    ///   - name: of the peer that was found.
    ///   - text: as the user typed it.
    package func requireUnambiguous(_ name: DisplayName, _ id: PeerID, selectedBy text: String) throws(ControlFailure) {
        let tag = TaggedName(text)
        guard tag?.matches(name, id) != true else { return }
        let found = "\(name.shown)  \(id)  \(trustText(claiming: id, named: name))"
        let blocked = entries.filter { $0.value.trust == .blocked && tag?.matches($0.value.name, $0.key.peerID) == true }
        guard blocked.isEmpty else {
            let rows = blocked.map { NamedKey(($0.key, $0.value)).idRow } + [found]
            throw ControlFailure(.ambiguous, NodeError.ambiguity(of: text, rows: rows))
        }
        var others = peers(named: text) { $0.givenName != nil || !$0.isNameContested }.filter { $0.id != id }
        if isWholeName(text, of: name, id) {
            // Another peer with the same whole name is a clash, which has a message of its own.
            let wanted = text.lowercased()
            others.removeAll { [$0.name, $0.otherName].contains { $0?.claimed.lowercased() == wanted } }
        }
        guard !others.isEmpty else { return }
        let list = (others.map(\.idRow) + [found]).sorted().map { "\n  \($0)" }.joined()
        throw ControlFailure(
            .ambiguous, "\(TerminalText.escaped(text)) is the beginning of several names; use the id of one:\(list)")
    }

    private func peers(named text: String, where isWanted: (Entry) -> Bool) -> [NamedKey] {
        let wanted = entries.filter { $0.value.trust != .blocked && isWanted($0.value) }
        return NameSelection(of: text, among: wanted.map { NamedKey(($0.key, $0.value)) }).peers
    }

    /// The known peers that a text selects: by the names in the list of known peers, or by the beginning of their ids.
    package func knownPeers(selectedBy text: String) -> Set<PeerID> {
        Set((peers(named: text) { _ in true } + peers(withIDPrefix: text)).map(\.id))
    }

    /// The known peers whose ids begin with a text, see ``NameSelection/withIDPrefix(_:amongKnown:)``.
    package func peers(withIDPrefix text: String) -> [NamedKey] {
        NameSelection.withIDPrefix(text, amongKnown: entries.map { NamedKey(($0.key, $0.value)) })
    }

    /// The peers that lists show under a name, also where they call themselves otherwise now: what `nearshare peers` prints is
    /// found.
    package func peersListed(as text: String) -> Set<PeerID> {
        let wanted = text.lowercased()
        // A name in the form of an id selects no peer.
        guard PeerID(hex: wanted) == nil else { return [] }
        return Set(entries.filter { $0.value.name.claimed.lowercased() == wanted }.keys.map(\.peerID))
    }

    /// The known peer that a text selects, see ``NamedKey/find(_:among:)``.
    package func peer(named text: String) throws(CommandFailure) -> (fingerprint: Fingerprint, entry: Entry)? {
        let keys = entries.map { NamedKey(($0.key, $0.value)) }
        // A name that belongs to another peer means that one.
        let owners = keys.filter { entries[$0.fingerprint].map { $0.givenName != nil || !$0.isNameContested } ?? false }
        var found = try NamedKey.find(text, among: owners)
        if found == nil { found = try NamedKey.find(text, among: keys) }
        guard let key = found, let entry = self[key.fingerprint] else { return nil }
        return (key.fingerprint, entry)
    }

    /// The known peer that a text selects.
    /// - Throws: also when no peer matches.
    package func requirePeer(named text: String) throws(CommandFailure) -> (fingerprint: Fingerprint, entry: Entry) {
        if let peer = try peer(named: text) { return peer }
        throw CommandFailure(
            .peerNotFound, "\(TerminalText.escaped(text)) is not among the known peers; `nearshare peers` lists them")
    }

    /// The peer that a text selects, see ``NamedKey/find(_:among:)``: a known one, or one whose key was only announced.
    /// - Parameter contacts: the announced keys.
    /// - Throws: also when no peer matches.
    package func requireMetPeer(named text: String, _ contacts: ContactBook) throws(CommandFailure) -> NamedKey {
        let met = contacts.entries.filter { self[$0.key] == nil }
        let keys =
            entries.map { NamedKey(($0.key, $0.value)) } + met.map { NamedKey(fingerprint: $0.key, name: $0.value.name) }
        if let key = try NamedKey.find(text, among: keys) { return key }
        throw CommandFailure(
            .peerNotFound, "no peer called \(TerminalText.escaped(text)) was met; `nearshare peers` lists known peers")
    }
}
