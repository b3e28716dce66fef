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
        var rest = contents
        var dropped: [Content] = []
        while Self.cost(of: rest) + content.cost > Self.maximumCost {
            guard let index = Self.indexToDrop(of: rest, for: content) else { return nil }
            dropped.append(rest.remove(at: index))
        }
        lastNumber += 1
        contents = rest + [content]
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

    /// The oldest content of the link that has brought most; nil where the new content would make its own link that one.
    private static func indexToDrop(of contents: [Content], for new: Content) -> Int? {
        let strangers = contents.indices.filter { !contents[$0].origin.isKnown }
        if new.origin.isKnown, let first = mostCostly(strangers, of: contents).first { return first }
        let candidates = mostCostly(new.origin.isKnown ? Array(contents.indices) : strangers, of: contents)
        let own = contents.filter { $0.origin.isKnown == new.origin.isKnown && $0.origin.link == new.origin.link }
        let most = cost(of: candidates.map { contents[$0] })
        return cost(of: own) + new.cost <= most ? candidates.first : nil
    }

    /// The indices of all content of the link that has brought most; of several such links, the one with the oldest content.
    private static func mostCostly(_ indices: [Int], of contents: [Content]) -> [Int] {
        let links = Dictionary(grouping: indices) { contents[$0].origin.link }
        return links.values.max { left, right in
            let costs = (cost(of: left.map { contents[$0] }), cost(of: right.map { contents[$0] }))
            return costs.0 != costs.1 ? costs.0 < costs.1 : left[0] > right[0]
        } ?? []
    }

    private static func cost(of contents: [Content]) -> Int { contents.reduce(0) { $0 + $1.cost } }
}
