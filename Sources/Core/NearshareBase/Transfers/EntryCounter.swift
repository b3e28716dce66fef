/// Counts the entries of an offer for users: files and links. Folders count as well where not all entries are listed, because
/// their number is not known then.
package struct EntryCounter: Sendable, Hashable {
    /// The number of counted entries.
    package let total: UInt64
    /// The numbers of the entries that do not count, ascending.
    private let folders: [UInt64]

    /// - Parameter contents: the first entries, as they are listed; may be empty.
    package init(of offer: Offer, listed contents: [EntryHeader]) {
        let isListed = UInt64(contents.count) == offer.entryCount
        folders = isListed ? contents.indices.filter { contents[$0].kind == .folder }.map { UInt64($0) } : []
        total = offer.entryCount.subtractingClamped(UInt64(folders.count))
    }

    /// Counts among the first `number` entries.
    package func count(upTo number: UInt64) -> UInt64 {
        number.subtractingClamped(UInt64(folders.prefix { $0 < number }.count))
    }
}
