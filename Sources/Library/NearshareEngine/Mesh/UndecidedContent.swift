internal import NearshareBase
internal import NearshareInterfaces
internal import NearshareMesh

/// Files and texts that peers of the mesh have sent without an offer, as bitchat does: in memory until the user decides.
///
/// Identities cost nothing, so the room is divided between the links that bring content: where there is none left, the link that
/// has brought most loses its oldest content. Content of peers that the user does not know takes no place of known ones.
struct UndecidedContent {
    struct ID: Hashable {
        fileprivate let number: Int
    }

    /// Where content came from.
    struct Origin {
        let peer: PeerID
        /// The machine over whose link the peer was heard last; nil once that link is closed.
        let link: MeshLinkSource?
        let isKnown: Bool
    }

    struct Content {
        let id: ID
        let file: MeshFile
        let origin: Origin
        /// Fulfilled when the content is decided about or dropped.
        let isRemoved = Promise<Void>()
        fileprivate(set) var invitation: WeakReference<Invitation>?

        /// The room it takes, in bytes: that of many short texts is the questions about them.
        fileprivate var cost: Int { max(file.content.count, UndecidedContent.minimumCost) }
    }

    /// The oldest first.
    private var contents: [Content] = []
    private var lastNumber = 0

    /// Limit on what is kept: 12 MiB, or 32 of up to 384 KiB.
    static let maximumCost = 12 << 20
    private static let minimumCost = maximumCost / 32
    static let maximumCountPerPeer = 8

    /// Keeps content.
    /// - Returns: nil where there is no room for it; else the content, and what was dropped in its favour.
    mutating func insert(_ file: MeshFile, from origin: Origin) -> (inserted: Content, dropped: [Content])? {
        guard contents.count(where: { $0.origin.peer == origin.peer }) < Self.maximumCountPerPeer else { return nil }
        let content = Content(id: ID(number: lastNumber + 1), file: file, origin: origin)
        guard let positions = positionsToDrop(for: content) else { return nil }
        let dropped = positions.map { contents[$0] }
        for position in positions.sorted().reversed() { contents.remove(at: position) }
        lastNumber += 1
        contents.append(content)
        for each in dropped { each.isRemoved.fulfil() }
        return (content, dropped)
    }

    mutating func setInvitation(_ invitation: Invitation, of id: ID) {
        guard let index = contents.firstIndex(where: { $0.id == id }) else { return }
        contents[index].invitation = WeakReference(object: invitation)
    }

    /// Removes content.
    /// - Returns: nil when it was removed before.
    mutating func remove(_ id: ID) -> Content? {
        guard let index = contents.firstIndex(where: { $0.id == id }) else { return nil }
        let content = contents.remove(at: index)
        content.isRemoved.fulfil()
        return content
    }

    /// The positions of the content that gives way: the oldest of the link that has brought most.
    /// - Returns: nil where the new content would make its own link that one.
    private func positionsToDrop(for new: Content) -> [Int]? {
        var capacity = SharedCapacity<Group>(
            count: contents.count, byteCount: { contents[$0].cost },
            levels: [{ .known(contents[$0].origin.isKnown) }, { .link(contents[$0].origin.link) }])
        var positions: [Int] = []
        while capacity.byteCount + new.cost > Self.maximumCost {
            let isOfKnown = new.origin.isKnown && capacity.groups[.known(false)] == nil
            let position = capacity.removeOldest { level, groups in
                guard level > 0 else { return .known(isOfKnown) }
                guard let largest = groups.largest(by: .byteCount) else { return nil }
                let own = groups[.link(new.origin.link)]?.byteCount ?? 0
                let most = groups[largest]?.byteCount ?? 0
                return isOfKnown != new.origin.isKnown || own + new.cost <= most ? largest : nil
            }
            guard let position else { return nil }
            positions.append(position)
        }
        return positions
    }

    /// The groups of content that compete for memory.
    private enum Group: Hashable {
        case known(Bool)
        case link(MeshLinkSource?)
    }
}
