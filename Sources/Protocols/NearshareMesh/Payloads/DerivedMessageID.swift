package import NearshareBase
internal import NearshareCrypto

/// Message ids that both ends derive instead of sending them (bitchat specification, sections 3 and 9.2).
package enum DerivedMessageID {
    /// The id of a public message, as bitchat on iOS derives it: 32 hexadecimal digits.
    /// - Parameter timestamp: milliseconds since 1970.
    package static func idOfPublicMessage(sender: PeerID, timestamp: UInt64, text: String) -> String {
        // The same result as `trimmingCharacters(in: .whitespacesAndNewlines)` in the app.
        var trimmed = Substring(text)
        while let first = trimmed.unicodeScalars.first, first.properties.isWhitespace { trimmed.unicodeScalars.removeFirst() }
        while let last = trimmed.unicodeScalars.last, last.properties.isWhitespace { trimmed.unicodeScalars.removeLast() }
        return String(Hex.encode(SHA256Hasher.digest(Array("\(sender.hex)|\(timestamp)|\(trimmed)".utf8))).prefix(32))
    }

    /// The id of a private file in the receipts of bitchat on iOS; nil for file names that these receipts do not identify.
    package static func idOfPrivateFile(sender: PeerID, recipient: PeerID, fileName: String) -> String? {
        guard isGeneratedFileName(fileName) else { return nil }
        var writer = ByteWriter()
        writer.write("bitchat-private-media-message-v1".utf8)
        for part in [sender.hex, recipient.hex, fileName] { writer.writeCounted(part.utf8, by: UInt32.self) }
        return "media-" + Hex.encode(SHA256Hasher.digest(writer.bytes)).prefix(32)
    }

    /// The id of a further part of a text: the same each time it is sent, so that the receiver recognises a copy.
    package static func idOfPart(_ number: Int, of id: String) -> String {
        uuid(from: SHA256Hasher.digest(Array("\(id)|\(number)".utf8)))
    }

    /// An upper-case UUID (RFC 9562), as phones write the ids of messages. Some of them drop messages with others.
    /// - Parameter bytes: at least 16, random or of a digest.
    package static func uuid(from bytes: [UInt8]) -> String {
        var bytes = Array(bytes.prefix(16))
        // Version 4, and the variant of the RFC.
        for (index, mask, value) in [(6, 0x0f, 0x40), (8, 0x3f, 0x80)] as [(Int, UInt8, UInt8)] where index < bytes.count {
            bytes[index] = bytes[index] & mask | value
        }
        let digits = Array(Hex.encode(bytes).uppercased())
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0.clamped(to: digits.indices)]) }
            .joined(separator: "-")
    }

    /// The names that bitchat's apps generate: `img_<UUID>.jpg`, `voice_…_<UUID>.m4a` and `voice_<16 hexadecimal digits>.m4a`.
    private static func isGeneratedFileName(_ name: String) -> Bool {
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
