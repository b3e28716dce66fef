/// The header of a packet of AAC without a container (ISO/IEC 13818-7, section 6.2).
struct ADTSHeader {
    /// The configuration of the decoder, as MP4 files have it.
    let configuration: [UInt8]
    /// With the checksum, where there is one.
    let headerByteCount: Int
    /// The header and the packet.
    let frameByteCount: Int

    static let maximumByteCount = 9

    /// - Parameter bytes: ``maximumByteCount`` bytes.
    /// - Returns: nil for another kind of bytes, an empty packet, and several packets under one header.
    init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.maximumByteCount, bytes[0] == 0xff, bytes[1] & 0xf6 == 0xf0 else { return nil }
        headerByteCount = bytes[1] & 1 == 1 ? 7 : 9
        frameByteCount = Int(bytes[3] & 3) << 11 | Int(bytes[4]) << 3 | Int(bytes[5] >> 5)
        guard frameByteCount > headerByteCount, bytes[6] & 3 == 0 else { return nil }
        let objectType = bytes[2] >> 6 + 1
        let rateIndex = bytes[2] >> 2 & 15
        let layout = bytes[2] << 2 & 4 | bytes[3] >> 6
        configuration = [objectType << 3 | rateIndex >> 1, rateIndex << 7 | layout << 3]
    }
}
