package import NearshareBase
internal import NearshareCrypto

/// What a packet is known by wherever it goes: the first 16 bytes of SHA-256(type, sender, timestamp, payload); its ttl, its
/// route and its recipient do not count (bitchat specification, section 10).
package struct MeshPacketID: Sendable, Hashable {
    package static let byteCount = 16
    /// Big-endian. A node keeps tens of thousands of ids, and an array for each would take thrice as much.
    private let high: UInt64
    private let low: UInt64

    package init(of packet: MeshPacket) {
        var hasher = SHA256Hasher()
        var head = ByteWriter(reserving: 17)
        head.write(packet.type.rawValue)
        head.write(packet.sender.bytes)
        head.write(packet.timestamp)
        head.bytes.withUnsafeBytes { hasher.update($0) }
        packet.payload.withUnsafeBytes { hasher.update($0) }
        self.init(bytes: hasher.finalize().prefix(Self.byteCount))!
    }

    /// - Returns: nil for anything but 16 bytes.
    package init?(bytes: some Collection<UInt8>) {
        guard bytes.count == Self.byteCount else { return nil }
        high = UInt64(bigEndian: bytes.prefix(8))
        low = UInt64(bigEndian: bytes.dropFirst(8))
    }

    package var bytes: [UInt8] { withUnsafeBytes(of: (high.bigEndian, low.bigEndian)) { Array($0) } }

    /// What stands for it in a ``GolombFilter``.
    package var filterHash: UInt64 {
        UInt64(bigEndian: SHA256Hasher.digest(bytes).prefix(8)) & UInt64(Int64.max)
    }
}

extension UInt64 {
    /// - Parameter bytes: at most eight.
    init(bigEndian bytes: some Sequence<UInt8>) {
        self = bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}

extension MeshFileControl.FileID {
    /// The id of a file: it keys progress and cancelling at both ends (bitchat specification, section 7.1).
    package init(ofEncoded file: ArraySlice<UInt8>) {
        var hasher = SHA256Hasher()
        file.withUnsafeBytes { hasher.update($0) }
        self.init(bytes: hasher.finalize())!
    }
}

/// Ids that are not carried but reckoned by both ends (bitchat specification, sections 3 and 9.2).
package enum DerivedMessageID {
    /// Of a public message, as iOS reckons it: 32 hexadecimal digits.
    package static func publicMessage(sender: PeerID, timestamp: UInt64, text: String) -> String {
        var trimmed = Substring(text)
        while let first = trimmed.unicodeScalars.first, first.properties.isWhitespace { trimmed.unicodeScalars.removeFirst() }
        while let last = trimmed.unicodeScalars.last, last.properties.isWhitespace { trimmed.unicodeScalars.removeLast() }
        return String(Hex.encode(SHA256Hasher.digest(Array("\(sender.hex)|\(timestamp)|\(trimmed)".utf8))).prefix(32))
    }

    /// The id by which iOS acknowledges a private file; nil for names that it gives no id.
    package static func privateMedia(sender: PeerID, recipient: PeerID, fileName: String) -> String? {
        guard isStableMediaName(fileName) else { return nil }
        var writer = ByteWriter()
        writer.write("bitchat-private-media-message-v1".utf8)
        for part in [sender.hex, recipient.hex, fileName] { writer.writeCounted(part.utf8, by: UInt32.self) }
        return "media-" + Hex.encode(SHA256Hasher.digest(writer.bytes)).prefix(32)
    }

    /// `img_<UUID>.jpg`, `voice_…_<UUID>.m4a` and `voice_<16 hexadecimal digits>.m4a`.
    private static func isStableMediaName(_ name: String) -> Bool {
        guard !name.contains("/") else { return false }
        if name.hasPrefix("img_"), name.hasSuffix(".jpg") { return isUUID(name.dropFirst(4).dropLast(4)) }
        guard name.hasPrefix("voice_"), name.hasSuffix(".m4a") else { return false }
        let stem = name.dropFirst(6).dropLast(4)
        if stem.utf8.count == 16, Hex.decode(String(stem)) != nil { return true }
        return stem.utf8.count > 37 && stem.dropLast(36).hasSuffix("_") && isUUID(stem.suffix(36))
    }

    private static func isUUID(_ text: Substring) -> Bool {
        let groups = text.split(separator: "-", omittingEmptySubsequences: false)
        return groups.map(\.utf8.count) == [8, 4, 4, 4, 12] && Hex.decode(groups.joined()) != nil
    }
}
