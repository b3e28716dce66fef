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
        /// The first and last entries of the ranges of the accepted part; nil for the whole offer.
        var part: [UInt64]?

        private enum CodingKeys: String, CodingKey {
            case digest, sender, part
            // The name of an earlier version, whose files are read.
            case accepted = "interrupted"
        }
    }

    /// Time in which the answer counts, after it was given or the transfer last ran.
    package static let lifetime = Duration.seconds(600)
    /// Interval at which a running transfer renews the answer. After a crash, the sender has ``lifetime`` less this time.
    package static let renewalInterval = Duration.seconds(60)
    /// Limit on offers; the one whose answer or renewal is oldest gives way.
    package static let capacity = 64

    private var entries: [Entry] = []

    /// The user's answer to an offer.
    package enum Answer: Sendable, Hashable {
        case all
        case part(EntrySelection)
    }

    package init() {}

    /// Identifies an offer, whatever part of it was accepted.
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

    /// - Returns: nil for an offer that the user has not accepted, or too long ago.
    package func answer(to digest: String, of sender: Fingerprint, at now: WallTime) -> Answer? {
        let found = entries.first { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        guard let found else { return nil }
        guard let part = found.part else { return .all }
        return Self.selection(part).map { .part($0) }
    }

    /// Removes the offers of a peer.
    package mutating func removeAll(of sender: Fingerprint) { entries.removeAll { $0.sender == sender } }

    /// Stores the answer to an offer, or removes it, so that the user is asked again. A stored answer keeps its time.
    /// - Parameter answer: nil to remove it.
    package mutating func update(_ digest: String, of sender: Fingerprint, _ answer: Answer?, at now: WallTime) {
        let stored = entries.first { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        entries.removeAll { ($0.digest == digest && $0.sender == sender) || !Self.isValid($0, at: now) }
        guard let answer else { return }
        var part: [UInt64]?
        if case .part(let selection) = answer { part = selection.ranges.flatMap { [$0.lowerBound, $0.upperBound] } }
        entries.append(Entry(digest: digest, sender: sender, accepted: stored?.accepted ?? now, part: part))
        entries = entries.sorted { $0.accepted < $1.accepted }.suffix(Self.capacity)
    }

    /// Renews the time of a stored answer, whose transfer runs. No effect on an answer that does not count any more.
    package mutating func renew(_ digest: String, of sender: Fingerprint, at now: WallTime) {
        let index = entries.firstIndex { $0.digest == digest && $0.sender == sender && Self.isValid($0, at: now) }
        if let index { entries[index].accepted = now }
    }

    /// - Returns: nil for ranges that are no selection.
    private static func selection(_ bounds: [UInt64]) -> EntrySelection? {
        guard bounds.count.isMultiple(of: 2) else { return nil }
        var ranges: [ClosedRange<UInt64>] = []
        for index in stride(from: 0, to: bounds.count, by: 2) {
            guard bounds[index] <= bounds[index + 1] else { return nil }
            ranges.append(bounds[index]...bounds[index + 1])
        }
        return EntrySelection(ranges: ranges)
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
        // The name of an earlier version, whose files are read.
        self.init("interrupted-offers.json", in: directory, startingWith: AnsweredOffers())
    }
}
