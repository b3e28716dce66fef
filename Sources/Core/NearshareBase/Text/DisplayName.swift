/// A user's name as its peer announces it: 1 to 63 bytes of UTF-8. Any peer may claim any name: it is shown, never trusted. One of
/// spaces alone is shown as "unnamed".
public struct DisplayName: Sendable, Hashable {
    /// The limit of a DNS label and of Multipeer Connectivity.
    package static let maximumByteCount = 63

    /// The text as it was claimed, for comparing and forwarding. Users see ``description``.
    public let claimed: String

    /// Validates a name that a user has chosen.
    /// - Throws: ``InvalidName`` with the violated limit.
    public init(_ text: String) throws(InvalidName) {
        guard !text.isEmpty else { throw InvalidName("a name needs at least one character") }
        guard text.utf8.count <= Self.maximumByteCount else {
            throw InvalidName("a name holds at most \(Self.maximumByteCount) bytes, this one has \(text.utf8.count)")
        }
        claimed = text
    }

    /// Validates a name that a peer has sent.
    package init(utf8 bytes: some Collection<UInt8>) throws(InvalidName) {
        guard let text = String(validating: bytes, as: UTF8.self) else { throw InvalidName("the name is not valid UTF-8") }
        try self.init(text)
    }

    /// Truncates `text` to the longest valid name, between characters.
    /// - Returns: nil when no character fits.
    public init?(truncating text: String) {
        var kept = ""
        for character in text {
            guard kept.utf8.count + character.utf8.count <= Self.maximumByteCount else { break }
            kept.append(character)
        }
        guard let name = try? DisplayName(kept) else { return nil }
        self = name
    }

    /// The name escaped for a terminal, in one line of words, and in quotation marks if it could pass for the words around it, as
    /// `"anna: hi"` does. A blank name is shown as "unnamed", and runs of spaces, which could imitate the columns of a list, as
    /// one space.
    package var shown: String { NameText.shown(words, columns: 64) }

    /// ``shown`` without quotation marks, for the name that the user has chosen for this machine.
    package var unquoted: String { TerminalText.escaped(words, columns: 64) }

    /// ``shown`` with the tag of the peer's key behind it, for names that any peer may claim: `anna#1a2b`. A number sign in a name
    /// puts it into quotation marks, so a tag outside of them is always the key's.
    package func tagged(_ id: PeerID) -> String { shown + Self.tag(of: id) }

    /// ``shown``; with a tag if the name contains one that could pass for it.
    package func shown(of id: PeerID) -> String { NameText.looksTagged(claimed) ? tagged(id) : shown }

    /// ``quoted``; with a tag if the name contains one that could pass for it.
    package func quoted(of id: PeerID) -> String { NameText.looksTagged(claimed) ? quoted + Self.tag(of: id) : quoted }

    /// The name in a sentence about a code that users compare: in quotation marks, so that its words are none of the sentence's. A
    /// name of as many digits as could pass for a code is not shown (K2).
    package func besideCode(of id: PeerID) -> String {
        claimed.count(where: { $0.isNumber }) >= Self.codeDigitCount ? "the other device" : quoted(of: id)
    }

    /// Fewer than a short code has, so that a part of one is not shown either.
    private static let codeDigitCount = 6

    /// ``shown(of:)`` within a width, for lists on a screen.
    /// - Parameter isTagged: adds the tag in any case.
    package func shown(of id: PeerID, columns: Int, isTagged: Bool) -> String {
        NameText.shown(words, columns: columns) + (isTagged || NameText.looksTagged(claimed) ? Self.tag(of: id) : "")
    }

    /// ``shown`` with the whole id behind it, in lines about one peer among others that may have its name.
    package func identified(by id: PeerID) -> String { "\(shown) (\(id))" }

    /// Whether the name has the form of an id that is not the peer's own: such a name selects no peer (K2). A fingerprint is too long
    /// for a name.
    package func imitatesID(of id: PeerID) -> Bool { PeerID(hex: claimed).map { $0 != id } ?? false }

    private static func tag(of id: PeerID) -> String { "#\(id.hex.prefix(4))" }

    /// ``shown`` in quotation marks, for lines that say more about the peer: no name can pass for what they say.
    package var quoted: String { TerminalText.quoted(words, columns: 64) }

    private var words: String {
        let words = claimed.split(whereSeparator: Self.isBlank).joined(separator: " ")
        return words.isEmpty ? "unnamed" : words
    }

    /// Spaces, also those that Unicode counts as letters or marks. Line breaks and tabs are escaped instead.
    private static func isBlank(_ character: Character) -> Bool {
        character.unicodeScalars.allSatisfy { scalar in
            scalar.properties.generalCategory == .spaceSeparator || TerminalText.isInvisible(scalar)
        }
    }
}

extension DisplayName: CustomStringConvertible {
    public var description: String { shown }
}

extension DisplayName: Codable {
    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        do {
            self = try DisplayName(try container.decode(String.self))
        } catch let error as InvalidName {
            throw DecodingError.dataCorruptedError(in: container, debugDescription: error.description)
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(claimed)
    }
}
