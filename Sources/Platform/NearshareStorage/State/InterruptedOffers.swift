package import NearshareBase
internal import NearshareCrypto

/// The offers that the user has accepted and whose transfers were interrupted: the same offer of the same peer needs no second
/// answer, also of a process that was started again meanwhile. A value; ``InterruptedOfferFile`` stores it.
package struct InterruptedOffers: Sendable, Hashable, Codable {
    private struct Entry: Sendable, Hashable, Codable {
        /// A hash of the offer, its list, and the key by which the sender names it on each try.
        var digest: String
        var sender: Fingerprint
        var interrupted: WallTime
    }

    /// Time after an interruption in which the answer counts.
    package static let lifetime = Duration.seconds(600)
    /// Limit on offers, beyond which the one that was interrupted first is dropped.
    static let capacity = 64

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

    /// Records an interruption, or another end after which the user is asked again. The time counts from the first interruption.
    package mutating func update(_ digest: String, of sender: Fingerprint, isInterrupted: Bool, at now: WallTime) {
        let first = entries.first { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        entries.removeAll { ($0.digest == digest && $0.sender == sender) || !Self.isValid($0, at: now) }
        guard isInterrupted else { return }
        entries.append(Entry(digest: digest, sender: sender, interrupted: first?.interrupted ?? now))
        entries = entries.suffix(Self.capacity)
    }

    private static func isValid(_ entry: Entry, at now: WallTime) -> Bool {
        let (age, overflow) = now.milliseconds.subtractingReportingOverflow(entry.interrupted.milliseconds)
        return !overflow && age >= 0 && .milliseconds(age) < lifetime
    }
}

/// The stored offers.
package typealias InterruptedOfferFile = StateFile<InterruptedOffers>

extension StateFile where Value == InterruptedOffers {
    package convenience init(in directory: StateDirectory) {
        self.init("interrupted-offers.json", in: directory, startingWith: InterruptedOffers())
    }
}
