package import NearshareBase

/// A file as one value (bitchat specification, section 7.1): fields of type u8 · length u16 · value, the content with length
/// u32. All of it is claimed by its sender.
package struct MeshFile: Sendable, Hashable {
    /// Limit on the content.
    package static let maximumContentByteCount = MeshFileLimit.byteCount

    /// The file name; nil when it is missing or not valid UTF-8.
    package var name: String?
    /// The claimed media type; nil when it is missing.
    package var mediaType: String?
    /// The claimed size of the content, in bytes; nil when it is missing.
    package var declaredSize: UInt64?
    package var content: ArraySlice<UInt8>

    package init(name: String?, mediaType: String?, declaredSize: UInt64? = nil, content: ArraySlice<UInt8>) {
        self.name = name
        self.mediaType = mediaType
        self.declaredSize = declaredSize
        self.content = content
    }

    /// The name as a claim, truncated to its limit; empty where it is missing.
    package var claimedName: ClaimedFileName {
        // Safe: a claimed name accepts any bytes up to the limit that the prefix keeps.
        ClaimedFileName(bytes: Array((name ?? "").utf8.prefix(ClaimedFileName.maximumByteCount)))!
    }

    /// - Throws: ``MalformedInput`` for a name or a type over 65,535 bytes, a size over 32 bits, or content over 5 MiB.
    package func encoded() throws(MalformedInput) -> [UInt8] {
        let size = declaredSize ?? UInt64(content.count)
        guard content.count <= Self.maximumContentByteCount, size <= UInt32.max,
            (name?.utf8.count ?? 0) <= 65_535, (mediaType?.utf8.count ?? 0) <= 65_535
        else { throw MalformedInput("file: a field is too long") }
        var writer = ByteWriter(reserving: content.count + 64)
        if let name {
            writer.write(Field.name)
            writer.writeCounted(name.utf8, by: UInt16.self)
        }
        writer.write(Field.size)
        writer.write(UInt16(4))
        writer.write(UInt32(clamping: size))
        if let mediaType {
            writer.write(Field.mediaType)
            writer.writeCounted(mediaType.utf8, by: UInt16.self)
        }
        writer.write(Field.content)
        writer.writeCounted(content, by: UInt32.self)
        return writer.bytes
    }

    /// Decodes a file as tolerantly as the phone apps: any order, unknown fields skipped, content in several pieces.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "file")
        var content: ArraySlice<UInt8>?
        while reader.remaining > 0 {
            let type: UInt8 = try reader.readInteger()
            if type == Field.content {
                let piece = try Self.readContent(&reader, in: bytes)
                // Joined at once: many small slices would take many times the memory of their bytes (R1).
                if content == nil { content = piece } else { content?.append(contentsOf: piece) }
                continue
            }
            let value = try reader.readCounted(by: UInt16.self, upTo: 65_535, field: "a field")
            switch type {
            case Field.name: name = String(validating: value, as: UTF8.self)
            case Field.mediaType: mediaType = String(validating: value, as: UTF8.self)
            case Field.size where value.count == 4 || value.count == 8:
                let size = value.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                guard size <= Self.maximumContentByteCount else {
                    throw MalformedInput("file: the declared size exceeds 5 MiB")
                }
                declaredSize = size
            default: continue
            }
        }
        guard let content else { throw MalformedInput("file: it has no content") }
        self.content = content
        guard content.count <= Self.maximumContentByteCount else { throw MalformedInput("file: the content exceeds 5 MiB") }
    }

    /// Older senders wrote a 2-byte length; it is assumed where 4 bytes would run past the end.
    private static func readContent(
        _ reader: inout ByteReader, in bytes: ArraySlice<UInt8>
    ) throws(MalformedInput) -> ArraySlice<UInt8> {
        let rest = bytes.suffix(reader.remaining)
        if rest.count >= 4 {
            let count = Int(truncatingBigEndian: rest.prefix(4))
            if count <= rest.count - 4 {
                return try reader.readCounted(by: UInt32.self, upTo: count, field: "the content")
            }
        }
        let piece = try reader.readCounted(by: UInt16.self, upTo: 65_535, field: "the content")
        // The first half of a 4-byte length, with the rest missing, would decode as an empty file.
        guard !piece.isEmpty else { throw MalformedInput("file: truncated content") }
        return piece
    }

    private enum Field {
        static let name: UInt8 = 0x01
        static let size: UInt8 = 0x02
        static let mediaType: UInt8 = 0x03
        static let content: UInt8 = 0x04
    }
}
