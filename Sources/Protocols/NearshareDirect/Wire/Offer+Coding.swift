internal import NearshareBase

// The wire format of an offer (docs/PROTOCOL.md, section 5).
//
//     item count u32 · entry count u64 · total size u64 (all ones: unknown) · described u16 ·
//     described times (kind u8 · size u64 · entry count u64 · name length u8 · name · type length u8 · type)

extension Offer {
    func write(to writer: inout ByteWriter) {
        writer.write(itemCount)
        writer.write(entryCount)
        writer.write(totalSize ?? Self.unknownSize)
        let described = items.prefix(Self.maximumDescribedItems)
        writer.write(UInt16(described.count))
        for item in described {
            writer.write(item.kind.rawValue)
            writer.write(item.size ?? Self.unknownSize)
            writer.write(item.entryCount)
            writer.writeCounted(item.name.bytes, by: UInt8.self)
            writer.writeCounted(item.mediaType.text.utf8, by: UInt8.self)
        }
    }

    init(from reader: inout ByteReader) throws(MalformedInput) {
        let itemCount: UInt32 = try reader.readInteger()
        let entryCount: UInt64 = try reader.readInteger()
        let totalSize: UInt64 = try reader.readInteger()
        let described: UInt16 = try reader.readInteger()
        guard described >= 1, described <= Self.maximumDescribedItems, UInt32(described) <= itemCount else {
            throw MalformedInput("offer: \(described) of \(itemCount) items described")
        }
        guard described == min(itemCount, UInt32(Self.maximumDescribedItems)) else {
            throw MalformedInput("offer: fewer items are described than the limit allows")
        }
        var items: [OfferedItem] = []
        var describedEntries: UInt64 = 0
        var describedBytes: UInt64 = 0
        var allSizesKnown = true
        for _ in 0..<described {
            guard let kind = OfferedItem.Kind(rawValue: try reader.readInteger()) else {
                throw MalformedInput("offer: an item of an unknown kind")
            }
            let size: UInt64 = try reader.readInteger()
            let entries: UInt64 = try reader.readInteger()
            let name = try reader.readCounted(by: UInt8.self, upTo: ClaimedFileName.maximumByteCount, field: "name")
            let type = try reader.readCounted(by: UInt8.self, upTo: ClaimedMediaType.maximumByteCount, field: "type")
            guard let claimedName = ClaimedFileName(bytes: name),
                let mediaType = ClaimedMediaType(String(decoding: type, as: UTF8.self))
            else { throw MalformedInput("offer: an invalid name or media type") }
            guard entries >= 1, kind == .folder || entries == 1 else {
                throw MalformedInput("offer: a file of \(entries) entries")
            }
            let (entrySum, entryOverflow) = describedEntries.addingReportingOverflow(entries)
            describedEntries = entrySum
            if size == Self.unknownSize {
                allSizesKnown = false
            } else {
                let (byteSum, byteOverflow) = describedBytes.addingReportingOverflow(size)
                guard !byteOverflow else { throw MalformedInput("offer: sizes overflow") }
                describedBytes = byteSum
            }
            guard !entryOverflow else { throw MalformedInput("offer: counts overflow") }
            items.append(
                OfferedItem(
                    kind: kind, name: claimedName, size: size == Self.unknownSize ? nil : size, entryCount: entries,
                    mediaType: mediaType))
        }
        let isWhole = UInt32(described) == itemCount
        guard isWhole ? describedEntries == entryCount : describedEntries < entryCount else {
            throw MalformedInput("offer: the counts of its items do not add up")
        }
        if totalSize != Self.unknownSize {
            guard allSizesKnown, isWhole ? describedBytes == totalSize : describedBytes <= totalSize else {
                throw MalformedInput("offer: the sizes of its items do not add up")
            }
        } else if isWhole, allSizesKnown {
            throw MalformedInput("offer: an unknown total of known sizes")
        }
        self.init(
            items: items, itemCount: itemCount, entryCount: entryCount,
            totalSize: totalSize == Self.unknownSize ? nil : totalSize)
    }

    private static let unknownSize = UInt64.max
}
