import Nearshare
import NearshareTesting
import Testing

@testable import NearshareEngine
@testable import NearshareService

@Suite("the peers that a text selects, by the same rules nearby and in lists")
struct NameSelectionTests {
    /// A peer: the number of its key, the name that it claims, and the name that the user has given it.
    private struct Peer {
        let number: UInt8
        let claimed: String
        var given: String?

        init(_ number: UInt8, _ claimed: String, given: String? = nil) {
            (self.number, self.claimed, self.given) = (number, claimed, given)
        }
    }

    private struct Row {
        let text: String
        let peers: [Peer]
        /// The numbers of the peers that are away, and that the user knows by the text.
        var away: Set<UInt8> = []
        let selected: Set<UInt8>
    }

    private let clock = ManualClock()

    private func fingerprint(_ number: UInt8) throws -> Fingerprint {
        try #require(Fingerprint(bytes: [UInt8](repeating: number, count: 32)))
    }

    private func ids(_ numbers: Set<UInt8>) throws -> Set<PeerID> { Set(try numbers.map { try fingerprint($0).peerID }) }

    /// The peers that a search nearby finds, where each peer is announced under the name that it claims.
    private func found(_ row: Row) throws -> Set<PeerID> {
        let known = row.peers.filter { $0.given?.lowercased() == row.text.lowercased() }.map(\.number)
        let finder = PeerFinder(text: row.text, knownAs: try ids(row.away.union(known))) { [clock] in clock.now }
        for peer in row.peers {
            let id = try fingerprint(peer.number).peerID
            finder.receive(.present(NearbyPeer(id: id, name: try DisplayName(peer.claimed), addresses: [])))
        }
        switch finder.lastVerdict() {
        case .success(let peer): return [peer.id]
        case .failure(.ambiguous(_, let peers)): return Set(peers.map(\.id))
        case .failure: return []
        }
    }

    /// The peers that are selected in a list, where each has the name by which the user knows it.
    private func listed(_ row: Row) throws -> Set<PeerID> {
        let keys = try row.peers.map { peer in
            NamedKey(
                fingerprint: try fingerprint(peer.number), name: try DisplayName(peer.given ?? peer.claimed),
                otherName: peer.given == nil ? nil : try DisplayName(peer.claimed))
        }
        return Set(NameSelection(of: row.text, among: keys, knownAs: try ids(row.away)).peers.map(\.id))
    }

    private func check(_ rows: [Row]) throws {
        for row in rows {
            let expected = try ids(row.selected)
            #expect(try found(row) == expected, "nearby: \(row.text)")
            #expect(try listed(row) == expected, "in a list: \(row.text)")
        }
    }

    @Test func `a whole name goes before the beginning of one, in any case, and blank text selects no peer`() throws {
        let peers = [Peer(1, "anna"), Peer(2, "Annabel"), Peer(3, "ben")]
        try check([
            Row(text: "ANNA", peers: peers, selected: [1]), Row(text: "annab", peers: peers, selected: [2]),
            Row(text: "ann", peers: peers, selected: [1, 2]), Row(text: "zoe", peers: peers, selected: []),
            Row(text: "", peers: peers, selected: []), Row(text: " \t", peers: peers, selected: []),
            Row(text: "ben", peers: peers + [Peer(4, "Ben")], selected: [3, 4]),
        ])
    }

    @Test("K2: a name that imitates an id selects no peer in any form; its bearer is selected by its other names")
    func imitatedID() throws {
        let id = try fingerprint(1).peerID.hex
        for name in [id, id.uppercased()] {
            let (owner, impostor) = (Peer(1, "anna"), Peer(2, name))
            let renamed = Peer(2, name, given: "Mal")
            try check([
                Row(text: name, peers: [owner, impostor], selected: [1]), Row(text: name, peers: [impostor], selected: []),
                Row(text: name, peers: [renamed], selected: []),
                Row(text: String(name.prefix(6)), peers: [owner, impostor], selected: []),
                Row(text: String(name.prefix(6)), peers: [renamed], selected: []),
                Row(text: "\(name)#0202", peers: [owner, impostor], selected: []),
                Row(text: "mal", peers: [owner, renamed], selected: [2]),
                Row(text: String(repeating: "02", count: 8), peers: [owner, impostor], selected: [2]),
            ])
        }
        // A peer that claims its own id as its name is selected by the id, by its beginning and with the tag.
        let own = Peer(1, id)
        try check([
            Row(text: id, peers: [own], selected: [1]), Row(text: "0101", peers: [own], selected: [1]),
            Row(text: "\(id)#0101", peers: [own], selected: [1]),
        ])
    }

    @Test("K2: a tag selects the peer of that key; a name that imitates it makes it ambiguous")
    func tag() throws {
        let peers = [Peer(1, "anna"), Peer(2, "anna")]
        try check([
            Row(text: "Anna#0101", peers: peers, selected: [1]), Row(text: "anna#0303", peers: peers, selected: []),
            Row(text: "anna#0101", peers: peers + [Peer(3, "anna#0101")], selected: [1, 3]),
        ])
    }

    @Test func `the name that the user knows a peer by selects it, and so does the one that it calls itself`() throws {
        let peers = [Peer(1, "zoe", given: "Anna"), Peer(2, "annabel"), Peer(3, "ben")]
        try check([
            Row(text: "anna", peers: peers, selected: [1]), Row(text: "zoe", peers: peers, selected: [1]),
            Row(text: "zo", peers: peers, selected: [1]), Row(text: "annab", peers: peers, selected: [2]),
        ])
    }

    @Test("K2: where a peer that the user knows by the text is away, no peer is selected whose name only begins with it")
    func away() throws {
        let peers = [Peer(2, "annabel"), Peer(3, "annalise")]
        try check([
            Row(text: "anna", peers: [peers[0]], away: [1], selected: []),
            Row(text: "anna", peers: peers, away: [1], selected: []),
            Row(text: "annab", peers: peers, selected: [2]),
            // A whole name is selected. Whether the owner is meant instead is decided later, by the trust in both.
            Row(text: "anna", peers: peers + [Peer(4, "anna")], away: [1], selected: [4]),
        ])
        // A list knows that the user has given the peer another name.
        #expect(try listed(Row(text: "anna", peers: [Peer(2, "anna", given: "Mal")], away: [1], selected: [])).isEmpty)
    }

    @Test("K2: a name that the user has given goes before the same one that another peer calls itself; nearby both are seen")
    func claimedBesideGiven() throws {
        let row = Row(
            text: "anna", peers: [Peer(1, "zoe", given: "anna"), Peer(2, "anna", given: "Mal")], selected: [1])
        #expect(try listed(row) == ids([1]))
        #expect(try found(row) == ids([1, 2]))
    }

    @Test func `only the beginning of a name is not exact`() throws {
        let key = NamedKey(
            fingerprint: try fingerprint(1), name: try DisplayName("anna"), otherName: try DisplayName("zoe"))
        for text in ["anna", "zoe", "anna#0101", key.id.hex] {
            #expect(NameSelection(of: text, among: [key]) == .one(key, isExact: true), "\(text)")
        }
        for text in ["an", "z"] { #expect(NameSelection(of: text, among: [key]) == .one(key, isExact: false), "\(text)") }
    }
}
