/// The part of an offer that its receiver has selected. Both ends derive it from the offer, the listed entries and the selection
/// (`docs/PROTOCOL.md`, section 6.2).
package struct OfferPart: Sendable, Hashable {
    /// The selected entries.
    package let selection: EntrySelection
    /// The part as an offer of its own: the items with a selected entry, numbered from 0.
    package let offer: Offer
    /// The listed entries among the selected ones, which are the first of the part.
    package let contents: [EntryHeader]
    /// The part in numbers, for users.
    package let counts: Counts
    private let itemNumbers: [UInt32: UInt32]

    /// A part in numbers.
    package struct Counts: Sendable, Hashable {
        /// Accepted files and links; folders as well where not all accepted entries are listed.
        package var accepted: UInt64
        /// Offered files and links; folders as well where not all offered entries are listed.
        package var offered: UInt64
        /// Bytes of content in the part.
        package var size: UInt64

        /// Counts a part. The counts are not checked.
        package init(accepted: UInt64, offered: UInt64, size: UInt64) {
            (self.accepted, self.offered, self.size) = (accepted, offered, size)
        }
    }

    /// - Parameter listed: the first entries of the offer, as its sender has listed them; may be empty.
    /// - Returns: nil for a selection beyond the offer, of entries whose size the offer does not tell, and of an entry without
    ///   the folders that contain it.
    package init?(_ selection: EntrySelection, of offer: Offer, listed: [EntryHeader]) {
        guard selection.lastNumber < offer.entryCount, UInt64(listed.count) <= offer.entryCount else { return nil }
        var items: [OfferedItem] = []
        var numbers: [UInt32: UInt32] = [:]
        var contents: [EntryHeader] = []
        var first: UInt64 = 0
        for number in offer.items.indices {
            let item = offer.items[number]
            // Bounded: an item of an offer has at least one entry, and their sum is at most the offer's count.
            guard item.entryCount >= 1 else { return nil }
            let range = first...first.addingClamped(item.entryCount - 1)
            first = first.addingClamped(item.entryCount)
            let count = selection.entryCount(in: range)
            guard count > 0 else { continue }
            let chosen = Self.listed(listed, of: range, in: selection)
            guard chosen.allSatisfy({ $0.item == UInt32(number) }) else { return nil }
            if count < item.entryCount {
                guard let part = Self.item(of: chosen, kind: item.kind, type: item.mediaType), part.entryCount == count,
                    selection.contains(range.lowerBound)
                else { return nil }
                items.append(part)
            } else {
                items.append(item)
            }
            numbers[UInt32(number)] = UInt32(numbers.count)
            contents += chosen
        }
        // Items that are listed but not described.
        var rest = first < offer.entryCount ? Self.listed(listed, of: first...offer.entryCount - 1, in: selection) : [][...]
        while let header = rest.first {
            let entries = rest.prefix { $0.item == header.item }
            rest = rest.dropFirst(entries.count)
            let isFolder = header.kind == .folder
            guard
                let part = Self.item(
                    of: entries, kind: isFolder ? .folder : .file, type: isFolder ? .folder : .unknown),
                numbers.updateValue(UInt32(numbers.count), forKey: header.item) == nil
            else { return nil }
            items.append(part)
            contents += entries
        }
        var (size, count): (UInt64, UInt64) = (0, 0)
        for item in items {
            guard let itemSize = item.size else { return nil }
            size = size.addingClamped(itemSize)
            count = count.addingClamped(item.entryCount)
        }
        guard count == selection.entryCount, size <= offer.totalSize ?? 0 else { return nil }
        self.selection = selection
        self.offer = Offer(
            items: Array(items.prefix(Offer.maximumDescribedItems)), itemCount: UInt32(items.count), entryCount: count,
            totalSize: size)
        self.contents = contents.map { header in
            var header = header
            header.item = numbers[header.item] ?? 0
            return header
        }
        itemNumbers = numbers
        counts = Counts(
            accepted: EntryCounter(of: self.offer, listed: contents).total,
            offered: EntryCounter(of: offer, listed: listed).total, size: size)
    }

    /// An entry of the offer as one of the part; nil for one of an item that is not selected.
    package func renumbered(_ header: EntryHeader) -> EntryHeader? {
        guard let item = itemNumbers[header.item] else { return nil }
        var header = header
        header.item = item
        return header
    }

    /// The selected ones among the listed entries of a range.
    private static func listed(
        _ listed: [EntryHeader], of range: ClosedRange<UInt64>, in selection: EntrySelection
    ) -> ArraySlice<EntryHeader> {
        guard range.lowerBound < UInt64(listed.count) else { return [] }
        // Bounded: fewer than are listed.
        return listed.indices[Int(range.lowerBound)...].prefix { UInt64($0) <= range.upperBound }
            .filter { selection.contains(UInt64($0)) }.map { listed[$0] }[...]
    }

    /// An item of some listed entries; nil where a folder of one is missing, or the size of one is not known.
    private static func item(
        of entries: ArraySlice<EntryHeader>, kind: OfferedItem.Kind, type: ClaimedMediaType
    ) -> OfferedItem? {
        guard let first = entries.first, first.path.count == 1 else { return nil }
        var folders: Set<[ClaimedFileName]> = []
        var size: UInt64 = 0
        for entry in entries {
            guard let entrySize = entry.size, entry.path.count == 1 || folders.contains(Array(entry.path.dropLast())) else {
                return nil
            }
            if entry.kind == .folder { folders.insert(entry.path) }
            size = size.addingClamped(entrySize)
        }
        return OfferedItem(
            kind: kind, name: first.path[0], size: size, entryCount: UInt64(entries.count), mediaType: type)
    }
}
