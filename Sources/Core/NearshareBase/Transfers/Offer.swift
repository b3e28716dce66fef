/// The content that a sender asks a receiver to accept. The receiver rejects content that exceeds or differs from it.
package struct Offer: Sendable, Hashable {
    /// The limit on described items. Of further items only the number is known; their names arrive with their content.
    package static let maximumDescribedItems = 128

    /// The first ``maximumDescribedItems`` items, in the order of the content.
    package var items: [OfferedItem]
    /// The number of all items, the described ones included.
    package var itemCount: UInt32
    /// The number of entries in all items.
    package var entryCount: UInt64
    /// Bytes of content in all items; nil when the size of one is unknown.
    package var totalSize: UInt64?

    /// Describes the content. The counts are not checked.
    package init(items: [OfferedItem], itemCount: UInt32, entryCount: UInt64, totalSize: UInt64?) {
        self.items = items
        self.itemCount = itemCount
        self.entryCount = entryCount
        self.totalSize = totalSize
    }
}
