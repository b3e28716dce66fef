/// One item of an offer: a file, a folder with all its entries, or a text message.
public struct OfferedItem: Sendable, Hashable {
    /// A file, a folder or a text to read. The raw values are those of the wire format.
    public enum Kind: UInt8, Sendable {
        /// One file.
        case file = 0
        /// A folder with all its entries.
        case folder = 1
        /// A message to read rather than a file to keep; its content is UTF-8.
        case text = 2
    }

    /// File, folder or text.
    public var kind: Kind
    /// The name that the sender claims.
    public var name: ClaimedFileName
    /// Bytes of content; nil where the size cannot be known, as with standard input.
    public var size: UInt64?
    /// The number of files, folders and links, the item itself included: 1 for a file.
    package var entryCount: UInt64
    /// The type that the sender claims.
    package var mediaType: ClaimedMediaType

    /// Describes one item.
    package init(kind: Kind, name: ClaimedFileName, size: UInt64?, entryCount: UInt64, mediaType: ClaimedMediaType) {
        self.kind = kind
        self.name = name
        self.size = size
        self.entryCount = entryCount
        self.mediaType = mediaType
    }
}
