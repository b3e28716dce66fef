internal import Glibc
internal import NearshareBase

/// The bytes of an archive around the contents, and its central directory.
struct ZipLayout {
    struct Entry {
        /// The local file header.
        let header: [UInt8]
        fileprivate let path: [UInt8]
        fileprivate let size: UInt64
        fileprivate let offset: UInt64
        fileprivate let modified: (date: UInt16, time: UInt16)
        fileprivate let isFolder: Bool

        private var isLarge: Bool { size >= UInt64(UInt32.max) }

        /// Ends the content.
        /// - Returns: the data descriptor, with the checksum that was not known in front of the content.
        @discardableResult
        func end(checksum: UInt32, _ layout: inout ZipLayout) -> [UInt8] {
            var descriptor: [UInt8] = []
            if size > 0 {
                descriptor.add(0x0807_4b50 as UInt32)
                descriptor.add(checksum)
                for _ in 0..<2 { isLarge ? descriptor.add(size) : descriptor.add(UInt32(size)) }
            }
            var extra: [UInt8] = []
            if isLarge { for _ in 0..<2 { extra.add(size) } }
            if offset >= UInt64(UInt32.max) { extra.add(offset) }
            layout.directory.add(0x0201_4b50 as UInt32)
            // Made on UNIX, whose permissions are in the upper half of the external attributes.
            layout.directory.add(UInt16(3 << 8 | 45))
            layout.directory += ZipLayout.common(modified, size: size)
            layout.directory.add(checksum)
            for _ in 0..<2 { layout.directory.add(UInt32(clamping: size)) }
            layout.directory.add(UInt16(path.count))
            layout.directory.add(extra.isEmpty ? 0 : UInt16(extra.count + 4))
            layout.directory += [UInt8](repeating: 0, count: 6)
            layout.directory.add(UInt32(isFolder ? 0o40755 : 0o100644) << 16)
            layout.directory.add(UInt32(clamping: offset))
            layout.directory += path + ZipLayout.extraField(extra)
            layout.count += 1
            layout.offset += size + UInt64(descriptor.count)
            return descriptor
        }
    }

    /// The offset of the next entry.
    private(set) var offset: UInt64 = 0
    private var count: UInt64 = 0
    private var directory: [UInt8] = []

    /// - Returns: nil for an entry that archives do not hold.
    mutating func add(_ entry: EntryHeader) -> Entry? {
        if case .link = entry.kind { return nil }
        let isFolder = entry.kind == .folder
        let path = entry.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/") + (isFolder ? "/" : "")
        let size = entry.size ?? 0
        var header: [UInt8] = []
        header.add(0x0403_4b50 as UInt32)
        let modified = Self.time(entry.modified ?? 0)
        header += Self.common(modified, size: size)
        header.add(0 as UInt32)
        var extra: [UInt8] = []
        for _ in 0..<2 {
            header.add(UInt32(clamping: size))
            if size >= UInt64(UInt32.max) { extra.add(size) }
        }
        // Bounded: a path has at most 4,096 bytes and 127 slashes, three times as many where it is not UTF-8.
        let name = Array(path.utf8.prefix(Int(UInt16.max)))
        header.add(UInt16(name.count))
        header.add(extra.isEmpty ? 0 : UInt16(extra.count + 4))
        header += name + Self.extraField(extra)
        defer { offset += UInt64(header.count) }
        return Entry(header: header, path: name, size: size, offset: offset, modified: modified, isFolder: isFolder)
    }

    /// The central directory and the records behind it.
    var end: [UInt8] {
        let size = UInt64(directory.count)
        var end = directory
        if count >= UInt64(UInt16.max) || size >= UInt64(UInt32.max) || offset >= UInt64(UInt32.max) {
            end.add(0x0606_4b50 as UInt32)
            end.add(44 as UInt64)
            end.add(UInt16(3 << 8 | 45))
            end.add(45 as UInt16)
            end.add(0 as UInt64)
            for number in [count, count, size, offset] { end.add(number) }
            end.add(0x0706_4b50 as UInt32)
            end.add(0 as UInt32)
            end.add(offset + size)
            end.add(1 as UInt32)
        }
        end.add(0x0605_4b50 as UInt32)
        end.add(0 as UInt32)
        for _ in 0..<2 { end.add(UInt16(clamping: count)) }
        end.add(UInt32(clamping: size))
        end.add(UInt32(clamping: offset))
        end.add(0 as UInt16)
        return end
    }

    var endByteCount: UInt64 { UInt64(end.count) }

    /// Version, flags (names in UTF-8, checksum behind a content), method and time.
    private static func common(_ modified: (date: UInt16, time: UInt16), size: UInt64) -> [UInt8] {
        var fields: [UInt8] = []
        let flags: UInt16 = 1 << 11 | (size > 0 ? 1 << 3 : 0)
        for field in [45, flags, 0, modified.time, modified.date] as [UInt16] { fields.add(field) }
        return fields
    }

    private static func extraField(_ extra: [UInt8]) -> [UInt8] {
        guard !extra.isEmpty else { return [] }
        var field: [UInt8] = []
        field.add(1 as UInt16)
        field.add(UInt16(extra.count))
        return field + extra
    }

    /// A time as MS-DOS writes it, in UTC, from 1980 on.
    private static func time(_ nanoseconds: Int64) -> (date: UInt16, time: UInt16) {
        var seconds = Int(max(nanoseconds / 1_000_000_000, 315_532_800))
        var parts = tm()
        guard gmtime_r(&seconds, &parts) != nil, parts.tm_year <= 207 else { return (0x21, 0) }
        let date = (parts.tm_year - 80) << 9 | (parts.tm_mon + 1) << 5 | parts.tm_mday
        return (UInt16(date), UInt16(parts.tm_hour << 11 | parts.tm_min << 5 | parts.tm_sec / 2))
    }
}

extension [UInt8] {
    /// Appends an integer, least significant byte first.
    fileprivate mutating func add(_ value: some FixedWidthInteger) {
        Swift.withUnsafeBytes(of: value.littleEndian) { append(contentsOf: $0) }
    }
}
