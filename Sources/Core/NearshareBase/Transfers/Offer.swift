/// The content that a sender asks a receiver to accept. The receiver rejects content that exceeds or differs from it.
public struct Offer: Sendable, Hashable {
    /// The limit on described items. Of further items only the number is known; their names arrive with their content.
    package static let maximumDescribedItems = 128

    /// The first 128 items, in the order of the content.
    public var items: [OfferedItem]
    /// The number of all items, the described ones included.
    package var itemCount: UInt32
    /// The number of entries in all items.
    package var entryCount: UInt64
    /// Bytes of content in all items; nil when the size of one is unknown.
    public var totalSize: UInt64?

    /// Describes the content. The counts are not checked.
    package init(items: [OfferedItem], itemCount: UInt32, entryCount: UInt64, totalSize: UInt64?) {
        self.items = items
        self.itemCount = itemCount
        self.entryCount = entryCount
        self.totalSize = totalSize
    }
}

extension Offer {
    /// The disk space that a file, folder or link takes besides its content, in bytes: most file systems allocate blocks of this
    /// size, and names and attributes take space as well (Q7).
    package static let diskByteCountPerEntry: UInt64 = 4096

    /// The disk space that the content takes, in bytes, as far as it is known.
    package var storedByteCount: UInt64 {
        (totalSize ?? 0).addingClamped(entryCount.multipliedClamped(by: Self.diskByteCountPerEntry))
    }

    /// The size that is compared with a limit on one transfer: a single file counts as its content alone.
    package var byteCountForLimit: UInt64 { Self.byteCountForLimit(storedByteCount) }

    /// The bytes that count towards a limit on the size of one transfer, of the disk space that it takes: one entry is free.
    package static func byteCountForLimit(_ stored: UInt64) -> UInt64 { stored.subtractingClamped(diskByteCountPerEntry) }
}

extension Offer {
    /// The offer of some of its files alone.
    /// - Parameters:
    ///   - files: those files; folders are counted only where they are among them.
    ///   - itemIndices: the indices of their items in the content, ascending.
    package func restricted(to files: [EntryHeader], inItems itemIndices: [UInt32]) -> Offer {
        let sizes = Dictionary(files.map { ($0.item, $0.size ?? 0) }) { $0.addingClamped($1) }
        let counts = Dictionary(files.map { ($0.item, UInt64(1)) }) { $0 + $1 }
        let described = itemIndices.compactMap { index -> OfferedItem? in
            guard items.indices.contains(Int(index)) else { return nil }
            var item = items[Int(index)]
            (item.size, item.entryCount) = (sizes[index], counts[index, default: 1])
            return item
        }
        return Offer(
            items: described, itemCount: UInt32(clamping: itemIndices.count), entryCount: UInt64(files.count),
            totalSize: sizes.values.reduce(0) { $0.addingClamped($1) })
    }

    /// The offer without items that its sender has withdrawn, for comparison with what is stored. The sizes of the items and their
    /// number are adjusted; ``entryCount``, ``totalSize`` and the entry counts of the items are not.
    /// - Parameters:
    ///   - byteCounts: the bytes of the withdrawn entries in each described item.
    ///   - itemIndices: the indices of the items of which something remains, ascending.
    package func withdrawing(_ byteCounts: [UInt32: UInt64], keepingItems itemIndices: [UInt32]) -> Offer {
        var offer = self
        offer.items = itemIndices.filter { $0 < UInt32(items.count) }.map { index in
            var item = items[Int(index)]
            item.size = item.size?.subtractingClamped(byteCounts[index] ?? 0)
            return item
        }
        offer.itemCount = UInt32(clamping: itemIndices.count)
        return offer
    }
}
