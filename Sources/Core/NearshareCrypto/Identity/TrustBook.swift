package import NearshareBase

/// What a local person has made of a peer.
package enum PeerTrust: String, Sendable, Hashable, Codable {
    /// The key was pinned when something was first accepted from it or sent to it, or when the local person brought it.
    case seen
    /// Both people have compared the short code.
    case verified
    case blocked
}

/// How a peer stands with us, looked up by the key that its link has proven.
package enum TrustStatus: Sendable, Hashable {
    case new
    case known(PeerTrust, isFriend: Bool)
    /// The name is known here, but it belongs to another key: loud, and never let through without a person (K2).
    case nameClash(knownAs: Fingerprint)

    package var isFriend: Bool { if case .known(let trust, isFriend: true) = self { trust != .blocked } else { false } }
    package var isBlocked: Bool { if case .known(.blocked, _) = self { true } else { false } }
    package var isVerified: Bool { if case .known(.verified, _) = self { true } else { false } }

    /// One word for people and programs: new, seen, verified, friend, blocked, changed.
    package var word: String {
        switch self {
        case .new: "new"
        case .known(.blocked, _): "blocked"
        case .known(_, isFriend: true): "friend"
        case .known(.verified, _): "verified"
        case .known(.seen, _): "seen"
        case .nameClash: "changed"
        }
    }
}

/// All peers that somebody here has dealt with, by key. A value: whoever holds the file holds the truth.
package struct TrustBook: Sendable, Hashable {
    package struct Entry: Sendable, Hashable, Codable {
        /// What the peer called itself last, other peers' names left out.
        package var claimedName: DisplayName
        /// The claimed name was another peer's when this one came, so nobody is known by it.
        package internal(set) var isNameContested: Bool
        /// What the local person calls it. Nobody else can claim it.
        package var givenName: DisplayName?
        package var trust: PeerTrust
        package var isFriend: Bool
        package var firstSeen: WallTime
        package var lastSeen: WallTime
        /// What it called itself before, as long as it was a friend or verified, latest last: nobody else gets these names by waiting
        /// until it uses another one.
        package internal(set) var formerNames: [DisplayName] = []

        package var name: DisplayName { givenName ?? claimedName }

        /// A person has said yes to this key.
        var isTrusted: Bool { trust == .verified || (isFriend && trust != .blocked) }
    }

    /// So many earlier names of one peer are kept.
    static let maximumFormerNames = 8

    /// So many peers are remembered; the one that was merely seen longest ago gives way.
    package static let capacity = 4096

    package private(set) var entries: [Fingerprint: Entry] = [:]

    package init() {}

    package subscript(fingerprint: Fingerprint) -> Entry? { entries[fingerprint] }

    /// How a peer stands that has proven its key and claims a name.
    package func trustStatus(of peer: AuthenticatedPeer, claiming name: DisplayName?) -> TrustStatus {
        trustStatus(of: peer.fingerprint, claiming: name)
    }

    /// As ``trustStatus(of:claiming:)``, for showing a list of peers that have proven nothing yet.
    package func trustStatus(of fingerprint: Fingerprint, claiming name: DisplayName?) -> TrustStatus {
        trustStatus(ofKnown: fingerprint, claiming: name)
    }

    /// As ``trustStatus(of:claiming:)``, where not even a whole fingerprint has been claimed.
    package func trustStatus(claiming id: PeerID, called name: DisplayName) -> TrustStatus {
        trustStatus(ofKnown: entry(claiming: id)?.fingerprint, claiming: name)
    }

    /// - Parameter fingerprint: nil for a key that is not in the book.
    private func trustStatus(ofKnown fingerprint: Fingerprint?, claiming name: DisplayName?) -> TrustStatus {
        let entry = fingerprint.flatMap { entries[$0] }
        // Blocked is blocked under every name.
        if let entry, entry.trust == .blocked { return .known(.blocked, isFriend: false) }
        // Whoever has a name given here is known by that, and may share the one it claims.
        if let name, let owner = owner(of: name, besides: fingerprint), owner.isNameGiven || entry?.givenName == nil {
            return .nameClash(knownAs: owner.fingerprint)
        }
        return entry.map { .known($0.trust, isFriend: $0.isFriend) } ?? .new
    }

    /// Who else a name belongs to (K2). Whether the peer itself is known makes no difference: somebody who was let in under one
    /// name must not come back under another's.
    ///
    /// A name given by the local person belongs to the key it was given to, and to nobody else. A merely claimed name belongs
    /// to who was known by it first; that of a friend or a verified peer stays theirs when they use another one. Who is merely seen
    /// has no name that outweighs a friend or a verified peer: a stranger could take a name that a friend has left for a day,
    /// and would shut the friend out.
    private func owner(
        of name: DisplayName, besides fingerprint: Fingerprint?
    ) -> (fingerprint: Fingerprint, isNameGiven: Bool)? {
        let folded = Self.folded(name)
        let own = fingerprint.flatMap { entries[$0] }
        if let given = own?.givenName, Self.folded(given) == folded { return nil }
        let isTrusted = own?.isTrusted ?? false
        let isKnownByIt = own.map { Self.isKnown($0, by: folded) } ?? false
        let others = entries.filter { $0.key != fingerprint && $0.value.trust != .blocked }
        if let owner = others.first(where: { $0.value.givenName.map(Self.folded) == folded }),
            owner.value.isTrusted || !isTrusted || !isKnownByIt
        {
            return (owner.key, true)
        }
        let owners = others.filter { Self.isKnown($0.value, by: folded) }
        let owner = owners.first { $0.value.isTrusted } ?? owners.first
        guard let owner else { return nil }
        let isOutweighed = isKnownByIt ? isTrusted || !owner.value.isTrusted : isTrusted && !owner.value.isTrusted
        return isOutweighed ? nil : (owner.key, false)
    }

    private static func isKnown(_ entry: Entry, by foldedName: String) -> Bool {
        (!entry.isNameContested && folded(entry.claimedName) == foldedName)
            || (entry.isTrusted && entry.formerNames.contains { folded($0) == foldedName })
    }

    /// A known peer by the first 8 bytes of its fingerprint: a claim, good for showing only.
    package func entry(claiming id: PeerID) -> (fingerprint: Fingerprint, entry: Entry)? {
        entries.first { $0.key.peerID == id }.map { ($0.key, $0.value) }
    }

    // MARK: Changes

    /// Something was accepted from the peer, or taken by it: its key is pinned.
    package mutating func dealtWith(_ peer: AuthenticatedPeer, called name: DisplayName, at now: WallTime) {
        note(peer.fingerprint, called: name, at: now)
    }

    /// Both people have compared the code on this peer's link.
    package mutating func verified(_ peer: AuthenticatedPeer, called name: DisplayName, at now: WallTime) {
        note(peer.fingerprint, called: name, at: now)
        if entries[peer.fingerprint]?.trust != .blocked { entries[peer.fingerprint]?.trust = .verified }
        settleName(of: peer.fingerprint)
    }

    /// A person has compared the code on this peer's link, and it was another one: whatever was compared before, this key is not known
    /// to be theirs any more.
    package mutating func denied(_ peer: AuthenticatedPeer) {
        if entries[peer.fingerprint]?.trust == .verified { entries[peer.fingerprint]?.trust = .seen }
    }

    /// The local person has brought the peer's key and says whose it is, so that nobody else can claim that name.
    /// - Parameters:
    ///   - claimed: what the peer calls itself.
    ///   - given: what the local person calls it.
    /// - Returns: false when there is no room, because somebody has decided about everybody in the book.
    package mutating func introduced(
        _ fingerprint: Fingerprint, claiming claimed: DisplayName, as given: DisplayName, at now: WallTime
    ) -> Bool {
        note(fingerprint, called: claimed, at: now)
        return rename(fingerprint, to: given)
    }

    /// - Returns: false when no such peer is known; likewise below.
    @discardableResult
    package mutating func setFriend(_ fingerprint: Fingerprint, _ isFriend: Bool) -> Bool {
        defer { settleName(of: fingerprint) }
        return change(fingerprint) { $0.isFriend = isFriend }
    }

    /// - Parameter name: nil to go back to what the peer calls itself.
    @discardableResult
    package mutating func rename(_ fingerprint: Fingerprint, to name: DisplayName?) -> Bool {
        change(fingerprint) { $0.givenName = name }
    }

    /// Unblocking leaves a peer that is merely seen: trust has to be earned again.
    @discardableResult
    package mutating func setBlocked(_ fingerprint: Fingerprint, _ isBlocked: Bool) -> Bool {
        change(fingerprint) { entry in
            if isBlocked {
                entry.trust = .blocked
                entry.isFriend = false
            } else if entry.trust == .blocked {
                entry.trust = .seen
            }
        }
    }

    @discardableResult
    package mutating func forget(_ fingerprint: Fingerprint) -> Bool {
        entries.removeValue(forKey: fingerprint) != nil
    }

    private mutating func change(_ fingerprint: Fingerprint, _ body: (inout Entry) -> Void) -> Bool {
        guard entries[fingerprint] != nil else { return false }
        body(&entries[fingerprint]!)
        return true
    }

    private mutating func note(_ fingerprint: Fingerprint, called name: DisplayName, at now: WallTime) {
        let isContested = owner(of: name, besides: fingerprint) != nil
        if entries[fingerprint] != nil {
            // Another's name is not taken over by using it: whose it is, only the local person decides.
            if !isContested { entries[fingerprint]!.isCalled(name) }
            entries[fingerprint]!.lastSeen = max(now, entries[fingerprint]!.lastSeen)
            return
        }
        if entries.count >= Self.capacity {
            let oldest = entries.filter { $0.value.trust == .seen && !$0.value.isFriend && $0.value.givenName == nil }
                .min { $0.value.lastSeen < $1.value.lastSeen }
            // All others were a person's decision; then the newcomer stays unknown.
            guard let oldest else { return }
            entries[oldest.key] = nil
        }
        entries[fingerprint] = Entry(
            claimedName: name, isNameContested: isContested, givenName: nil, trust: .seen, isFriend: false, firstSeen: now,
            lastSeen: now)
    }

    /// Trust may have made a name its own that was another's.
    private mutating func settleName(of fingerprint: Fingerprint) {
        guard let entry = entries[fingerprint], entry.isNameContested else { return }
        if owner(of: entry.claimedName, besides: fingerprint) == nil { entries[fingerprint]!.isNameContested = false }
    }

    /// Names that look alike to a hurried reader are one name: case, white space, and what has no shape at all do not count.
    fileprivate static func folded(_ name: DisplayName) -> String {
        // Upper case first: it makes "SS" of "ß", which lower case alone would keep apart from "ss".
        var text = name.claimed.uppercased().lowercased()
        text.unicodeScalars.removeAll { $0.properties.isWhitespace || $0.properties.isDefaultIgnorableCodePoint }
        return text
    }
}

extension TrustBook.Entry {
    /// The name is its own from now on.
    fileprivate mutating func isCalled(_ name: DisplayName) {
        let folded = TrustBook.folded(name)
        formerNames.removeAll { TrustBook.folded($0) == folded }
        if isTrusted, !isNameContested, TrustBook.folded(claimedName) != folded {
            formerNames = (formerNames + [claimedName]).suffix(TrustBook.maximumFormerNames)
        }
        claimedName = name
        isNameContested = false
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        claimedName = try container.decode(DisplayName.self, forKey: .claimedName)
        isNameContested = try container.decode(Bool.self, forKey: .isNameContested)
        givenName = try container.decodeIfPresent(DisplayName.self, forKey: .givenName)
        trust = try container.decode(PeerTrust.self, forKey: .trust)
        isFriend = try container.decode(Bool.self, forKey: .isFriend)
        firstSeen = try container.decode(WallTime.self, forKey: .firstSeen)
        lastSeen = try container.decode(WallTime.self, forKey: .lastSeen)
        // Books from before these were kept have none.
        let names = try container.decodeIfPresent([DisplayName].self, forKey: .formerNames) ?? []
        formerNames = names.suffix(TrustBook.maximumFormerNames)
    }
}

extension TrustBook: Codable {
    private struct Record: Codable {
        var fingerprint: Fingerprint
        var entry: Entry
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        for record in try container.decode([Record].self).prefix(Self.capacity) {
            guard entries.updateValue(record.entry, forKey: record.fingerprint) == nil else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "the peer \(record.fingerprint.peerID) stands in it twice")
            }
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        let sorted = entries.sorted { $0.key.hex < $1.key.hex }
        try container.encode(sorted.map { Record(fingerprint: $0.key, entry: $0.value) })
    }
}
