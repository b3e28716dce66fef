package import NearshareBase

/// A message of the browser (`docs/PROTOCOL.md`, section 15.4).
enum PageMessage: Sendable, Hashable {
    case offer(PageOffer)
    /// Withdraws or cancels the current offer.
    case cancel
    /// Asks for what the node sends.
    case request
    /// The browser has an item whole.
    /// - Parameter item: counted from 1.
    case received(item: UInt32)

    /// Limit on a sealed message: a list of ``PageOffer/maximumItemCount`` long names fits.
    static let maximumByteCount = 1 << 18

    private static let offerType: UInt8 = 1
    private static let cancelType: UInt8 = 2
    private static let requestType: UInt8 = 3
    private static let receivedType: UInt8 = 4

    init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "page message")
        switch try reader.readInteger(UInt8.self) {
        case Self.offerType: self = .offer(try PageOffer(from: &reader))
        case Self.cancelType: self = .cancel
        case Self.requestType: self = .request
        case Self.receivedType: self = .received(item: try reader.readInteger())
        default: throw MalformedInput("page message: unknown type")
        }
        try reader.finish()
    }
}

/// The files, or the text, that a browser offers. Their content follows in the same order.
package struct PageOffer: Sendable, Hashable {
    /// One file or text.
    struct Item: Sendable, Hashable {
        var kind: OfferedItem.Kind
        var name: ClaimedFileName
        var mediaType: ClaimedMediaType
        var size: UInt64
        /// Milliseconds since 1970; nil for none.
        var modified: Int64?
    }

    /// Limit on items: a picker of photos gives several hundred.
    static let maximumItemCount = 1000
    /// Limit on the content: the number of chunks has 32 bits.
    static let maximumTotalSize: UInt64 = 1 << 48

    let items: [Item]
    /// The size of the content.
    package let totalSize: UInt64

    /// Decodes an offer without the type of its message.
    package init(decoding bytes: [UInt8]) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "page offer")
        self = try PageOffer(from: &reader)
        try reader.finish()
    }

    init(from reader: inout ByteReader) throws(MalformedInput) {
        let count = Int(try reader.readInteger(UInt16.self))
        guard (1...Self.maximumItemCount).contains(count) else { throw MalformedInput("page offer: the number of items") }
        var items: [Item] = []
        var total: UInt64 = 0
        for _ in 0..<count {
            let item = try Item(from: &reader)
            let (sum, overflow) = total.addingReportingOverflow(item.size)
            guard !overflow, sum <= Self.maximumTotalSize else { throw MalformedInput("page offer: too large") }
            total = sum
            items.append(item)
        }
        self.items = items
        totalSize = total
    }

    /// The offer as every protocol makes it.
    package var offer: Offer {
        Offer(
            items: items.prefix(Offer.maximumDescribedItems).map { item in
                OfferedItem(kind: item.kind, name: item.name, size: item.size, entryCount: 1, mediaType: item.mediaType)
            },
            itemCount: UInt32(clamping: items.count), entryCount: UInt64(items.count), totalSize: totalSize)
    }

    /// The headers of the items' content.
    package var entries: [EntryHeader] {
        items.enumerated().map { index, item in
            EntryHeader(
                item: UInt32(clamping: index), kind: .file, path: [item.name], size: item.size,
                modified: item.modified.map { Int64(clamping: Int128($0) * 1_000_000) }, permissions: nil)
        }
    }
}

extension PageOffer.Item {
    fileprivate init(from reader: inout ByteReader) throws(MalformedInput) {
        guard let kind = OfferedItem.Kind(rawValue: try reader.readInteger(UInt8.self)), kind != .folder else {
            throw MalformedInput("page offer: the kind of an item")
        }
        let name = try reader.readCounted(by: UInt8.self, upTo: ClaimedFileName.maximumByteCount, field: "a name")
        let type = try reader.readCounted(by: UInt8.self, upTo: ClaimedMediaType.maximumByteCount, field: "a media type")
        guard let name = ClaimedFileName(bytes: name) else { throw MalformedInput("page offer: a name") }
        self.kind = kind
        self.name = name
        mediaType = ClaimedMediaType(String(decoding: type, as: UTF8.self)) ?? (kind == .text ? .text : .unknown)
        size = try reader.readInteger()
        let modified = Int64(bitPattern: try reader.readInteger(UInt64.self))
        self.modified = modified == 0 ? nil : modified
    }
}
