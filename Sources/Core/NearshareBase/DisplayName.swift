/// What somebody calls themselves: 1 to 63 bytes of UTF-8. Anyone may claim any name: it is shown, never trusted.
package struct DisplayName: Sendable, Hashable {
    /// As in Multipeer Connectivity, and what a DNS label holds.
    package static let maximumByteCount = 63

    /// As it was claimed. Only for comparing and for sending on; people are shown ``shown``.
    package let claimed: String

    /// Why a text is no name.
    package enum Invalid: Error, Hashable, CustomStringConvertible {
        /// Nothing is left of it without white space.
        case empty
        /// More than ``DisplayName/maximumByteCount`` bytes.
        case tooLong(byteCount: Int)
        /// Bytes that are no text.
        case notUTF8

        package var description: String {
            switch self {
            case .empty: "a name needs at least one character"
            case .tooLong(let count): "a name holds at most 63 bytes, this one has \(count)"
            case .notUTF8: "the name is not valid UTF-8"
            }
        }
    }

    /// A name as somebody chose it.
    package init(_ text: String) throws(Invalid) {
        guard !text.isEmpty else { throw .empty }
        guard text.utf8.count <= Self.maximumByteCount else { throw .tooLong(byteCount: text.utf8.count) }
        claimed = text
    }

    /// From bytes off the wire.
    package init(utf8 bytes: some Collection<UInt8>) throws(Invalid) {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw .notUTF8 }
        try self.init(text)
    }

    /// The longest valid name that `text` begins with, cut between characters; nil when nothing is left.
    package init?(truncating text: String) {
        var kept = ""
        for character in text {
            guard kept.utf8.count + character.utf8.count <= Self.maximumByteCount else { break }
            kept.append(character)
        }
        guard let name = try? DisplayName(kept) else { return nil }
        self = name
    }

    /// Fit for a terminal.
    package var shown: String { TerminalText.escaped(claimed, columns: 64) }
}

extension DisplayName: CustomStringConvertible {
    package var description: String { shown }
}

extension DisplayName: Codable {
    package init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            self = try DisplayName(try container.decode(String.self))
        } catch let error as Invalid {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: error.description)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(claimed)
    }
}
