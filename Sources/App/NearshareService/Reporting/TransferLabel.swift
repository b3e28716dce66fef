/// The content of a transfer and its peer, escaped for a terminal.
package struct TransferLabel: Sendable, Hashable {
    package let content: String
    /// nil where there is none, as for standard input.
    package let peer: String?
    package let isIncoming: Bool

    private init(_ content: String, _ peer: String?, isIncoming: Bool) {
        (self.content, self.peer, self.isIncoming) = (content, peer, isIncoming)
    }

    package init(_ content: String, to receiver: String) { self.init(content, receiver, isIncoming: false) }

    package init(_ content: String, from sender: String) { self.init(content, sender, isIncoming: true) }

    package init(_ content: String) { self.init(content, nil, isIncoming: false) }

    /// The separator of the two.
    package static let arrow = " → "

    /// The two in the direction of the content: "content → receiver" or "sender → content".
    package var text: String {
        guard let peer else { return content }
        return isIncoming ? peer + Self.arrow + content : content + Self.arrow + peer
    }
}
