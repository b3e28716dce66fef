package import NearshareBase

/// The other side of a chat: one peer, or every peer in range.
package enum Conversation: Sendable, Hashable {
    /// One peer, named by its key; display names may change.
    case peer(PeerID)
    /// All peers in range, unencrypted: bitchat's public room.
    case publicRoom

    /// The lowest status of an own message for which nothing is left to do: the public room has no acknowledgements.
    package var settledStatus: MessageStatus { self == .publicRoom ? .sent : .delivered }
}

extension Conversation: Codable {
    private static let publicRoomText = "everybody"

    package init(from decoder: any Decoder) throws {
        let text = try decoder.singleValueContainer().decode(String.self)
        guard let conversation = Conversation(text: text) else {
            throw DecodingError.dataCorrupted(.init(codingPath: decoder.codingPath, debugDescription: "not a conversation"))
        }
        self = conversation
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The stored form: a peer's id in hexadecimal digits, or "everybody".
    package var text: String {
        switch self {
        case .peer(let id): id.hex
        case .publicRoom: Self.publicRoomText
        }
    }

    /// - Parameter text: the form that ``text`` returns.
    package init?(text: String) {
        if text == Self.publicRoomText {
            self = .publicRoom
        } else if let id = PeerID(hex: text) {
            self = .peer(id)
        } else {
            return nil
        }
    }
}
