internal import NearshareBase

// Messages of kind 2: the name of a channel, then a structured value (`docs/PROTOCOL.md`, section 12.4).
extension SessionMessage {
    /// Limit on the name of a channel, in bytes of UTF-8.
    package static let maximumChannelNameByteCount = 63

    /// Creates a message for a channel.
    /// - Returns: nil for an empty or too long name.
    package init?(channel name: String, encoding value: some Encodable) throws {
        guard Self.isChannelName(name) else { return nil }
        var writer = ByteWriter(reserving: 64)
        writer.writeCounted(name.utf8, by: UInt8.self)
        self.init(kind: .channel, bytes: writer.bytes + (try StructuredValue.encoding(of: value)))
    }

    /// Whether a channel can have the name.
    package static func isChannelName(_ name: String) -> Bool {
        (1...maximumChannelNameByteCount).contains(name.utf8.count)
    }

    /// The name of the channel and the bytes of its value; nil for another kind, and for a malformed name.
    package var channelContent: (name: String, value: ArraySlice<UInt8>)? {
        guard kind == .channel else { return nil }
        var reader = ByteReader(bytes, of: "channel")
        guard
            let name = try? reader.readCounted(
                by: UInt8.self, upTo: Self.maximumChannelNameByteCount, field: "the name"),
            let text = String(validating: name, as: UTF8.self), !text.isEmpty
        else { return nil }
        return (text, reader.readRemaining())
    }

    /// Decodes the value of a channel's message as the program's own type.
    package func decodeChannelValue<Value: Decodable>(_ type: Value.Type) throws -> Value {
        guard let content = channelContent else { throw MalformedInput("message: it is not of a channel") }
        return try StructuredValue(decoding: content.value).decode(type)
    }
}
