import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("peer picker") struct PeerPickerTests {
    private func peer(_ digit: String, _ name: String) throws -> NearbyPeer {
        NearbyPeer(id: try #require(PeerID(hex: "000000000000000" + digit)), name: try DisplayName(name), addresses: [])
    }

    @Test func `peers appear, change and disappear; Enter picks the selected one`() throws {
        var picker = PeerPicker(trust: TrustStore())
        #expect(picker.lines(in: .standard).count == 2)
        let early = picker.handle(.enter)
        #expect(early == .none)
        let (anna, ben) = (try peer("a", "anna"), try peer("b", "ben"))
        picker.update(.found(anna))
        picker.update(.found(ben))
        #expect(picker.lines(in: .standard).contains { $0.hasPrefix("▸") && $0.contains("anna") && $0.contains("new") })
        _ = picker.handle(.down)
        picker.update(.lost(anna))
        let reaction = picker.handle(.enter)
        #expect(reaction == .picked([ben]))
        picker.update(.lost(ben))
        let empty = picker.handle(.enter)
        #expect(empty == .none)
        let cancelled = picker.handle(.escape)
        #expect(cancelled == .cancelled)
    }

    @Test func `several peers are picked, and one that has left meanwhile is not`() throws {
        var picker = PeerPicker(trust: TrustStore())
        let (anna, ben, cyd) = (try peer("a", "anna"), try peer("b", "ben"), try peer("c", "cyd"))
        for peer in [anna, ben, cyd] { picker.update(.found(peer)) }
        for key in [TerminalKey.text(" "), .down, .text(" "), .down, .text(" ")] { _ = picker.handle(key) }
        picker.update(.lost(ben))
        let reaction = picker.handle(.enter)
        #expect(reaction == .picked([anna, cyd]))
    }

    @Test("a blocked peer is not proposed, under any name")
    func blocked() throws {
        let key = Fingerprint(bytes: [UInt8](repeating: 7, count: 32))!
        var book = TrustStore()
        let now = WallTime(milliseconds: 0)
        let isBlocked = book.block(key, named: try DisplayName("mallory"), at: now)
        #expect(isBlocked)
        var picker = PeerPicker(trust: book)
        for name in ["mallory", "anna"] {
            picker.update(.found(NearbyPeer(id: key.peerID, name: try DisplayName(name), addresses: [])))
            #expect(!picker.lines(in: .standard).joined().contains(name))
        }
        let picked = picker.handle(.enter)
        #expect(picked == .none)
    }

    @Test("T1: names are escaped")
    func hostile() throws {
        var picker = PeerPicker(trust: TrustStore())
        picker.update(.found(try peer("a", "a\u{1b}[2Jnna")))
        #expect(!picker.lines(in: .standard).joined().contains("\u{1b}"))
    }
}
