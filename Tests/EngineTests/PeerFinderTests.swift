import NearshareBase
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("finding the peer a text names") struct PeerFinderTests {
    private static let network = LinkAddress(host: "192.0.2.1", port: 4000)
    private static let radio = LinkAddress(host: "00:AA:01:00:00:00", port: 0, medium: .bluetooth)

    private let clock = ManualClock()

    private func peer(_ number: UInt8, _ name: String, at addresses: [LinkAddress] = [network]) -> NearbyPeer {
        NearbyPeer(
            id: PeerID(bytes: [UInt8](repeating: number, count: 8))!, name: DisplayName(truncating: name)!,
            addresses: addresses)
    }

    private func finder(_ text: String, avoiding avoided: Set<LinkAddress> = []) -> PeerFinder {
        PeerFinder(text: text, avoiding: avoided) { [clock] in clock.now }
    }

    /// The name of the peer found within the timeout, or the error.
    private func verdict(_ finder: PeerFinder, after duration: Duration) -> String {
        clock.advance(by: duration)
        switch finder.verdict(at: clock.now) {
        case .found(let peer): return peer.name.shown
        case .failed(.ambiguous(_, let peers)): return "\(peers.count) peers"
        case .failed(.notFound): return "no peer"
        case .failed(let error): return "\(error)"
        case .undecided: return "undecided"
        }
    }

    @Test func `a peer that was seen before discovery failed is found`() async throws {
        struct Broken: Error {}
        let anna = peer(1, "anna")
        let found = try await finder("anna").find(before: clock.now + .seconds(3_600), endsAtFailure: true) { update in
            update(.present(anna))
            throw Broken()
        }
        #expect(found == anna)
    }

    @Test("D1: an id is found with the addresses that are announced for it in 60 ms, its owner's among those of others")
    func id() {
        var anna = peer(1, "anna")
        let finder = finder(anna.id.hex)
        #expect(verdict(finder, after: .seconds(1)) == "undecided")
        finder.receive(.present(anna))
        #expect(verdict(finder, after: .milliseconds(59)) == "undecided")
        anna.addresses.append(LinkAddress(host: "192.0.2.9", port: 9))
        finder.receive(.present(anna))
        guard case .found(let found) = finder.verdict(at: clock.now + .milliseconds(1)) else {
            Issue.record("not found")
            return
        }
        #expect(found.addresses == anna.addresses)
    }

    @Test("K2: a peer whose name is the id of another one is not found by it; the other one is waited for")
    func idAsName() {
        let anna = peer(1, "anna")
        for text in [anna.id.hex, "0101"] {
            let finder = finder(text)
            finder.receive(.present(peer(2, anna.id.hex.uppercased())))
            #expect(verdict(finder, after: .seconds(5)) == "undecided")
        }
        let finder = finder(anna.id.hex)
        finder.receive(.present(peer(2, anna.id.hex)))
        finder.receive(.present(anna))
        #expect(verdict(finder, after: .milliseconds(60)) == "anna")
    }

    @Test func `a whole name waits for a second peer of the same name`() {
        let finder = finder("anna")
        finder.receive(.present(peer(1, "anna")))
        #expect(verdict(finder, after: .milliseconds(59)) == "undecided")
        #expect(verdict(finder, after: .milliseconds(1)) == "anna")
        finder.receive(.present(peer(2, "Anna")))
        #expect(verdict(finder, after: .milliseconds(500)) == "2 peers")
    }

    @Test("D1: a peer that is announced only where another one has answered counts as absent")
    func discardedAddresses() {
        let finder = finder(peer(1, "anna").id.hex)
        let (claimed, both) = (peer(1, "anna"), peer(1, "anna", at: [Self.network, Self.radio]))
        finder.receive(PeerFinder.Change(.found(claimed), discarding: [Self.network]))
        #expect(verdict(finder, after: .seconds(5)) == "undecided")
        finder.receive(PeerFinder.Change(.updated(both), discarding: [Self.network]))
        guard case .success(let found) = finder.lastVerdict() else {
            Issue.record("not found")
            return
        }
        #expect(found.addresses == [Self.radio])
        finder.receive(PeerFinder.Change(.lost(both), discarding: []))
        #expect(verdict(finder, after: .zero) == "undecided")
    }

    @Test("K2: in the mesh, of two newcomers with one name the first one is not found")
    func settlingTime() {
        let finder = PeerFinder(text: "anna", settlingTime: .seconds(1)) { [clock] in clock.now }
        finder.receive(.present(peer(1, "anna")))
        #expect(verdict(finder, after: .milliseconds(999)) == "undecided")
        finder.receive(.present(peer(2, "Anna")))
        #expect(verdict(finder, after: .zero) == "2 peers")
        finder.receive(.absent(peer(2, "Anna").id))
        #expect(verdict(finder, after: .milliseconds(1)) == "anna")
        let byID = PeerFinder(text: peer(1, "anna").id.hex, settlingTime: .seconds(1)) { [clock] in clock.now }
        byID.receive(.present(peer(1, "anna")))
        #expect(verdict(byID, after: .milliseconds(60)) == "anna")
    }

    @Test func `a peer is found by the name that the user knows it by, and one that claims it now is noticed`() {
        let renamed = peer(1, "zoe")
        let finder = PeerFinder(text: "anna", knownAs: [renamed.id]) { [clock] in clock.now }
        finder.receive(.present(peer(3, "anna-box")))
        finder.receive(.present(renamed))
        #expect(verdict(finder, after: .milliseconds(60)) == "zoe")
        finder.receive(.present(peer(2, "anna")))
        #expect(verdict(finder, after: .milliseconds(500)) == "2 peers")
    }

    @Test func `the known peer of a name has more time to answer than another one that uses it`() {
        let anna = peer(1, "anna")
        let finder = PeerFinder(text: "anna", knownAs: [anna.id]) { [clock] in clock.now }
        finder.receive(.present(peer(2, "anna")))
        #expect(verdict(finder, after: .milliseconds(499)) == "undecided")
        finder.receive(.present(anna))
        #expect(verdict(finder, after: .milliseconds(1)) == "2 peers")
        finder.receive(.absent(anna.id))
        #expect(verdict(finder, after: .zero) == "anna")
    }

    @Test func `the whole name of a known peer that is away finds no peer whose name only begins so`() {
        let finder = PeerFinder(text: "anna", knownAs: [peer(1, "anna").id]) { [clock] in clock.now }
        finder.receive(.present(peer(2, "annalise")))
        #expect(verdict(finder, after: .seconds(5)) == "undecided")
        let error = #expect(throws: NodeError.self) { try finder.lastVerdict().get() }
        #expect(error?.description == "anna is not nearby; did you mean annalise?")
        finder.receive(.present(peer(1, "anna")))
        #expect(verdict(finder, after: .milliseconds(60)) == "anna")
    }

    @Test func `the beginning of a name waits until all peers had time to answer`() {
        let finder = finder("an")
        finder.receive(.present(peer(1, "anna")))
        #expect(verdict(finder, after: .milliseconds(499)) == "undecided")
        #expect(verdict(finder, after: .milliseconds(1)) == "anna")
        finder.receive(.present(peer(2, "anton")))
        #expect(verdict(finder, after: .zero) == "2 peers")
        finder.receive(.absent(peer(1, "anna").id))
        #expect(verdict(finder, after: .zero) == "anton")
    }

    @Test func `a peer that leaves before the verdict is not found`() {
        let finder = finder("anna")
        let anna = peer(1, "anna")
        finder.receive(.present(anna))
        finder.receive(.absent(anna.id))
        #expect(verdict(finder, after: .seconds(5)) == "undecided")
        #expect(throws: NodeError.self) { try finder.lastVerdict().get() }
    }

    @Test func `after a failure on one medium another one is waited for`() {
        let finder = finder(peer(1, "anna").id.hex, avoiding: [Self.radio])
        finder.receive(.present(peer(1, "anna", at: [Self.radio])))
        #expect(verdict(finder, after: .milliseconds(1_999)) == "undecided")
        finder.receive(.present(peer(1, "anna", at: [Self.network, Self.radio])))
        #expect(verdict(finder, after: .zero) == "anna")
    }

    @Test func `an address that has failed is tried again where there is no other`() {
        let finder = finder(peer(1, "anna").id.hex, avoiding: [Self.radio])
        finder.receive(.present(peer(1, "anna", at: [Self.radio])))
        #expect(verdict(finder, after: .seconds(2)) == "anna")
    }
}
