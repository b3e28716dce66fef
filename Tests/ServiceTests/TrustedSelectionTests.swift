import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("which of several peers of a name is meant, by the trust in them")
struct TrustedSelectionTests {
    private let stage = ServiceStage()
    private let reporter = EventRecorder()

    private func selection(of user: StageUser) -> TrustedSelection {
        TrustedSelection(on: user.machine, reporter: reporter, transport: .network)
    }

    private func nearby(_ user: StageUser, _ name: String) throws -> NearbyPeer {
        NearbyPeer(id: user.id, name: try DisplayName(name), addresses: [])
    }

    @Test("K2: of several peers a blocked one is never meant, nor counted, and a known one by its stored name alone")
    func oneOfSeveral() throws {
        let (ada, bea, carl) = (try stage.user("ada"), try stage.user("bea"), try stage.user("carl"))
        let (blocked, newcomer) = (try stage.user("bea"), try stage.user("bea"))
        try ada.meet([bea, carl])
        try ada.machine.trust.update { _ = $0.block(blocked.fingerprint, named: blocked.name, at: WallTime(milliseconds: 1)) }
        func selected(_ text: String, _ peers: [(StageUser, String)]) throws -> PeerID {
            let near = try peers.map { NearbyPeer(id: $0.0.id, name: try DisplayName($0.1), addresses: []) }
            return try selection(of: ada).requireOne(selectedBy: text, among: near).id
        }
        #expect(try selected("bea", [(blocked, "bea"), (newcomer, "bea")]) == newcomer.id)
        #expect(reporter.notices.isEmpty)
        // It calls itself otherwise now.
        #expect(try selected("BEA", [(blocked, "bea"), (newcomer, "bea"), (bea, "box")]) == bea.id)
        let notice = "2 devices nearby are called \"bea\"; using the one that you know (\(bea.id)); for another one, use its id"
        #expect(reporter.notices == [notice])
        // A known peer that uses the name is listed as the user knows it.
        let renamed = #expect(throws: CommandFailure.self) { try selected("bea", [(bea, "bea"), (carl, "bea")]) }
        #expect(renamed?.message.contains("\(carl.id)  changed: another key, known as carl") == true)
        // A newcomer whose name is the tag of a blocked peer is not meant by it, whether that one is near or away.
        let tag = "bea#\(blocked.id.hex.prefix(4))"
        let failure = #expect(throws: CommandFailure.self) { try selected(tag, [(blocked, "bea"), (newcomer, tag)]) }
        #expect(failure?.status == .peerNotFound)
        let trust = try ada.machine.trust.read()
        let name = try DisplayName(tag)
        #expect(throws: ControlFailure.self) { try trust.requireUnambiguous(name, newcomer.id, selectedBy: tag) }
        for peers in [
            [(carl, "bea"), (newcomer, "bea")], [(bea, "bea"), (carl, "bea")], [(blocked, "bea"), (blocked, "bea")],
        ] {
            let failure = #expect(throws: CommandFailure.self) { try selected("bea", peers) }
            #expect(failure?.status == .peerNotFound)
        }
    }

    @Test("K2: the only trusted peer of a name is meant by it, and not by a beginning that another known name has")
    func onlyKey() throws {
        let (ada, bea, ben) = (try stage.user("ada"), try stage.user("bea"), try stage.user("ben"))
        try ada.introduce(bea.fingerprint, as: "bea", isFriend: true)
        try ada.meet([ben])
        let trust = try ada.machine.trust.read()
        func key(_ text: String) throws -> Fingerprint? {
            try TrustedSelection.onlyKey(among: trust.trustedPeers(named: text), selectedBy: text, in: trust)?.fingerprint
        }
        #expect(try key("BEA") == bea.fingerprint)
        // The search finds the peer, which is only known, and an id.
        #expect(try key("ben") == nil)
        #expect(try key(bea.id.hex) == nil)
        let failure = #expect(throws: ControlFailure.self) { try key("be") }
        #expect(failure?.kind == .ambiguous)
        for user in [bea, ben] { #expect(failure?.description.contains(user.id.hex) == true) }
        let twins = [bea, ben].map { NamedKey(fingerprint: $0.fingerprint, name: bea.name) }
        #expect(try TrustedSelection.onlyKey(among: twins, selectedBy: "bea", in: trust) == nil)
    }

    @Test("K2: a peer nearby with the name of one that is away is reported, by each text that may mean that one")
    func keyMismatch() throws {
        let (ada, bea, other) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        try ada.introduce(bea.fingerprint, as: "Bea", isFriend: true)
        let trust = try ada.machine.trust.read()
        func mismatch(_ text: String, _ peers: [NearbyPeer]) -> String? {
            TrustedSelection.keyMismatch(of: bea.fingerprint, selectedBy: text, among: peers, in: trust)
        }
        let impostor = try nearby(other, "BEA")
        for text in ["bea", "be", bea.id.hex] {
            let sentence = try #require(mismatch(text, [impostor]), "\(text)")
            #expect(sentence.contains("with another key (\(other.id)) than the one you know (\(bea.id))"))
        }
        let beginning = try nearby(other, "beatrice")
        #expect(mismatch("bea", [beginning]) == nil && mismatch("bea", []) == nil)
    }

    @Test("K4: what is found for a key is sent to that key alone")
    func pinned() throws {
        let (ada, bea, other) = (try stage.user("ada"), try stage.user("bea"), try stage.user("cleo"))
        try ada.meet([bea])
        let selection = selection(of: ada)
        let direct = PeerDestination(addresses: [LinkAddress(host: "10.0.0.9", port: 4000)], id: bea.id, name: bea.name)
        guard case .direct(let found) = try selection.pinned(.direct(direct), to: bea.fingerprint) else {
            Issue.record("another transport")
            return
        }
        #expect(found.fingerprint == bea.fingerprint && found.id == bea.id)
        let contact = Contact(
            id: bea.id, name: bea.name, trustStatus: .new, isNear: true, software: .nearshare, hasKeys: false)
        _ = try selection.pinned(.node(contact), to: bea.fingerprint)
        let failure = #expect(throws: CommandFailure.self) { try selection.pinned(.node(contact), to: other.fingerprint) }
        #expect(failure?.message.contains("cannot be checked through the running node") == true)
    }

    @Test("K2: a newcomer is not meant by the name of several trusted peers")
    func requireTrusted() throws {
        let (ada, bea, other) = (try stage.user("ada"), try stage.user("bea"), try stage.user("bea"))
        let newcomer = try stage.user("bea")
        let trusted = [bea, other].map { NamedKey(fingerprint: $0.fingerprint, name: $0.name) }
        func select(_ user: StageUser, among trusted: [NamedKey]) throws -> PeerID? {
            let found = PeerDestination(addresses: [], id: user.id, name: user.name)
            return try selection(of: ada).requireTrusted(.direct(found), among: trusted, selectedBy: "bea").peer?.id
        }
        #expect(try select(other, among: trusted) == other.id)
        #expect(try select(newcomer, among: []) == newcomer.id)
        let failure = #expect(throws: CommandFailure.self) { try select(newcomer, among: trusted) }
        #expect(failure?.status == .peerNotFound)
        for user in [bea, other] { #expect(failure?.message.contains(user.id.hex) == true) }
    }
}
