package import NearshareBase
internal import NearshareCrypto

/// The offers that the user has accepted and whose transfers are not complete, for a process that is started after this one has
/// ended, also by a crash: the same offer of the same peer needs no second answer. A value; ``AnsweredOfferFile`` stores it.
package struct AnsweredOffers: Sendable, Hashable, Codable {
    private struct Entry: Sendable, Hashable, Codable {
        /// A hash of the offer, its list, and the resume key, which is the same on each attempt of the sender.
        var digest: String
        var sender: Fingerprint
        /// The time of the answer, or of its last renewal by the running transfer.
        var accepted: WallTime

        private enum CodingKeys: String, CodingKey {
            case digest, sender
            case accepted = "interrupted"
        }
    }

    /// Time in which the answer counts, after it was given or the transfer last ran.
    package static let lifetime = Duration.seconds(600)
    /// Interval at which a running transfer renews the answer. After a crash, the sender has ``lifetime`` less this time.
    package static let renewalInterval = Duration.seconds(60)
    /// Limit on offers, beyond which the one that was accepted first is dropped.
    package static let capacity = 64

    private var entries: [Entry] = []

    package init() {}

    /// Identifies an offer of all of its content.
    /// - Parameters:
    ///   - listed: its first entries, which the user could see (A12).
    ///   - consequences: what the receiver does with it, for which the user has accepted it: another inbox, or one whose files it
    ///     may replace, is a reason to ask again.
    package static func digest(
        of offer: Offer, listed: [EntryHeader], resumeKey: [UInt8], consequences: [String]
    ) -> String {
        let bytes = consequences.flatMap { Array(SHA256Hasher.digest(Array($0.utf8))) }
        return Hex.encode(SHA256Hasher.digest(OfferDigest.of(offer, listed: listed) + resumeKey + bytes))
    }

    package func contains(_ digest: String, of sender: Fingerprint, at now: WallTime) -> Bool {
        entries.contains { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
    }

    /// Removes the offers of a peer.
    package mutating func removeAll(of sender: Fingerprint) { entries.removeAll { $0.sender == sender } }

    /// Stores the answer to an offer, or removes it, so that the user is asked again. The time of an answer that is stored
    /// already stays.
    package mutating func update(_ digest: String, of sender: Fingerprint, isAccepted: Bool, at now: WallTime) {
        let first = entries.first { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        entries.removeAll { ($0.digest == digest && $0.sender == sender) || !Self.isValid($0, at: now) }
        guard isAccepted else { return }
        entries.append(Entry(digest: digest, sender: sender, accepted: first?.accepted ?? now))
        entries = entries.suffix(Self.capacity)
    }

    /// Renews the time of a stored answer, whose transfer runs. No effect on an answer that does not count any more.
    package mutating func renew(_ digest: String, of sender: Fingerprint, at now: WallTime) {
        let index = entries.firstIndex { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        if let index { entries[index].accepted = now }
    }

    private static func isValid(_ entry: Entry, at now: WallTime) -> Bool {
        let (age, overflow) = now.milliseconds.subtractingReportingOverflow(entry.accepted.milliseconds)
        return !overflow && age >= 0 && .milliseconds(age) < lifetime
    }
}

/// The file with the answers.
package typealias AnsweredOfferFile = StateFile<AnsweredOffers>

extension StateFile where Value == AnsweredOffers {
    package convenience init(in directory: StateDirectory) {
        self.init("interrupted-offers.json", in: directory, startingWith: AnsweredOffers())
    }
}
