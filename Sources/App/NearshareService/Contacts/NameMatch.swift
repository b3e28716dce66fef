package import Nearshare

/// A peer that a text on the command line or in a conversation can select.
package protocol NamedPeer {
    var id: PeerID { get }
    var name: DisplayName { get }
    /// The name that the peer claimed when it was last met, where the user has given it another one, and it is no other peer's.
    var otherName: DisplayName? { get }
    /// The trust in the peer, as lists show it; nil where it is not known.
    var trustLabel: String? { get }
}

extension NamedPeer {
    package var otherName: DisplayName? { nil }
    package var trustLabel: String? { nil }

    /// Whether a name of the peer begins with a text in lower case.
    fileprivate func hasName(beginningWith text: String) -> Bool {
        [name, otherName].contains { $0?.imitatesID(of: id) == false && $0?.claimed.lowercased().hasPrefix(text) == true }
    }

    /// The row of a list of peers with similar names, from which the user takes the id.
    var idRow: String { "\(name.shown)  \(id)" + (trustLabel.map { "  \($0)" } ?? "") }
}

/// The peers that a text selects: by id, by the whole name, also with a tag, by the whole name that a peer calls itself, or by the
/// beginning of either. Case is ignored.
package enum NameMatch<Candidate: NamedPeer> {
    case none
    case one(Candidate)
    /// Several peers have this name, or a name with this beginning.
    case several([Candidate])

    /// - Parameter text: an empty text, the beginning of every name, selects no peer.
    package init(of text: String, among candidates: [Candidate]) {
        let wanted = text.lowercased()
        guard !wanted.allSatisfy(\.isWhitespace) else {
            self = .none
            return
        }
        // A text in the form of an id means that one alone: any peer can choose such a name (K2).
        if let id = PeerID(hex: wanted) {
            self = candidates.first { $0.id == id }.map { .one($0) } ?? .none
            return
        }
        let candidates = candidates.filter { !$0.name.imitatesID(of: $0.id) }
        let tagged = TaggedName(text)
        // A name that imitates the tag of another peer makes the text ambiguous (K2).
        var found = candidates.filter { peer in
            peer.name.claimed.lowercased() == wanted || tagged?.matches(peer.name, peer.id) == true
        }
        if found.isEmpty { found = candidates.filter { $0.otherName?.claimed.lowercased() == wanted } }
        if found.isEmpty { found = candidates.filter { $0.hasName(beginningWith: wanted) } }
        switch found.count {
        case 0: self = .none
        case 1: self = .one(found[0])
        default: self = .several(found)
        }
    }

    /// All that the text selects.
    package var candidates: [Candidate] {
        switch self {
        case .none: []
        case .one(let candidate): [candidate]
        case .several(let several): several
        }
    }

    /// The known peers whose ids begin with a text of at least as many digits as a tag has, also behind the name and a number sign,
    /// as in `anna#1a2b`; none where the text is a known peer's name. Where there are any, also those whose names begin with the
    /// text: a peer that takes the digits of another one's id as its name makes them ambiguous. Newcomers are never selected so: a
    /// key whose id begins with four given digits is found by trying 2^16 of them (K2).
    package static func withIDPrefix(_ text: String, amongKnown known: [Candidate]) -> [Candidate] {
        let wanted = text.lowercased()
        let parts = wanted.split(separator: "#", omittingEmptySubsequences: false)
        let digits = parts.last ?? ""
        guard (minimumIDPrefixCount..<PeerID.byteCount * 2).contains(digits.utf8.count),
            digits.utf8.allSatisfy({
                UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 || UInt8(ascii: "a")...UInt8(ascii: "f") ~= $0
            }),
            !known.contains(where: { $0.name.claimed.lowercased() == wanted })
        else { return [] }
        let name = parts.count > 1 ? parts.dropLast().joined(separator: "#") : nil
        func hasID(_ peer: Candidate) -> Bool {
            peer.id.hex.hasPrefix(digits) && (name.map { $0 == peer.name.claimed.lowercased() } ?? true)
        }
        guard known.contains(where: hasID) else { return [] }
        return known.filter { hasID($0) || $0.name.claimed.lowercased().hasPrefix(wanted) }
    }

    private static var minimumIDPrefixCount: Int { 4 }

    /// The message for a text that selects several peers.
    package static func ambiguity(of text: String, _ candidates: [Candidate]) -> String {
        NodeError.ambiguity(of: text, rows: candidates.map(\.idRow))
    }
}
