internal import Nearshare

/// The accepted offers that are not complete. The same offer of the same peer, sent again after the link broke, needs no second
/// answer of the user. What a policy has accepted is decided again by the policy.
struct AcceptedOffers: Sendable {
    /// Identifies content of one sender, the same on each attempt.
    struct Identity: Hashable, Sendable {
        var sender: Fingerprint
        var resumeKey: [UInt8]
    }

    private struct Entry {
        var offer: Offer
        /// The list of its first entries, which the user could see (A12).
        var listed: [EntryHeader]
        /// nil for the whole offer.
        var part: OfferPart?
        /// Whether the user has accepted this attempt or an earlier one: otherwise the policy has accepted it.
        var isAnswered: Bool
        /// nil while the transfer runs.
        var expiry: MonotonicInstant?
    }

    /// Time after an interruption in which the answer counts.
    static let lifetime = AnsweredOffers.lifetime
    /// Limit on remembered offers, beyond which the interrupted one that expires first is dropped.
    static let capacity = AnsweredOffers.capacity

    private var entries: [Identity: Entry] = [:]

    /// The user's answer to an offer.
    enum Answer: Sendable, Hashable {
        case all
        case part(OfferPart)
    }

    /// - Parameter listed: the first entries of the offer.
    /// - Returns: nil for an offer that the user has not accepted, or not as it is now.
    func answer(
        to offer: Offer, listed: [EntryHeader], _ identity: Identity, now: MonotonicInstant
    ) -> Answer? {
        guard let entry = entries[identity], entry.isAnswered, entry.offer == offer, entry.listed == listed,
            entry.expiry.map({ now < $0 }) ?? true
        else { return nil }
        return entry.part.map { .part($0) } ?? .all
    }

    /// Records that an offer is accepted.
    /// - Parameter isAnswered: whether the user has accepted this attempt or an earlier one.
    mutating func accept(
        _ offer: Offer, part: OfferPart? = nil, listed: [EntryHeader], _ identity: Identity, isAnswered: Bool = true
    ) {
        entries[identity] = Entry(offer: offer, listed: listed, part: part, isAnswered: isAnswered)
        guard entries.count > Self.capacity else { return }
        // Running transfers are limited elsewhere (R3).
        let ended = entries.compactMap { identity, entry in entry.expiry.map { (identity, $0) } }
        if let oldest = ended.min(by: { $0.1 < $1.1 }) { entries[oldest.0] = nil }
    }

    /// Records the end of a transfer. Only an interruption leaves the answer valid.
    /// - Returns: the user's answer; nil where the policy has accepted it.
    @discardableResult
    mutating func end(_ identity: Identity, _ outcome: TransferOutcome, now: MonotonicInstant) -> Answer? {
        let answer: Answer? = entries[identity].flatMap { $0.isAnswered ? $0.part.map { .part($0) } ?? .all : nil }
        if outcome == .interrupted {
            entries[identity]?.expiry = now + Self.lifetime
        } else {
            entries[identity] = nil
        }
        return answer
    }
}
