package import NearshareBase

/// A peer that a text can select.
package protocol SelectablePeer {
    var id: PeerID { get }
    var name: DisplayName { get }
    /// The name that the peer claimed when it was last met, where the user has given it another one, and it is no other peer's.
    var otherName: DisplayName? { get }
}

extension SelectablePeer {
    package var otherName: DisplayName? { nil }

    /// Whether a name of the peer begins with a text in lower case. A name that imitates an id does not count.
    fileprivate func hasName(beginningWith text: String) -> Bool {
        [name, otherName].contains { $0?.imitatesID(of: id) == false && $0?.claimed.lowercased().hasPrefix(text) == true }
    }
}

extension NearbyPeer: SelectablePeer {}

/// The peers that a text selects, among those of a file, of a list, or nearby; case is ignored. The first of these rules by which
/// the text selects any peer decides:
///
/// 1. A text in the form of an id selects the peer with that id alone: any peer can choose such a name (K2).
/// 2. A whole name, also with the tag of the key, selects the peers that have it, and those that the user knows by it, whatever they
///    call themselves now. A name that imitates the tag of another peer, or is claimed beside a known peer, is ambiguous (K2).
/// 3. The whole name that a peer calls itself, beside the one that the user has given it, selects that peer.
/// 4. The beginning of a name selects the peers whose names begin so, either of the two.
///
/// A name that imitates an id selects no peer in any form (K2); its owner is selected by its other names. Where the user knows a peer
/// by the text, rules 3 and 4 select none: that peer may be away.
package enum NameSelection<Peer: SelectablePeer> {
    case none
    /// One peer, exactly by the rules 1 to 3, or by the beginning of its name.
    case one(Peer, isExact: Bool)
    /// Several peers that the text selects equally well, in the order in which they were given.
    case several([Peer])

    /// - Parameters:
    ///   - text: blank text, although every name begins with the empty one, selects no peer.
    ///   - ids: of the peers that the user knows by this whole name, here or away.
    package init(of text: String, among peers: [Peer], knownAs ids: Set<PeerID> = []) {
        guard !text.allSatisfy(\.isWhitespace) else {
            self = .none
            return
        }
        if let id = PeerID(hex: text) {
            self = peers.first { $0.id == id }.map { .one($0, isExact: true) } ?? .none
            return
        }
        let wanted = text.lowercased()
        let tagged = TaggedName(text)
        var found = peers.filter { peer in
            if ids.contains(peer.id) { return true }
            guard !peer.name.imitatesID(of: peer.id) else { return false }
            return peer.name.claimed.lowercased() == wanted || tagged?.matches(peer.name, peer.id) == true
        }
        if found.isEmpty, ids.isEmpty { found = peers.filter { $0.otherName?.claimed.lowercased() == wanted } }
        let isExact = !found.isEmpty
        if found.isEmpty, ids.isEmpty { found = peers.filter { $0.hasName(beginningWith: wanted) } }
        switch found.count {
        case 0: self = .none
        case 1: self = .one(found[0], isExact: isExact)
        default: self = .several(found)
        }
    }

    /// All that the text selects.
    package var peers: [Peer] {
        switch self {
        case .none: []
        case .one(let peer, _): [peer]
        case .several(let several): several
        }
    }
}

extension NameSelection: Sendable where Peer: Sendable {}

extension NameSelection: Equatable where Peer: Equatable {}
