/// The header of one file, folder or link in a content stream; a file's content follows it.
package struct EntryHeader: Sendable, Hashable {
    /// The limit on components of a path.
    package static let maximumDepth = 128
    /// The limit on the bytes of a path, without separators.
    package static let maximumPathByteCount = 4096

    /// The kind of an entry.
    package enum Kind: Sendable, Hashable {
        /// A file; its content follows.
        case file
        /// A folder; its entries follow.
        case folder
        /// A symbolic link with its target as the sender has it: at most ``maximumPathByteCount`` bytes.
        case link(target: [UInt8])
    }

    /// The index of the offer's item to which the entry belongs, from 0.
    package var item: UInt32
    /// File, folder or link.
    package var kind: Kind
    /// The path from the item's own name to this entry: 1 to ``maximumDepth`` components.
    package var path: [ClaimedFileName]
    /// Bytes of content that follow: nil where the size cannot be known, 0 for folders and links.
    package var size: UInt64?
    /// The time of the last modification, in nanoseconds since 1970; nil for standard input.
    package var modified: Int64?
    /// The lowest nine permission bits; nil for the receiver's defaults.
    package var permissions: UInt16?

    /// The form in which an entry is listed before the receiver decides: without times, permissions and targets of links.
    package var listed: EntryHeader {
        let isLink = if case .link = kind { true } else { false }
        return EntryHeader(
            item: item, kind: isLink ? .link(target: []) : kind, path: path, size: size, modified: nil, permissions: nil)
    }

    /// Describes one entry. The limits are not checked.
    package init(item: UInt32, kind: Kind, path: [ClaimedFileName], size: UInt64?, modified: Int64?, permissions: UInt16?) {
        self.item = item
        self.kind = kind
        self.path = path
        self.size = size
        self.modified = modified
        self.permissions = permissions
    }
}
