package import NearshareBase

// The header of one entry in a content stream (docs/PROTOCOL.md, section 6).
//
//     item u32 · kind u8 · flags u8 · [size u64] · [modified i64] · [permissions u16] ·
//     depth u8 · depth times (length u8 · name) · [target length u16 · target]

extension EntryHeader {
    /// The size of the longest encoded header.
    package static let maximumEncodedByteCount =
        4 + 2 + 8 + 8 + 2 + 1 + maximumDepth + maximumPathByteCount + 2 + maximumPathByteCount

    /// The header's bytes in the content stream, without mark and length.
    package var encoded: [UInt8] {
        var writer = ByteWriter(reserving: 64)
        writer.write(item)
        var flags: UInt8 = 0
        if size != nil { flags |= Flag.size }
        if modified != nil { flags |= Flag.modified }
        if permissions != nil { flags |= Flag.permissions }
        writer.write(kindCode)
        writer.write(flags)
        if let size { writer.write(size) }
        if let modified { writer.write(UInt64(bitPattern: modified)) }
        if let permissions { writer.write(permissions) }
        writer.write(UInt8(path.count))
        for name in path { writer.writeCounted(name.bytes, by: UInt8.self) }
        if case .link(let target) = kind { writer.writeCounted(target, by: UInt16.self) }
        return writer.bytes
    }

    /// Decodes exactly one header and checks every limit of ``EntryHeader``.
    package init(decoding bytes: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(bytes, of: "entry")
        let item: UInt32 = try reader.readInteger()
        let kindCode: UInt8 = try reader.readInteger()
        let flags: UInt8 = try reader.readInteger()
        guard flags & ~Flag.all == 0 else { throw MalformedInput("entry: unknown flags") }
        let size: UInt64? = flags & Flag.size != 0 ? try reader.readInteger() : nil
        let modified: UInt64? = flags & Flag.modified != 0 ? try reader.readInteger() : nil
        let permissions: UInt16? = flags & Flag.permissions != 0 ? try reader.readInteger() : nil
        guard permissions ?? 0 <= 0o777 else { throw MalformedInput("entry: permissions beyond the lowest nine bits") }
        let depth: UInt8 = try reader.readInteger()
        guard (1...Self.maximumDepth).contains(Int(depth)) else { throw MalformedInput("entry: a path of \(depth) components") }
        var path: [ClaimedFileName] = []
        path.reserveCapacity(Int(depth))
        var pathBytes = 0
        for _ in 0..<depth {
            let name = try reader.readCounted(by: UInt8.self, upTo: ClaimedFileName.maximumByteCount, field: "name")
            pathBytes += name.count
            guard pathBytes <= Self.maximumPathByteCount, let claimed = ClaimedFileName(bytes: name) else {
                throw MalformedInput("entry: the path is too long")
            }
            path.append(claimed)
        }
        let kind: Kind
        switch kindCode {
        case 0: kind = .file
        case 1: kind = .folder
        case 2:
            kind = .link(
                target: Array(try reader.readCounted(by: UInt16.self, upTo: Self.maximumPathByteCount, field: "link target")))
        default: throw MalformedInput("entry: unknown kind \(kindCode)")
        }
        guard kindCode == 0 || size == 0 else { throw MalformedInput("entry: only files have content") }
        try reader.finish()
        self.init(
            item: item, kind: kind, path: path, size: size, modified: modified.map { Int64(bitPattern: $0) },
            permissions: permissions)
    }

    private var kindCode: UInt8 {
        switch kind {
        case .file: 0
        case .folder: 1
        case .link: 2
        }
    }

    private enum Flag {
        static let size: UInt8 = 1
        static let modified: UInt8 = 2
        static let permissions: UInt8 = 4
        static let all: UInt8 = 7
    }
}
