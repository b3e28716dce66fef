import Nearshare
import Testing

@testable import NearshareCLI

@Suite struct ReportedPeersTests {
    private let anna: PeerID
    private let ben: PeerID

    init() throws {
        anna = try #require(PeerID(hex: "1a2b3c4d5e6f7081"))
        ben = try #require(PeerID(hex: "2b2b3c4d5e6f7081"))
    }

    @Test("K2: a peer that was reported for a name is expected under that name alone, in any case")
    func names() {
        var reported = ReportedPeers()
        reported.insert(anna, named: "Anna")
        #expect(reported.contains(anna) && !reported.contains(ben))
        #expect(reported.peers(named: "ANNA") == [anna] && reported.peers(named: "an").isEmpty)
        reported.insert(ben, named: "anna")
        #expect(reported.peers(named: "anna") == [anna, ben])
    }

    @Test func `a peer to which the user has written has no name by that`() {
        var reported = ReportedPeers()
        reported.insert(ben)
        #expect(reported.contains(ben) && reported.peers(named: "ben").isEmpty)
    }

    @Test func `a notice about a namesake makes a peer no known one`() {
        var reported = ReportedPeers()
        reported.settleNamesake(of: anna)
        #expect(reported.isNamesakeSettled(of: anna) && !reported.isNamesakeSettled(of: ben))
        #expect(!reported.contains(anna))
    }
}
