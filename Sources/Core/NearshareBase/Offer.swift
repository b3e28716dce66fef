// What an invitation offers, and what a transfer's stream is made of: the nouns that sender, receiver and inbox share.

/// A MIME type as somebody claims it: printable ASCII, `type/subtype`, at most 100 bytes. A hint, never acted upon.
package struct ClaimedMediaType: Sendable, Hashable {
    /// Longer ones are cut by nobody but refused.
    package static let maximumByteCount = 100
    /// For content of which nobody has said anything.
    package static let unknown = ClaimedMediaType("application/octet-stream")!
    /// For folders.
    package static let folder = ClaimedMediaType("inode/directory")!
    /// For messages to read.
    package static let text = ClaimedMediaType("text/plain")!

    /// As the other side wrote it: printable ASCII without spaces.
    package let text: String

    /// - Returns: nil for what has not the form of a MIME type.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maximumByteCount, parts.count == 2, parts.allSatisfy({ !$0.isEmpty }),
            text.utf8.allSatisfy({ (0x21...0x7e).contains($0) })
        else { return nil }
        self.text = text
    }
}

extension ClaimedMediaType: CustomStringConvertible {
    package var description: String { text }
}

/// One thing that a person named on the command line: a file, a folder with all in it, or a piece of text.
package struct OfferedItem: Sendable, Hashable {
    /// What an item is to whoever receives it.
    package enum Kind: UInt8, Sendable {
        /// One file.
        case file = 0
        /// A folder with all that is in it.
        case folder = 1
        /// A message to read rather than a file to keep; its content is UTF-8.
        case text = 2
    }

    /// File, folder or text.
    package var kind: Kind
    /// As the sender calls it.
    package var name: ClaimedFileName
    /// Bytes of content in it; nil where it can't be known (standard input).
    package var size: UInt64?
    /// Files, folders and links in it, itself included: 1 for a file.
    package var entryCount: UInt64
    /// What the sender says it is.
    package var mediaType: ClaimedMediaType

    /// Puts an item together.
    package init(kind: Kind, name: ClaimedFileName, size: UInt64?, entryCount: UInt64, mediaType: ClaimedMediaType) {
        self.kind = kind
        self.name = name
        self.size = size
        self.entryCount = entryCount
        self.mediaType = mediaType
    }
}

/// What a sender asks a receiver to accept. The receiver holds the sender to it.
package struct Offer: Sendable, Hashable {
    /// So many items are described; of more only the number is told, and their names arrive with their content.
    package static let maximumDescribedItems = 128

    /// The first ``maximumDescribedItems``, in the order in which they are sent.
    package var items: [OfferedItem]
    /// All items, the described ones included.
    package var itemCount: UInt32
    /// Entries in all items together.
    package var entryCount: UInt64
    /// Bytes of content in all items together; nil when one is unknown.
    package var totalSize: UInt64?

    /// Puts an offer together; nothing is checked.
    package init(items: [OfferedItem], itemCount: UInt32, entryCount: UInt64, totalSize: UInt64?) {
        self.items = items
        self.itemCount = itemCount
        self.entryCount = entryCount
        self.totalSize = totalSize
    }
}

/// One file, folder or link in a transfer's stream; its content follows it.
package struct EntryHeader: Sendable, Hashable {
    /// Folders may be this deep and no deeper.
    package static let maximumDepth = 128
    /// Bytes of all components of one path together.
    package static let maximumPathByteCount = 4096

    /// What an entry becomes at the receiver.
    package enum Kind: Sendable, Hashable {
        /// A file; its content follows.
        case file
        /// A folder; its entries follow.
        case folder
        /// Where a symbolic link points, as it was written at the sender: at most ``maximumPathByteCount`` bytes.
        case link(target: [UInt8])
    }

    /// Which of the offer's items it belongs to, from 0.
    package var item: UInt32
    /// File, folder or link.
    package var kind: Kind
    /// From the item's own name down to this entry: 1 to ``maximumDepth`` components.
    package var path: [ClaimedFileName]
    /// Bytes of content that follow; nil where it can't be known. 0 for folders and links.
    package var size: UInt64?
    /// When the content was last changed, in nanoseconds since 1970; nil where there is no such time (standard input).
    package var modified: Int64?
    /// Permission bits (the lowest nine) to keep; nil for the receiver's usual ones.
    package var permissions: UInt16?

    /// Puts a header together; nothing is checked.
    package init(item: UInt32, kind: Kind, path: [ClaimedFileName], size: UInt64?, modified: Int64?, permissions: UInt16?) {
        self.item = item
        self.kind = kind
        self.path = path
        self.size = size
        self.modified = modified
        self.permissions = permissions
    }
}

/// How much of an offer a receiver has kept from an earlier try, in a form that the sender can check against its source.
package struct ResumePoint: Sendable, Hashable {
    /// From the first byte.
    package static let start = ResumePoint(completeEntries: 0, entriesDigest: [], partialSize: 0, partialDigest: [])

    /// So many entries, from the first in stream order, are complete.
    package var completeEntries: UInt64
    /// SHA-256 chained over the headers of these entries (`docs/PROTOCOL.md`, "Resuming"); empty when there are none.
    package var entriesDigest: [UInt8]
    /// Bytes of the next entry's content that are there already.
    package var partialSize: UInt64
    /// SHA-256 of these bytes; empty when there are none.
    package var partialDigest: [UInt8]

    /// Puts a point together; nothing is checked.
    package init(completeEntries: UInt64, entriesDigest: [UInt8], partialSize: UInt64, partialDigest: [UInt8]) {
        self.completeEntries = completeEntries
        self.entriesDigest = entriesDigest
        self.partialSize = partialSize
        self.partialDigest = partialDigest
    }
}
