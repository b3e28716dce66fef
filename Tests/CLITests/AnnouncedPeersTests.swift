import Nearshare
import Testing

@testable import NearshareCLI

@Suite struct AnnouncedPeersTests {
    private let anna: PeerID
    private let ben: PeerID

    init() throws {
        anna = try #require(PeerID(hex: "1a2b3c4d5e6f7081"))
        ben = try #require(PeerID(hex: "2b2b3c4d5e6f7081"))
    }

    @Test("K2: a peer that was announced for a name is expected under that name alone, in any case")
    func names() {
        var announced = AnnouncedPeers()
        announced.insert(anna, named: "Anna")
        #expect(announced.contains(anna) && !announced.contains(ben))
        #expect(announced.peers(named: "ANNA") == [anna] && announced.peers(named: "an").isEmpty)
        announced.insert(ben, named: "anna")
        #expect(announced.peers(named: "anna") == [anna, ben])
    }

    @Test func `a peer to which the user has written has no name by that`() {
        var announced = AnnouncedPeers()
        announced.insert(ben)
        #expect(announced.contains(ben) && announced.peers(named: "ben").isEmpty)
    }

    @Test func `a notice about a namesake makes a peer no known one`() {
        var announced = AnnouncedPeers()
        announced.suppressSharedNameNotice(for: anna)
        #expect(announced.isSharedNameNoticeSuppressed(for: anna) && !announced.isSharedNameNoticeSuppressed(for: ben))
        #expect(!announced.contains(anna))
    }
}
