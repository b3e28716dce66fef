internal import NearshareBase
internal import NearshareCrypto

/// A hash over everything that an offer says: SHA-256 of its counts, and of kind, name, size, entries and type of each described
/// item, of the listed entries, and of the selected ones where a part was accepted. It binds kept content to what the user has
/// accepted (Q3, A12).
enum OfferDigest {
    static func of(_ offer: Offer, listed: [EntryHeader] = [], selection: EntrySelection? = nil) -> [UInt8] {
        var writer = ByteWriter()
        writer.write("nearshare offer".utf8)
        writer.write(offer.itemCount)
        writer.write(offer.entryCount)
        write(offer.totalSize, to: &writer)
        for item in offer.items {
            writer.write(item.kind.rawValue)
            write(item.size, to: &writer)
            writer.write(item.entryCount)
            writer.writeCounted(item.name.bytes, by: UInt32.self)
            writer.writeCounted(item.mediaType.text.utf8, by: UInt32.self)
        }
        writer.write(UInt64(listed.count))
        for entry in listed {
            writer.write(entry.item)
            writer.write(UInt8(entry.kind == .file ? 0 : entry.kind == .folder ? 1 : 2))
            writer.write(UInt64(entry.path.count))
            for name in entry.path { writer.writeCounted(name.bytes, by: UInt32.self) }
            write(entry.size, to: &writer)
        }
        for range in selection?.ranges ?? [] {
            writer.write(range.lowerBound)
            writer.write(range.upperBound)
        }
        return SHA256Hasher.digest(writer.bytes)
    }

    private static func write(_ size: UInt64?, to writer: inout ByteWriter) {
        writer.write(UInt8(size == nil ? 0 : 1))
        writer.write(size ?? 0)
    }
}
