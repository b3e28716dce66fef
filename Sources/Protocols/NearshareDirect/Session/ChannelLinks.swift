/// The links of a ``MessageChannel``, in the order in which they were attached; rarely more than two.
struct ChannelLinks: Sendable {
    struct Link: Sendable {
        let id: MessageChannel.LinkID
        /// Whether this side has sent its resume frame.
        var hasResumed = false
        /// The number of the next message to send on the link; nil before the peer's resume frame.
        var next: UInt64?
        /// The latest acknowledgement sent on the link.
        var acknowledged: UInt64 = 0
        /// The number of the latest change of metadata that was sent on the link.
        var metadataRevision: UInt64 = 0
    }

    private var links: [Link] = []
    private var lastID: UInt64 = 0

    mutating func attach() -> MessageChannel.LinkID {
        // Bounded: counts links.
        lastID += 1
        let id = MessageChannel.LinkID(number: lastID)
        links.append(Link(id: id))
        return id
    }

    mutating func detach(_ id: MessageChannel.LinkID) { links.removeAll { $0.id == id } }

    /// Removes the links on which the peer has resumed.
    mutating func detachResumed() { links.removeAll { $0.next != nil } }

    subscript(id: MessageChannel.LinkID) -> Link? { links.first { $0.id == id } }

    mutating func update(_ id: MessageChannel.LinkID, _ body: (inout Link) -> Void) {
        guard let index = links.firstIndex(where: { $0.id == id }) else { return }
        body(&links[index])
    }

    /// The newest link on which both sides have resumed; it carries messages and acknowledgements.
    var preferred: Link? { links.last { $0.next != nil && $0.hasResumed } }
}
