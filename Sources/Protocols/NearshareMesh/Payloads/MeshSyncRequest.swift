package import NearshareBase

/// A request for public packets that a node has missed (bitchat specification, section 10): fields of kind u8 · length u16 ·
/// value.
package struct MeshSyncRequest: Sendable, Hashable {
    /// The requested kinds of packets, a bit field.
    package struct Wanted: OptionSet, Sendable, Hashable {
        package let rawValue: UInt64

        package init(rawValue: UInt64) {
            self.rawValue = rawValue
        }

        /// Type ``MeshPacketType/announce``.
        package static let announcements = Self(rawValue: 1 << 0)
        /// Type ``MeshPacketType/message``.
        package static let messages = Self(rawValue: 1 << 1)
        /// Type ``MeshPacketType/leave``.
        package static let leaves = Self(rawValue: 1 << 2)
        /// Type ``MeshPacketType/fragment``.
        package static let fragments = Self(rawValue: 1 << 5)
        /// Type ``MeshPacketType/fileTransfer``.
        package static let files = Self(rawValue: 1 << 7)
    }

    /// Limit on ``fragmentIDs``; more are left out.
    package static let maximumFragmentIDCount = 60

    /// The packets that the requesting node has.
    package var filter: GolombFilter
    /// nil for announcements and messages.
    package var wanted: Wanted?
    /// Milliseconds since 1970: older packets are not requested.
    package var since: UInt64?
    /// Limits the request to fragments of these sets. At most ``maximumFragmentIDCount``.
    package var fragmentIDs: [MeshFragment.ID]?

    package init(filter: GolombFilter, wanted: Wanted? = nil, since: UInt64? = nil, fragmentIDs: [MeshFragment.ID]? = nil) {
        self.filter = filter
        self.wanted = wanted
        self.since = since
        self.fragmentIDs = fragmentIDs
    }

    /// The packet's payload.
    package var encoded: [UInt8] {
        var writer = ByteWriter()
        func write(_ kind: UInt8, _ value: [UInt8]) {
            writer.write(kind)
            writer.writeCounted(value, by: UInt16.self)
        }
        write(0x01, [UInt8(clamping: filter.parameter)])
        write(0x02, withUnsafeBytes(of: filter.range.bigEndian) { Array($0) })
        write(0x03, filter.bytes)
        if let wanted {
            var bytes = withUnsafeBytes(of: wanted.rawValue.littleEndian) { Array($0) }
            while bytes.count > 1, bytes.last == 0 { bytes.removeLast() }
            write(0x04, bytes)
        }
        if let since { write(0x05, withUnsafeBytes(of: since.bigEndian) { Array($0) }) }
        if let fragmentIDs {
            write(0x06, Array(fragmentIDs.prefix(Self.maximumFragmentIDCount).map(\.hex).joined(separator: ",").utf8))
        }
        return writer.bytes
    }

    /// Requires the filter's three fields; skips unknown fields, ignores one or two bytes at the end.
    package init(decoding payload: ArraySlice<UInt8>) throws(MalformedInput) {
        var reader = ByteReader(payload, of: "sync request")
        var parameter: Int?
        var range: UInt32?
        var bytes: [UInt8]?
        while reader.remaining >= 3 {
            let kind: UInt8 = try reader.readInteger()
            let value = try reader.readCounted(by: UInt16.self, upTo: 65_535, field: "a field")
            switch (kind, value.count) {
            case (0x01, 1): parameter = value.first.map { Int($0) }
            case (0x02, 4): range = UInt32(truncatingBigEndian: value)
            case (0x03, _):
                guard value.count <= GolombFilter.maximumByteCount else {
                    throw MalformedInput("sync request: the filter is longer than 1024 bytes")
                }
                bytes = Array(value)
            case (0x04, 1...): wanted = Wanted(rawValue: UInt64(truncatingBigEndian: value.prefix(8).reversed()))
            case (0x05, 8): since = UInt64(truncatingBigEndian: value)
            case (0x06, _):
                let ids = value.split(separator: UInt8(ascii: ","), maxSplits: Self.maximumFragmentIDCount)
                fragmentIDs = ids.prefix(Self.maximumFragmentIDCount).compactMap {
                    Hex.decode(String(decoding: $0, as: UTF8.self)).flatMap { MeshFragment.ID(bytes: $0) }
                }
            default: continue
            }
        }
        guard let parameter, let range, let bytes else { throw MalformedInput("sync request: a field is missing") }
        filter = try GolombFilter(parameter: parameter, range: range, bytes: bytes)
    }
}
