package import NearshareBase
package import NearshareCrypto

/// The public keys of peers, to which messages can be sealed while the peers are not in range: received from the peers
/// themselves or imported by the user. A value; ``ContactFile`` stores it.
///
/// A known key is not a trusted one: the ``TrustStore`` stores the user's trust.
package struct ContactBook: Sendable, Hashable {
    /// The way in which a key was received.
    package enum Origin: String, Sendable, Hashable, Codable {
        /// Announced by its owner.
        case met
        /// Imported from a file by the local user.
        case imported
    }

    package struct Entry: Sendable, Hashable {
        package let agreementKey: AgreementPublicKey
        package let signingKey: SigningPublicKey
        /// The owner's claimed name; for an imported key the local user's name for the owner.
        package internal(set) var name: DisplayName
        package let origin: Origin
        /// Whether both keys belong together: the owner has sent the signing key inside a Noise session.
        package internal(set) var isProven: Bool
        /// The time at which these keys were stored.
        package let since: WallTime
        /// The time at which the owner was last in range, to within ``ContactBook/lastMetResolution``; ``since`` for an imported
        /// key.
        package internal(set) var lastMet: WallTime

        /// Whether it is certain that both keys are one peer's: it has stated them in a session, or the user has imported them.
        package var areKeysProven: Bool { isProven || origin == .imported }
        package var fingerprint: Fingerprint { Fingerprint(of: agreementKey) }
        package var id: PeerID { fingerprint.peerID }
    }

    /// Limit on contacts. A flood of invented keys evicts only contacts that are not friends, were not imported, and have
    /// proven no more than the invented ones (R6).
    package static let capacity = 1_000

    /// Resolution of ``Entry/lastMet``, so that the file is not written for every packet of a contact.
    package static let lastMetResolution = Duration.seconds(3_600)

    package private(set) var entries: [Fingerprint: Entry] = [:]
    /// The key of each ``entries``, by the first 8 bytes of its fingerprint. Of several with the same, the one that came first.
    private var keysByID: [PeerID: Fingerprint] = [:]

    package init() {}

    package func entry(of fingerprint: Fingerprint) -> Entry? { entries[fingerprint] }

    /// A contact by the first 8 bytes of its fingerprint, as packets name it.
    package func entry(of id: PeerID) -> Entry? { keysByID[id].flatMap { entries[$0] } }

    // MARK: Changes

    /// Records the announcement of a peer in range. Imported keys do not change. A different signing key replaces the known one
    /// only if it is proven (K2).
    /// - Parameters:
    ///   - isProven: whether it was received inside a Noise session, that is, from the owner of the agreement key.
    ///   - isFriend: whether a contact is the local user's friend: friends are never evicted.
    /// - Returns: whether the book has changed; false when there is no room.
    package mutating func storeAnnouncedKeys(
        agreementKey: AgreementPublicKey, signingKey: SigningPublicKey, name: DisplayName, isProven: Bool,
        isFriend: (Fingerprint) -> Bool, at now: WallTime
    ) -> Bool {
        let fingerprint = Fingerprint(of: agreementKey)
        if let known = entries[fingerprint] {
            guard known.origin == .met else { return false }
            if known.signingKey == signingKey { return update(known, name: name, isProven: isProven, at: now) }
            guard isProven else { return false }
        } else {
            guard makeRoom(forProven: isProven, friend: isFriend(fingerprint), isFriend) else { return false }
        }
        insert(
            Entry(
                agreementKey: agreementKey, signingKey: signingKey, name: name, origin: .met, isProven: isProven, since: now,
                lastMet: now),
            fingerprint)
        return true
    }

    private mutating func update(_ known: Entry, name: DisplayName, isProven: Bool, at now: WallTime) -> Bool {
        var entry = known
        entry.name = name
        entry.isProven = known.isProven || isProven
        let interval = UInt64(Self.lastMetResolution.components.seconds) * 1_000
        // In both directions: a clock that was wrong for a while must not make a contact the newest or the oldest for ever.
        let (elapsed, overflow) = now.milliseconds.subtractingReportingOverflow(known.lastMet.milliseconds)
        if overflow || elapsed.magnitude >= interval { entry.lastMet = now }
        entries[known.fingerprint] = entry
        return entry != known
    }

    /// Records keys that the local user has imported from a file; they replace known ones.
    /// - Parameter name: the local user's name for their owner.
    /// - Returns: false when there is no room, because all contacts are friends or were imported.
    package mutating func recordImport(
        agreementKey: AgreementPublicKey, signingKey: SigningPublicKey, name: DisplayName, isFriend: (Fingerprint) -> Bool,
        at now: WallTime
    ) -> Bool {
        let fingerprint = Fingerprint(of: agreementKey)
        guard entries[fingerprint] != nil || makeRoom(forProven: true, friend: false, isFriend) else { return false }
        insert(
            Entry(
                agreementKey: agreementKey, signingKey: signingKey, name: name, origin: .imported, isProven: false, since: now,
                lastMet: now),
            fingerprint)
        return true
    }

    /// Removes a contact.
    /// - Returns: false when it is not known.
    @discardableResult
    package mutating func remove(_ fingerprint: Fingerprint) -> Bool {
        if keysByID[fingerprint.peerID] == fingerprint { keysByID[fingerprint.peerID] = nil }
        return entries.removeValue(forKey: fingerprint) != nil
    }

    private mutating func insert(_ entry: Entry, _ fingerprint: Fingerprint) {
        entries[fingerprint] = entry
        if keysByID[fingerprint.peerID] == nil { keysByID[fingerprint.peerID] = fingerprint }
    }

    /// Evicts the contact that was met the longest time ago, unproven ones first.
    private mutating func makeRoom(
        forProven isProven: Bool, friend: Bool, _ isFriend: (Fingerprint) -> Bool
    ) -> Bool {
        guard entries.count >= Self.capacity else { return true }
        var evicted: (fingerprint: Fingerprint, isProven: Bool, lastMet: WallTime)?
        for (fingerprint, entry) in entries where entry.origin == .met {
            let isEarlier = evicted.map { (entry.isProven ? 1 : 0, entry.lastMet) < ($0.isProven ? 1 : 0, $0.lastMet) } ?? true
            if isEarlier, !isFriend(fingerprint) { evicted = (fingerprint, entry.isProven, entry.lastMet) }
        }
        guard let evicted, isProven || friend || !evicted.isProven else { return false }
        return remove(evicted.fingerprint)
    }
}

extension ContactBook: Codable {
    /// The stored form of an entry.
    private struct Record: Codable {
        var agreementKey: String
        var signingKey: String
        var name: DisplayName
        var origin: Origin
        var isProven: Bool
        var since: WallTime
        var lastMet: WallTime

        init(_ entry: Entry) {
            agreementKey = Hex.encode(entry.agreementKey.bytes)
            signingKey = Hex.encode(entry.signingKey.bytes)
            name = entry.name
            origin = entry.origin
            isProven = entry.isProven
            since = entry.since
            lastMet = entry.lastMet
        }

        /// nil when a key is not valid.
        var entry: Entry? {
            guard let agreementKey = Hex.decode(agreementKey).flatMap({ try? AgreementPublicKey($0) }),
                let signingKey = Hex.decode(signingKey).flatMap({ try? SigningPublicKey($0) })
            else { return nil }
            return Entry(
                agreementKey: agreementKey, signingKey: signingKey, name: name, origin: origin, isProven: isProven,
                since: since, lastMet: lastMet)
        }
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        for record in try container.decode([Record].self).prefix(Self.capacity) {
            guard let entry = record.entry, entries[entry.fingerprint] == nil else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "a duplicate contact, or an invalid key")
            }
            insert(entry, entry.fingerprint)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        let sorted = entries.values.map(Record.init).sorted { $0.agreementKey < $1.agreementKey }
        try container.encode(sorted)
    }
}
