package import NearshareBase
internal import NearshareInterfaces

/// The structured messages that belong to conversations (`docs/PROTOCOL.md`, section 14). All other messages are for
/// applications.
package enum ChatContent: Sendable, Hashable {
    /// A line: `{"text": …, "id": …, "written": …}`. Without an ID it has the bundle's; without a time of writing, that of the
    /// bundle's creation.
    case line(id: String?, text: String, written: WallTime? = nil)
    /// A part of a line: `{"text": …, "id": …, "part": 0…, "of": …, "written": …}`.
    case part(id: String, index: Int, count: Int, text: String, written: WallTime? = nil)
    /// Lines that the user has read: `{"read": [id, …]}`.
    case read([String])

    static let maximumIDByteCount = 64
    /// Limit of the text in one message: with the ID and the part numbers it stays within the 1,024 bytes that any link carries.
    static let maximumPartByteCount = 840
    /// Limit of the IDs in one message that is received.
    private static let maximumReadIDCount = 24

    package init?(_ value: StructuredValue) {
        guard case .object(let members) = value else { return nil }
        if case .array(let ids)? = members["read"] {
            guard ids.count <= Self.maximumReadIDCount else { return nil }
            let valid = ids.compactMap { id -> String? in
                guard case .string(let id) = id, Self.isValid(id: id) else { return nil }
                return id
            }
            guard valid.count == ids.count else { return nil }
            self = .read(valid)
            return
        }
        guard case .string(let text)? = members["text"] else { return nil }
        var id: String?
        if case .string(let given)? = members["id"], Self.isValid(id: given) { id = given }
        var written: WallTime?
        if case .integer(let time)? = members["written"] { written = WallTime(milliseconds: time) }
        guard let part = members["part"] else {
            self = .line(id: id, text: text, written: written)
            return
        }
        guard let id, case .integer(let index) = part, case .integer(let count)? = members["of"],
            (2...Int64(TextFragment.maximumCount)).contains(count), (0..<count).contains(index)
        else { return nil }
        self = .part(id: id, index: Int(index), count: Int(count), text: text, written: written)
    }

    private static func isValid(id: String) -> Bool { (1...maximumIDByteCount).contains(id.utf8.count) }

    package var value: StructuredValue {
        switch self {
        case .line(let id, let text, let written):
            Self.object(["text": .string(text)], id: id, written: written)
        case .part(let id, let index, let count, let text, let written):
            Self.object(
                ["text": .string(text), "part": .integer(Int64(index)), "of": .integer(Int64(count))], id: id, written: written)
        case .read(let ids): .object(["read": .array(ids.map { .string($0) })])
        }
    }

    private static func object(_ members: [String: StructuredValue], id: String?, written: WallTime?) -> StructuredValue {
        var members = members
        if let id { members["id"] = .string(id) }
        if let written { members["written"] = .integer(written.milliseconds) }
        return .object(members)
    }

    /// The messages of a line: one, or several parts. Each has the time of writing, because a line is sent again as bundles that
    /// are created later.
    static func split(_ text: String, id: String, written: WallTime) -> [ChatContent] {
        let parts = text.split(maximumByteCount: maximumPartByteCount)
        guard parts.count > 1 else { return [.line(id: id, text: text, written: written)] }
        return parts.enumerated().map {
            .part(id: id, index: $0.offset, count: parts.count, text: $0.element, written: written)
        }
    }

    /// The messages that mark lines as read, each of which any link can carry.
    static func read(splitting ids: [String]) -> [ChatContent] {
        var messages: [[String]] = []
        var byteCount = 0
        for id in ids where isValid(id: id) {
            byteCount += id.utf8.count
            if messages.isEmpty || byteCount > maximumPartByteCount || messages[messages.count - 1].count == maximumReadIDCount
            {
                messages.append([])
                byteCount = id.utf8.count
            }
            messages[messages.count - 1].append(id)
        }
        return messages.map { .read($0) }
    }
}

extension ChatContent {
    private static let favorite = "[FAVORITED]"
    private static let noFavorite = "[UNFAVORITED]"

    /// The text by which phones tell a peer that its user has become a favourite, or is no longer one. It is no line of a
    /// conversation (bitchat specification, section 9.1).
    static func favoriteText(_ isFavorite: Bool) -> String { isFavorite ? favorite : noFavorite }

    /// Whether a text says that the local user has become a favourite; nil for all other texts.
    static func isFavorite(_ text: String) -> Bool? {
        // Phones append their Nostr keys, which are not used here.
        text.hasPrefix(favorite) ? true : text.hasPrefix(noFavorite) ? false : nil
    }
}
