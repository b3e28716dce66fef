package import Nearshare

/// A name that several peers have: how each is shown, and which of them a command uses (K2).
package enum SharedName {
    /// A peer's name, with the tag of its key where another contact has the name as well.
    package static func shown(
        _ name: DisplayName, of id: PeerID, among contacts: some Sequence<Contact>, columns: Int = 64
    ) -> String {
        name.shown(of: id, columns: columns, isTagged: contacts.contains { $0.id != id && areEqual($0.name, name) })
    }

    /// The sentence that tells the user which of several peers in range with one name is used: the one that the user knows.
    /// - Parameters:
    ///   - contact: the peer that the user's text selects.
    ///   - contacts: the contacts, which include the peers in range.
    /// - Returns: nil when no other peer in range has the name, and for a peer that is not known. Where that one is away, also the
    ///   ids of the others: one of them may be its new key.
    package static func notice(for contact: Contact, among contacts: [Contact]) -> String? {
        let others = contacts.filter { other in
            other.isNear && !other.trustStatus.isBlocked && other.id != contact.id
                && areEqual(other.name, contact.name)
        }
        let ids = Set(others.map(\.id)).sorted()
        let sentence = notice(
            for: contact.name, contact.id, contact.trustStatus, isNear: contact.isNear, otherCount: ids.count)
        guard let sentence, !contact.isNear else { return sentence }
        let choices = list(ids, separator: " or ") { ", or one of \($0) more, see `nearshare browse`" }
        return "\(sentence); if \(owner(contact.trustStatus)) has a new key, ask for its id, and use that id: \(choices)"
    }

    private static let maximumListedIDCount = 3

    /// The first of the ids, and the words about the number of the others.
    private static func list(_ ids: [PeerID], separator: String, more: (Int) -> String) -> String {
        let count = ids.count - maximumListedIDCount
        return ids.prefix(maximumListedIDCount).map(\.hex).joined(separator: separator) + (count > 0 ? more(count) : "")
    }

    static func notice(
        for name: DisplayName, _ id: PeerID, _ trustStatus: TrustStatus, isNear: Bool = true, otherCount: Int
    ) -> String? {
        guard otherCount > 0, trustStatus.isKnown else { return nil }
        let owner = owner(trustStatus)
        let count = isNear ? otherCount + 1 : otherCount
        let devices = count == 1 ? "another device nearby is" : "\(count) \(isNear ? "" : "other ")devices nearby are"
        return "\(devices) called \(name.quoted); using \(owner) (\(id))\(isNear ? "" : ", which is not nearby")"
    }

    /// The sentence for a peer in range that is used although the user knows other ones by its name, which are away.
    /// - Returns: nil where there are none, and for a peer that is not known.
    static func awayNotice(
        for name: DisplayName, _ id: PeerID, _ trustStatus: TrustStatus, besideKnown away: Set<PeerID>
    ) -> String? {
        guard !away.isEmpty, trustStatus.isKnown else { return nil }
        let ids = list(away.sorted(), separator: ", ") { ", \($0) more" }
        let devices = away.count == 1 ? "another device" : "\(away.count) other devices"
        return "you know \(devices) called \(name.quoted) (\(ids)), not seen now; using \(owner(trustStatus)) (\(id))"
    }

    private static func owner(_ trustStatus: TrustStatus) -> String {
        trustStatus.isFriend
            ? "your friend" : trustStatus.isVerified ? "the one that you have verified" : "the one that you know"
    }

    /// Whether two names select the same peers on a command line.
    package static func areEqual(_ name: DisplayName, _ other: DisplayName) -> Bool {
        name.claimed.lowercased() == other.claimed.lowercased()
    }
}
