/// The value that a peer serves over GATT: its identity and its channel. Bounded on decoding.
///
///     version (1 byte, 1)   PSM (2, big-endian; 0 for none)   then strings, each with its length in one byte
struct ServiceRecord: Sendable, Hashable {
    /// The protocol/service multiplexer of the peer's L2CAP channel; 0 for none.
    var psm: UInt16
    /// The strings of a DNS-SD TXT record: `key=value`, at most 16 of 255 bytes.
    var txt: [[UInt8]]

    static let version: UInt8 = 1
    static let maximumStringCount = 16
    /// The longest attribute value (Bluetooth Core specification, volume 3, part F, section 3.2.9).
    static let maximumByteCount = 512

    init(psm: UInt16, txt: [[UInt8]]) {
        self.psm = psm
        self.txt = txt
    }

    /// The encoded record; strings that do not fit are left out.
    var bytes: [UInt8] {
        var bytes = [Self.version, UInt8(psm >> 8), UInt8(psm & 0xFF)]
        for string in txt.prefix(Self.maximumStringCount) where bytes.count + 1 + string.count <= Self.maximumByteCount {
            bytes.append(UInt8(string.count))
            bytes += string
        }
        return bytes
    }

    /// Decodes a record of this version; later versions have another number.
    init?(_ bytes: [UInt8]) {
        guard (3...Self.maximumByteCount).contains(bytes.count), bytes[0] == Self.version else { return nil }
        psm = UInt16(bytes[1]) << 8 | UInt16(bytes[2])
        txt = []
        var rest = bytes[3...]
        while let count = rest.first.map(Int.init) {
            guard rest.count > count, txt.count < Self.maximumStringCount else { return nil }
            txt.append(Array(rest.dropFirst().prefix(count)))
            rest = rest.dropFirst(1 + count)
        }
    }
}
