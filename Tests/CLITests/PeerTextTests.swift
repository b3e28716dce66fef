import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareEngine

private let emptyNames = ["", " ", "\t\n", "\u{a0}"]

@Suite("the peer a text names")
struct PeerTextTests {
    @Test("an empty name is a mistake", arguments: emptyNames) func empty(_ text: String) {
        #expect(throws: (any Error).self) { try PeerArgument.validated(text) }
    }

    @Test(
        "an address with something else than a port is an error, a name with a colon is not",
        arguments: ["10.0.0.1:", "10.0.0.1:29742x", "10.0.0.1:0", "10.0.0.1:65536", "[fe80::1%eth0]:x", "[::1]:-1"])
    func ports(_ text: String) throws {
        #expect(throws: (any Error).self) { try PeerArgument.validated(text) }
        for name in ["anna:29742", "anna: x", "[anna]:x", "10.0.0.1:1", "[::1]:65535"] {
            #expect(try PeerArgument.validated(name) == name)
        }
    }

    @Test("an empty name matches no peer, though it is a prefix of every name", arguments: emptyNames)
    func emptyMeansNobody(_ text: String) throws {
        let id = try #require(PeerID(hex: "0123456789abcdef"))
        let peer = NearbyPeer(id: id, name: try DisplayName("anna"), addresses: [])
        #expect(NameSelection(of: text, among: [peer]) == .none)
        #expect(NameSelection(of: "an", among: [peer]) == .one(peer, isExact: false))
    }

    @Test(
        "an address without a port has the default port",
        arguments: [
            ("10.77.0.1", "10.77.0.1:29742"), ("fe80::1%eth0", "[fe80::1%eth0]:29742"), ("::1", "[::1]:29742"),
            ("[::1]", "[::1]:29742"),
            ("[fe80::1%eth0]", "[fe80::1%eth0]:29742"),
        ])
    func hosts(_ text: String, peer: String) throws {
        #expect(try PeerArgument.validated(text) == peer)
    }

    @Test(arguments: [
        "anna", "10.77.0.1:4000", "[fe80::1%eth0]:4000", "10.77", "0123456789abcdef", "anna.local:1", "a%b", "::1%", "[anna]",
        "[10.77.0.1]",
    ])
    func `names, ids and addresses are left as they are`(_ text: String) throws {
        #expect(try PeerArgument.validated(text) == text)
    }

    @Test("the same one twice is one") func unique() {
        #expect(PeerArgument.unique(["anna", "ben", "Anna", "anna"]) == ["anna", "ben"])
    }
}
