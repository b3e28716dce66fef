package import NearshareBase
package import NearshareCrypto

/// The keys that messages can be sealed for while their owners are away: of those who were met, and of those whose keys somebody
/// has brought. A value; ``ContactFile`` keeps it.
///
/// Knowing a key is not trusting it: what a person thinks of its owner stands in the ``TrustStore``.
package struct ContactBook: Sendable, Hashable {
    /// How a key came here.
    package enum Origin: String, Sendable, Hashable, Codable {
        /// Its owner was in reach and said it.
        case met
        /// A person on this machine read it from a file, and said whose it is.
        case imported
    }

    package struct Entry: Sendable, Hashable {
        package let agreementKey: AgreementPublicKey
        package let signingKey: SigningPublicKey
        /// What the owner called itself; of an imported one, what the local person calls it.
        package internal(set) var name: DisplayName
        package let origin: Origin
        /// The two keys were shown to belong together: its owner has said the signing key inside a Noise session.
        package internal(set) var isProven: Bool
        /// Since when these keys have been here.
        package let since: WallTime
        /// When its owner was last in reach, to ``ContactBook/meetingInterval``; of an imported one, as ``since``.
        package internal(set) var lastMet: WallTime

        package var fingerprint: Fingerprint { Fingerprint(of: agreementKey) }
        package var id: PeerID { fingerprint.peerID }
    }

    /// So many contacts are kept. Whoever makes up a thousand keys pushes out only others who were met, are nobody's friend, and
    /// have proven no more than they (R6).
    package static let capacity = 1_000

    /// Meeting somebody again counts as news after this long, so that the file isn't written at every word of theirs.
    package static let meetingInterval = Duration.seconds(3_600)

    package private(set) var entries: [Fingerprint: Entry] = [:]

    package init() {}

    package func entry(of fingerprint: Fingerprint) -> Entry? { entries[fingerprint] }

    /// A contact by the first 8 bytes of its fingerprint, as packets name it.
    package func entry(of id: PeerID) -> Entry? { entries.first { $0.key.peerID == id }?.value }

    // MARK: Changes

    /// Somebody was in reach and has said their keys. Keys that were imported stay as they are. Where the signing key is another
    /// than before, the first one stays until its owner proves the new one (K2).
    /// - Parameters:
    ///   - isProven: it was said inside a Noise session, so the owner of the agreement key has said it.
    ///   - isFriend: whom the local person calls a friend: they are never pushed out.
    /// - Returns: whether something has changed that is worth keeping; false also when there is no room.
    package mutating func recordMeeting(
        agreementKey: AgreementPublicKey, signingKey: SigningPublicKey, name: DisplayName, isProven: Bool,
        isFriend: (Fingerprint) -> Bool, at now: WallTime
    ) -> Bool {
        let fingerprint = Fingerprint(of: agreementKey)
        if let known = entries[fingerprint] {
            guard known.origin == .met else { return false }
            if known.signingKey == signingKey {
                return meetAgain(fingerprint, called: name, isProven: isProven, at: now)
            }
            guard isProven else { return false }
        } else {
            guard makeRoom(forProven: isProven, friend: isFriend(fingerprint), isFriend) else { return false }
        }
        entries[fingerprint] = Entry(
            agreementKey: agreementKey, signingKey: signingKey, name: name, origin: .met, isProven: isProven, since: now,
            lastMet: now)
        return true
    }

    private mutating func meetAgain(_ fingerprint: Fingerprint, called name: DisplayName, isProven: Bool, at now: WallTime)
        -> Bool
    {
        let known = entries[fingerprint]!
        var entry = known
        entry.name = name
        entry.isProven = known.isProven || isProven
        let interval = Self.meetingInterval.components.seconds * 1_000
        // A clock that was wrong for a while must not make this contact the newest, or the oldest, for good.
        if abs(now.milliseconds - known.lastMet.milliseconds) >= interval { entry.lastMet = now }
        entries[fingerprint] = entry
        return entry != known
    }

    /// The local person has read keys from a file: they replace what was known.
    /// - Parameter name: what the local person calls their owner.
    /// - Returns: false when there is no room, because all that are here are friends or were imported.
    package mutating func recordImport(
        agreementKey: AgreementPublicKey, signingKey: SigningPublicKey, name: DisplayName, isFriend: (Fingerprint) -> Bool,
        at now: WallTime
    ) -> Bool {
        let fingerprint = Fingerprint(of: agreementKey)
        guard entries[fingerprint] != nil || makeRoom(forProven: true, friend: false, isFriend) else { return false }
        entries[fingerprint] = Entry(
            agreementKey: agreementKey, signingKey: signingKey, name: name, origin: .imported, isProven: false, since: now,
            lastMet: now)
        return true
    }

    /// - Returns: false when no such contact is known.
    @discardableResult
    package mutating func remove(_ fingerprint: Fingerprint) -> Bool {
        entries.removeValue(forKey: fingerprint) != nil
    }

    /// Lets the one go that was met longest ago, those first who have proven nothing.
    private mutating func makeRoom(
        forProven isProven: Bool, friend: Bool, _ isFriend: (Fingerprint) -> Bool
    ) -> Bool {
        guard entries.count >= Self.capacity else { return true }
        let leaving = entries.filter { $0.value.origin == .met && !isFriend($0.key) }
            .min { ($0.value.isProven ? 1 : 0, $0.value.lastMet) < ($1.value.isProven ? 1 : 0, $1.value.lastMet) }
        guard let leaving, isProven || friend || !leaving.value.isProven else { return false }
        entries[leaving.key] = nil
        return true
    }
}

extension ContactBook: Codable {
    /// As it stands in the file.
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

        /// nil when one of the keys is none.
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
            guard let entry = record.entry, entries.updateValue(entry, forKey: entry.fingerprint) == nil else {
                throw DecodingError.dataCorruptedError(
                    in: container, debugDescription: "a contact stands in it twice, or with a key that is none")
            }
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        let sorted = entries.values.map(Record.init).sorted { $0.agreementKey < $1.agreementKey }
        try container.encode(sorted)
    }
}
