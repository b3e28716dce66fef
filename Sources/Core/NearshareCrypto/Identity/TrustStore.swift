package import NearshareBase

/// All known peers by key, with the user's decisions about them: a value, persisted as a whole.
package struct TrustStore: Sendable, Hashable {
    /// One known peer.
    package struct Entry: Sendable, Hashable, Codable {
        /// The name that the peer claimed last, except names of other peers.
        package var claimedName: DisplayName
        /// Whether the claimed name belongs to another peer. A contested name identifies no peer.
        package internal(set) var isNameContested: Bool
        /// The name that the local user has given; no other peer can claim it.
        package var givenName: DisplayName?
        /// The user's decision about the key.
        package var trust: TrustLevel
        /// Whether the user has made the peer a friend.
        package var isFriend: Bool
        /// The time of the first contact.
        package var firstSeen: WallTime
        /// The time of the latest contact.
        package var lastSeen: WallTime
        /// Names that the peer has claimed before while it was a friend or verified, the latest last. They stay reserved for it
        /// while it uses another name.
        package internal(set) var formerNames: [DisplayName] = []
        /// The newest version of the direct protocol in which the peer has proven its key; nil for none.
        package internal(set) var newestVersion: UInt8?
        /// Whether the peer's user has made the local user a favourite, in an app that says so.
        package internal(set) var favorsLocalUser = false
        /// Whether the peer has proven its key, or the user has imported it. A blocked peer need not have done so.
        package internal(set) var isProven = true
        /// SHA-256 of the certificate of a LocalSend device, which takes the place of the key; nil for a nearshare peer.
        package internal(set) var certificate: [UInt8]?
        /// Whether the user has decided something about the peer: a rule that accepts all new peers decides nothing about this one.
        package internal(set) var isChosen = true

        /// The given name, or else the claimed one.
        package var name: DisplayName { givenName ?? claimedName }

        /// Whether the user has confirmed the key.
        package var isTrusted: Bool { trust == .verified || (isFriend && trust != .blocked) }
    }

    /// Limit on the former names kept for one peer.
    static let maximumFormerNames = 8

    /// Limit on known peers. A new peer replaces the one that was merely seen longest ago.
    package static let capacity = 4096

    /// The known peers.
    package private(set) var entries: [Fingerprint: Entry] = [:]
    /// Keys by the folded names that may belong to them: an untrusted peer's offer must not cost a search of all names.
    private var keysByName: [String: Set<Fingerprint>] = [:]
    /// Keys by their first 8 bytes.
    private var keysByID: [PeerID: Set<Fingerprint>] = [:]

    /// Creates an empty store.
    package init() {}

    /// The entry of a key; nil for an unknown one.
    package subscript(fingerprint: Fingerprint) -> Entry? { entries[fingerprint] }

    /// Whether the user knows a peer: it is not blocked, and the user, not only a rule, has decided something about it. Keys are free,
    /// so those that `--accept all` lets in get no share of what is kept for contacts (M12).
    package func isContact(_ fingerprint: Fingerprint) -> Bool {
        guard let entry = entries[fingerprint], entry.trust != .blocked else { return false }
        return entry.isChosen || entry.isTrusted || entry.givenName != nil
    }

    // MARK: Trust status

    /// The trust in an authenticated peer that claims a name.
    package func trustStatus(of peer: AuthenticatedPeer, claiming name: DisplayName?) -> TrustStatus {
        trustStatus(of: peer.fingerprint, claiming: name)
    }

    /// The trust in the owner of a key, whether or not it was proven.
    package func trustStatus(of fingerprint: Fingerprint, claiming name: DisplayName?) -> TrustStatus {
        trustStatus(ofKnown: fingerprint, claiming: name)
    }

    /// The trust in a peer that has claimed only the short name of its key, for showing it in a list.
    package func trustStatus(claiming id: PeerID, named name: DisplayName) -> TrustStatus {
        trustStatus(ofKnown: entry(claiming: id)?.fingerprint, claiming: name)
    }

    /// - Parameter fingerprint: nil for a key of which only the id is claimed, and no known key has it.
    private func trustStatus(ofKnown fingerprint: Fingerprint?, claiming name: DisplayName?) -> TrustStatus {
        let entry = fingerprint.flatMap { entries[$0] }
        // A blocked peer is blocked under every name.
        if let entry, entry.trust == .blocked { return .known(.blocked, isFriend: false) }
        // Another key with the id of a known one was made to be mistaken for it: the whole fingerprint decides.
        if let fingerprint, entry == nil, let known = keysByID[fingerprint.peerID]?.min(by: { $0.hex < $1.hex }) {
            return entries[known]?.trust == .blocked ? .known(.blocked, isFriend: false) : .nameClash(knownAs: known)
        }
        // A friend or verified peer is shown under its own name, whichever one it claims.
        if let entry, entry.isTrusted, !entry.isNameContested { return .known(entry.trust, isFriend: entry.isFriend) }
        // A peer with a given name is known by that, and may claim the same name as another one.
        if let name, let owner = owner(of: name, claimedBy: fingerprint), owner.isNameGiven || entry?.givenName == nil {
            return .nameClash(knownAs: owner.fingerprint)
        }
        return entry.map { .known($0.trust, isFriend: $0.isFriend) } ?? .new
    }

    /// Finds the other peer to which a name belongs (K2), whether or not the peer that claims it is known: a peer that was
    /// accepted under one name must not return under another peer's.
    ///
    /// A name given by the local user belongs to that key alone. A claimed name belongs to the peer that claimed it first. A
    /// friend or verified peer keeps its former names while it uses another one.
    /// - Parameter allowsTrustedClaims: whether a friend or verified peer may claim the name of a peer that was merely seen, which could
    ///   otherwise lock it out by claiming its next name first.
    private func owner(
        of name: DisplayName, claimedBy fingerprint: Fingerprint?, allowsTrustedClaims: Bool = true
    ) -> (fingerprint: Fingerprint, isNameGiven: Bool)? {
        let folded = Self.folded(name)
        let own = fingerprint.flatMap { entries[$0] }
        if let given = own?.givenName, Self.folded(given) == folded { return nil }
        let isTrusted = own?.isTrusted ?? false
        let isKnownByName = own.map { Self.isKnown($0, by: folded) } ?? false
        // Sorted, so that one of several is the same in each process.
        let others = (keysByName[folded] ?? []).sorted { $0.hex < $1.hex }
            .compactMap { key in entries[key].map { (key: key, value: $0) } }
            .filter { $0.key != fingerprint && $0.value.trust != .blocked }
        if let owner = others.first(where: { $0.value.givenName.map(Self.folded) == folded }),
            owner.value.isTrusted || !isTrusted || !isKnownByName
        {
            return (owner.key, true)
        }
        let owners = others.filter { Self.isKnown($0.value, by: folded) }
        let owner = owners.first { $0.value.isTrusted } ?? owners.first
        guard let owner else { return nil }
        let isOutranked =
            isKnownByName ? isTrusted || !owner.value.isTrusted : allowsTrustedClaims && isTrusted && !owner.value.isTrusted
        return isOutranked ? nil : (owner.key, false)
    }

    /// The other known peer to which the user may assign a name that a peer claims; nil for none. Unlike for
    /// ``TrustStatus/nameClash(knownAs:)``, a friend or verified peer does not take over the name of a peer that was merely
    /// seen (K2).
    package func otherOwner(of name: DisplayName, claimedBy fingerprint: Fingerprint) -> Fingerprint? {
        // A peer with a given name is known by that.
        guard let owner = owner(of: name, claimedBy: fingerprint, allowsTrustedClaims: false),
            owner.isNameGiven || entries[fingerprint]?.givenName == nil
        else { return nil }
        return owner.fingerprint
    }

    /// The name under which the user knows a peer: the given name, or else the one that it claims. A friend or verified peer that
    /// claims the name of another known peer, or one that mixes alphabets, keeps its own.
    package func name(of fingerprint: Fingerprint, claiming name: DisplayName) -> DisplayName {
        guard let entry = entries[fingerprint] else { return name }
        if let given = entry.givenName { return given }
        let isOwn = Self.mayReplace(entry.claimedName, with: name) && otherOwner(of: name, claimedBy: fingerprint) == nil
        return entry.isTrusted && !isOwn ? entry.claimedName : name
    }

    /// The name by which the user knows the owner of a key that claims the name of another known peer now (K2); nil for none, and for
    /// a key that only a rule has let in, whose name the user may never have read.
    package func formerName(of fingerprint: Fingerprint, claiming name: DisplayName) -> DisplayName? {
        guard case .nameClash = trustStatus(of: fingerprint, claiming: name), let entry = entries[fingerprint],
            isContact(fingerprint), entry.givenName == nil, !entry.isNameContested,
            Self.folded(entry.claimedName) != Self.folded(name)
        else { return nil }
        return entry.claimedName
    }

    /// Whether a known peer may change its claimed name: one that mixes alphabets may look like that of another peer (T9).
    fileprivate static func mayReplace(_ known: DisplayName, with name: DisplayName) -> Bool {
        known == name || !MixedScripts.isFound(in: name.claimed)
    }

    /// The known peer that a name identifies, if it is not the given one; nil for none.
    package func peer(knownAs name: DisplayName, otherThan fingerprint: Fingerprint) -> Fingerprint? {
        let folded = Self.folded(name)
        return (keysByName[folded] ?? []).sorted { $0.hex < $1.hex }.first { key in
            guard key != fingerprint, let entry = entries[key] else { return false }
            return entry.givenName.map(Self.folded) == folded || Self.isKnown(entry, by: folded)
        }
    }

    private static func isKnown(_ entry: Entry, by foldedName: String) -> Bool {
        (!entry.isNameContested && folded(entry.claimedName) == foldedName)
            || (entry.isTrusted && entry.formerNames.contains { folded($0) == foldedName })
    }

    /// Finds a known peer by the short name of its key: an unauthenticated claim, for showing only. nil also for an id that
    /// several known keys have.
    package func entry(claiming id: PeerID) -> (fingerprint: Fingerprint, entry: Entry)? {
        guard let keys = keysByID[id], keys.count == 1, let key = keys.first else { return nil }
        return entries[key].map { (key, $0) }
    }

    /// Whether the user knows the peer with the short name of a key, see ``isContact(_:)``: an unauthenticated claim.
    package func isContact(claiming id: PeerID) -> Bool { entry(claiming: id).map { isContact($0.fingerprint) } ?? false }

    // MARK: Changes

    /// Records a contact with a peer that proves its key now, and pins the key: content was accepted from the peer, or by it.
    /// - Parameters:
    ///   - version: The version of the direct protocol on the peer's link; nil for a contact without one.
    ///   - isChosen: false where a rule has accepted the content, and not the user.
    package mutating func recordContact(
        with peer: AuthenticatedPeer, named name: DisplayName, version: UInt8? = nil, isChosen: Bool = true, at now: WallTime
    ) {
        record(peer.fingerprint, named: name, isChosen: isChosen, at: now)
        _ = update(peer.fingerprint) { $0.recordVersion(version) }
    }

    /// Records a peer that is not connected and has proven its key before, according to ``ContactBook/Entry/isProven`` of the
    /// address book.
    package mutating func recordEarlierProof(of fingerprint: Fingerprint, named name: DisplayName, at now: WallTime) {
        record(fingerprint, named: name, at: now)
    }

    /// Records a contact with a LocalSend device, and pins its certificate.
    /// - Parameters:
    ///   - fingerprint: that of the certificate.
    ///   - certificate: SHA-256 of the certificate.
    package mutating func recordDevice(
        _ fingerprint: Fingerprint, certificate: [UInt8], named name: DisplayName, at now: WallTime
    ) {
        record(fingerprint, named: name, at: now)
        _ = update(fingerprint) { $0.certificate = certificate }
    }

    /// Records whether the user has compared a LocalSend device's certificate, and it matched.
    /// - Returns: false when the device is not known.
    @discardableResult
    package mutating func setDeviceVerified(_ fingerprint: Fingerprint, _ isVerified: Bool) -> Bool {
        defer { endNameContest(of: fingerprint) }
        return update(fingerprint) { entry in
            if entry.trust != .blocked { entry.trust = isVerified ? .verified : .seen }
        }
    }

    /// Whether recording a contact would change nothing but the time of the latest one, by less than a minute.
    package func isRecorded(
        _ peer: AuthenticatedPeer, named name: DisplayName, version: UInt8? = nil, isChosen: Bool = true, at now: WallTime
    ) -> Bool {
        guard let entry = entries[peer.fingerprint] else { return false }
        let age = now.milliseconds.subtractingReportingOverflow(entry.lastSeen.milliseconds)
        guard !age.overflow, (0..<60_000).contains(age.partialValue) else { return false }
        var recorded = entry
        recorded.recordContact(
            claiming: name, isContested: isContested(name, claimedBy: peer.fingerprint), isChosen: isChosen, at: entry.lastSeen)
        recorded.recordVersion(version)
        return recorded == entry
    }

    /// Whether a name that a peer claims belongs to another one.
    private func isContested(_ name: DisplayName, claimedBy fingerprint: Fingerprint) -> Bool {
        owner(of: name, claimedBy: fingerprint, allowsTrustedClaims: false) != nil
    }

    /// The newest version that a peer has spoken, where `version` is older; nil otherwise (K12).
    package func downgrade(of peer: AuthenticatedPeer, to version: UInt8) -> UInt8? {
        guard let newest = entries[peer.fingerprint]?.newestVersion, newest > version else { return nil }
        return newest
    }

    /// Records that both users have compared the short authentication string on the peer's link, and it matched.
    /// - Returns: false when the peer is blocked, or the store is full of peers that the user has decided about.
    @discardableResult
    package mutating func recordVerification(of peer: AuthenticatedPeer, named name: DisplayName, at now: WallTime) -> Bool {
        recordVerification(of: peer.fingerprint, named: name, at: now)
    }

    /// The same for a key that a handshake has proven before.
    package mutating func recordVerification(of key: Fingerprint, named name: DisplayName, at now: WallTime) -> Bool {
        record(key, named: name, at: now)
        _ = update(key) { if $0.trust != .blocked { $0.trust = .verified } }
        endNameContest(of: key)
        return entries[key]?.trust == .verified
    }

    /// Records that the short authentication string on the peer's link did not match, which revokes an earlier verification.
    package mutating func recordMismatch(with peer: AuthenticatedPeer) {
        _ = update(peer.fingerprint) { if $0.trust == .verified { $0.trust = .seen } }
    }

    /// Adds a key that the local user has imported, with a name that no other peer can claim.
    /// - Parameters:
    ///   - claimed: The name that the peer claims.
    ///   - given: The name that the local user gives.
    /// - Returns: false when the store is full of peers that the user has decided about.
    package mutating func introduce(
        _ fingerprint: Fingerprint, claiming claimed: DisplayName, as given: DisplayName, at now: WallTime
    ) -> Bool {
        record(fingerprint, named: claimed, at: now)
        return rename(fingerprint, to: given)
    }

    /// Adds a key that was only announced, with a name that no other peer can claim.
    /// - Parameters:
    ///   - claimed: The name that the peer claims.
    ///   - given: The name that the local user gives.
    /// - Returns: false when the store is full of peers that the user has decided about.
    package mutating func introduce(
        announced fingerprint: Fingerprint, claiming claimed: DisplayName, as given: DisplayName, at now: WallTime
    ) -> Bool {
        guard introduce(fingerprint, claiming: claimed, as: given, at: now) else { return false }
        return update(fingerprint) { $0.isProven = false }
    }

    /// Makes a peer a friend, or revokes that.
    /// - Returns: false when the key is not known.
    @discardableResult
    package mutating func setFriend(_ fingerprint: Fingerprint, to isFriend: Bool) -> Bool {
        defer { endNameContest(of: fingerprint) }
        return update(fingerprint) { $0.isFriend = isFriend }
    }

    /// Records that a peer's user has made the local user a favourite, or revoked that.
    /// - Returns: false when the key is not known.
    @discardableResult
    package mutating func setFavorsLocalUser(_ fingerprint: Fingerprint, to favors: Bool) -> Bool {
        update(fingerprint) { $0.favorsLocalUser = favors }
    }

    /// Gives a peer a name.
    /// - Parameter name: nil to return to the name that the peer claims. A peer that was known by its given name alone is new again.
    /// - Returns: false when the key is not known.
    @discardableResult
    package mutating func rename(_ fingerprint: Fingerprint, to name: DisplayName?) -> Bool {
        if name == nil, let entry = entries[fingerprint], !entry.isProven, entry.trust == .seen, !entry.isFriend {
            return remove(fingerprint)
        }
        return update(fingerprint) { $0.givenName = name }
    }

    /// Blocks a peer by its key, also one that was only announced.
    /// - Parameter name: the name that the peer claims.
    /// - Returns: false when the store is full of peers that the user has decided about.
    package mutating func block(_ fingerprint: Fingerprint, named name: DisplayName, at now: WallTime) -> Bool {
        if entries[fingerprint] == nil {
            record(fingerprint, named: name, at: now)
            _ = update(fingerprint) { $0.isProven = false }
        }
        return setBlocked(fingerprint, to: true)
    }

    /// Blocks or unblocks a peer. An unblocked peer is merely seen, or new if it has never proven its key; earlier trust is not
    /// restored.
    /// - Returns: false when the key is not known.
    @discardableResult
    package mutating func setBlocked(_ fingerprint: Fingerprint, to isBlocked: Bool) -> Bool {
        if !isBlocked, entries[fingerprint]?.isProven == false { return remove(fingerprint) }
        return update(fingerprint) { entry in
            if isBlocked {
                entry.trust = .blocked
                entry.isFriend = false
            } else if entry.trust == .blocked {
                entry.trust = .seen
            }
        }
    }

    /// Removes a peer with all decisions about it.
    /// - Returns: false when the key is not known.
    @discardableResult
    package mutating func remove(_ fingerprint: Fingerprint) -> Bool {
        set(nil, for: fingerprint) != nil
    }

    private mutating func update(_ fingerprint: Fingerprint, _ body: (inout Entry) -> Void) -> Bool {
        guard var entry = entries[fingerprint] else { return false }
        body(&entry)
        set(entry, for: fingerprint)
        return true
    }

    /// Replaces or removes an entry, and keeps the indexes.
    /// - Returns: the previous entry.
    @discardableResult
    private mutating func set(_ entry: Entry?, for fingerprint: Fingerprint) -> Entry? {
        let previous = entries[fingerprint]
        entries[fingerprint] = entry
        if previous == nil, entry != nil { keysByID[fingerprint.peerID, default: []].insert(fingerprint) }
        if previous != nil, entry == nil { Self.remove(fingerprint, at: fingerprint.peerID, from: &keysByID) }
        let (oldNames, newNames) = (previous.map(Self.foldedNames) ?? [], entry.map(Self.foldedNames) ?? [])
        for name in oldNames.subtracting(newNames) { Self.remove(fingerprint, at: name, from: &keysByName) }
        for name in newNames.subtracting(oldNames) { keysByName[name, default: []].insert(fingerprint) }
        return previous
    }

    private static func remove<Key>(_ fingerprint: Fingerprint, at key: Key, from index: inout [Key: Set<Fingerprint>]) {
        index[key]?.remove(fingerprint)
        if index[key]?.isEmpty == true { index[key] = nil }
    }

    private static func foldedNames(_ entry: Entry) -> Set<String> {
        Set(([entry.claimedName] + entry.formerNames + [entry.givenName].compactMap(\.self)).map(folded))
    }

    private mutating func record(
        _ fingerprint: Fingerprint, named name: DisplayName, isChosen: Bool = true, at now: WallTime
    ) {
        let isContested = isContested(name, claimedBy: fingerprint)
        let isKnown = update(fingerprint) { entry in
            entry.recordContact(claiming: name, isContested: isContested, isChosen: isChosen, at: now)
        }
        guard !isKnown, makeRoom() else { return }
        set(
            Entry(
                claimedName: name, isNameContested: isContested, givenName: nil, trust: .seen, isFriend: false,
                firstSeen: now, lastSeen: now, isChosen: isChosen), for: fingerprint)
    }

    /// - Returns: false when the store is full of peers that the user has decided about; a new peer then stays unknown.
    private mutating func makeRoom() -> Bool {
        guard entries.count >= Self.capacity else { return true }
        let oldest = entries.filter { $0.value.trust == .seen && !$0.value.isFriend && $0.value.givenName == nil }
            .min { $0.value.lastSeen < $1.value.lastSeen }
        guard let oldest else { return false }
        set(nil, for: oldest.key)
        return true
    }

    /// Ends the contest for a peer's name when trust has made the name its own.
    private mutating func endNameContest(of fingerprint: Fingerprint) {
        guard let entry = entries[fingerprint], entry.isNameContested,
            owner(of: entry.claimedName, claimedBy: fingerprint) == nil
        else { return }
        _ = update(fingerprint) { $0.isNameContested = false }
    }

    /// Folds a name for comparison: names that differ only in case, white space and invisible characters are equal.
    fileprivate static func folded(_ name: DisplayName) -> String {
        // Upper case first, which turns "ß" into "SS"; lower case alone would leave it different from "ss".
        var text = name.claimed.uppercased().lowercased()
        text.unicodeScalars.removeAll(where: isInvisible)
        return text
    }

    private static func isInvisible(_ scalar: Unicode.Scalar) -> Bool {
        if scalar.properties.isWhitespace || scalar.properties.isDefaultIgnorableCodePoint { return true }
        switch scalar.properties.generalCategory {
        case .control, .format, .privateUse, .unassigned: return true
        // The empty pattern of Braille, and the place of an object.
        default: return scalar == "\u{2800}" || scalar == "\u{FFFC}"
        }
    }
}

extension TrustStore.Entry {
    /// Records a contact with the peer, which has proven its key.
    fileprivate mutating func recordContact(
        claiming name: DisplayName, isContested: Bool, isChosen: Bool, at now: WallTime
    ) {
        // A peer does not take over another one's name by claiming it; only the local user decides that.
        if !isContested, TrustStore.mayReplace(claimedName, with: name) { claim(name) }
        lastSeen = max(now, lastSeen)
        isProven = true
        self.isChosen = isChosen || self.isChosen
    }

    /// - Parameter version: of the direct protocol on the peer's link; nil for a contact without one.
    fileprivate mutating func recordVersion(_ version: UInt8?) {
        if let version { newestVersion = max(version, newestVersion ?? 0) }
    }

    /// Makes an uncontested name the claimed one.
    fileprivate mutating func claim(_ name: DisplayName) {
        let folded = TrustStore.folded(name)
        formerNames.removeAll { TrustStore.folded($0) == folded }
        if isTrusted, !isNameContested, TrustStore.folded(claimedName) != folded {
            formerNames = (formerNames + [claimedName]).suffix(TrustStore.maximumFormerNames)
        }
        claimedName = name
        isNameContested = false
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        claimedName = try container.decode(DisplayName.self, forKey: .claimedName)
        isNameContested = try container.decode(Bool.self, forKey: .isNameContested)
        givenName = try container.decodeIfPresent(DisplayName.self, forKey: .givenName)
        trust = try container.decode(TrustLevel.self, forKey: .trust)
        isFriend = try container.decode(Bool.self, forKey: .isFriend)
        firstSeen = try container.decode(WallTime.self, forKey: .firstSeen)
        lastSeen = try container.decode(WallTime.self, forKey: .lastSeen)
        // Absent in files of versions that kept no former names.
        let names = try container.decodeIfPresent([DisplayName].self, forKey: .formerNames) ?? []
        formerNames = names.suffix(TrustStore.maximumFormerNames)
        newestVersion = try container.decodeIfPresent(UInt8.self, forKey: .newestVersion)
        favorsLocalUser = try container.decodeIfPresent(Bool.self, forKey: .favorsLocalUser) ?? false
        // Absent in files of versions that recorded proven keys only.
        isProven = try container.decodeIfPresent(Bool.self, forKey: .isProven) ?? true
        certificate = try container.decodeIfPresent([UInt8].self, forKey: .certificate)
        // Absent in files of versions that did not tell them apart.
        isChosen = try container.decodeIfPresent(Bool.self, forKey: .isChosen) ?? true
    }
}

extension TrustStore: Codable {
    private struct Record: Codable {
        var fingerprint: Fingerprint
        var entry: Entry
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        for record in try container.decode([Record].self).prefix(Self.capacity) {
            guard set(record.entry, for: record.fingerprint) == nil else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "duplicate entry for peer \(record.fingerprint.peerID)")
            }
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        let sorted = entries.sorted { $0.key.hex < $1.key.hex }
        try container.encode(sorted.map { Record(fingerprint: $0.key, entry: $0.value) })
    }
}
