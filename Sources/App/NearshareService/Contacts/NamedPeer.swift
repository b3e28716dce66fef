package import Nearshare

/// A peer of the user's files or lists that a text on the command line or in a conversation can select.
package protocol NamedPeer: SelectablePeer {
    /// The trust in the peer, as lists show it; nil where it is not known.
    var trustLabel: String? { get }
}

extension NamedPeer {
    package var trustLabel: String? { nil }

    /// The row of a list of peers with similar names, from which the user takes the id.
    var idRow: String { "\(name.shown)  \(id)" + (trustLabel.map { "  \($0)" } ?? "") }
}

extension NameSelection where Peer: NamedPeer {
    /// The known peers whose ids begin with a text of at least as many digits as a tag has, also behind the name and a number sign,
    /// as in `anna#1a2b`; none where the text is a known peer's name. Where there are any, also those whose names begin with the
    /// text: a peer that takes the digits of another one's id as its name makes them ambiguous. Newcomers are never selected so: a
    /// key whose id begins with four given digits is found by trying 2^16 of them (K2).
    package static func withIDPrefix(_ text: String, amongKnown known: [Peer]) -> [Peer] {
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
        func hasID(_ peer: Peer) -> Bool {
            peer.id.hex.hasPrefix(digits) && (name.map { $0 == peer.name.claimed.lowercased() } ?? true)
        }
        guard known.contains(where: hasID) else { return [] }
        return known.filter { hasID($0) || $0.name.claimed.lowercased().hasPrefix(wanted) }
    }

    private static var minimumIDPrefixCount: Int { 4 }

    /// The message for a text that selects several peers.
    package static func ambiguity(of text: String, _ peers: [Peer]) -> String {
        NodeError.ambiguity(of: text, rows: peers.map(\.idRow))
    }
}
