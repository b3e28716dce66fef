internal import NearshareBase

/// Type-length-value fields of at most 255 bytes: kind u8 · length u8 · value. Announcements, private messages, statements and
/// challenges are encoded like this.
struct TLVFields {
    private(set) var bytes: [UInt8] = []
    private let what: StaticString

    init(of what: StaticString) {
        self.what = what
    }

    mutating func append(_ kind: UInt8, _ value: some Collection<UInt8>) throws(MalformedInput) {
        guard value.count <= 255 else { throw MalformedInput("\(what): a field holds at most 255 bytes, not \(value.count)") }
        bytes.append(kind)
        bytes.append(UInt8(clamping: value.count))
        bytes.append(contentsOf: value)
    }

    /// Ignores a single byte at the end, as both phone apps do; rejects a length that runs past the end.
    static func decode(
        _ bytes: ArraySlice<UInt8>, of what: StaticString
    ) throws(MalformedInput) -> [(kind: UInt8, value: ArraySlice<UInt8>)] {
        var reader = ByteReader(bytes, of: what)
        var fields: [(UInt8, ArraySlice<UInt8>)] = []
        while reader.remaining >= 2 {
            let kind: UInt8 = try reader.readInteger()
            fields.append((kind, try reader.readCounted(by: UInt8.self, upTo: 255, field: "a field")))
        }
        return fields
    }
}
