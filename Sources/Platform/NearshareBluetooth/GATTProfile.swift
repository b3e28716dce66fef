/// The services that are spoken over GATT. BlueZ writes UUIDs in lower case.
enum GATTProfile {
    /// bitchat's (its specification, section 11): one characteristic, written to by centrals, notified by peripherals.
    static let meshService = "f47b5e2d-4a9e-4c5a-9b3f-8e1d2c3a4b5c"
    static let meshCharacteristic = "a1b2c3d4-e5f6-4a5b-8c9d-0e1f2a3b4c5d"

    /// Our own, beside it: one value to read, a ``ServiceRecord``.
    static let recordService = "6e736872-7265-4b1d-9a53-0b7c41e6a2d0"
    static let recordCharacteristic = "6e736872-7265-4b1d-9a53-0b7c41e6a2d1"

    /// What every device has that was asked for its services: the Generic Attribute service.
    static let attributeService = "00001801-0000-1000-8000-00805f9b34fb"

    /// The least that BlueZ before 5.69 refuses is one more. The other side's version is not known, so that this is written to
    /// everybody; frames of phones are fragmented to less anyway.
    static let maximumFrameByteCount = 510

    /// What ATT takes of each packet: opcode and handle.
    static let headerByteCount = 3
}

/// What a peer tells those who read it over GATT: who it is, and where its channel is. Bounded on decoding.
///
///     version (1 byte, 1)   PSM (2, big-endian; 0 for none)   then strings, each with its length in one byte
struct ServiceRecord: Sendable, Hashable {
    var psm: UInt16
    /// As in DNS-SD's TXT record: `key=value`, at most 16 of 255 bytes.
    var txt: [[UInt8]]

    static let version: UInt8 = 1
    static let maximumStringCount = 16
    /// The longest attribute value there is.
    static let maximumByteCount = 512

    init(psm: UInt16, txt: [[UInt8]]) {
        self.psm = psm
        self.txt = txt
    }

    var bytes: [UInt8] {
        var bytes = [Self.version, UInt8(psm >> 8), UInt8(psm & 0xFF)]
        for string in txt.prefix(Self.maximumStringCount) where bytes.count + 1 + string.count <= Self.maximumByteCount {
            bytes.append(UInt8(string.count))
            bytes += string
        }
        return bytes
    }

    /// A later version may add bytes after the strings of this one; nothing of it is expected here.
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
