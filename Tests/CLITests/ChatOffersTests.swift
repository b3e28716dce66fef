import Nearshare
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("offers in the chat")
struct ChatOffersTests {
    private let start = WallTime(milliseconds: 1_000_000)

    private func question(_ number: Int) -> OpenPrompt {
        OpenPrompt(number: number, title: "offer \(number)", lines: [], yes: "Accept", no: "Decline")
    }

    private func later(_ seconds: Int64) -> WallTime { WallTime(milliseconds: start.milliseconds + seconds * 1_000) }

    @Test func `a single offer needs no number, several do`() {
        var offers = ChatOffers()
        #expect(offers.choose("", for: "/accept", at: start) == .hint("no offer is open"))
        offers.add(question(1), at: start)
        offers.beginLine(at: later(1))
        #expect(offers.choose("", for: "/accept", at: later(1)) == .offer(1))
        offers.add(question(2), at: start)
        #expect(offers.choose("", for: "/decline", at: start) == .hint("which one? /decline 1, /decline 2"))
        #expect(offers.choose("2", for: "/accept", at: start) == .offer(2))
        #expect(offers.choose("3", for: "/accept", at: start) == .hint("offer 3 is not open"))
        #expect(offers.choose("all", for: "/accept", at: start) == .hint("which one? /accept 1, /accept 2"))
    }

    @Test func `offers are listed by number, however often they are asked about`() {
        var offers = ChatOffers()
        for number in [2, 3, 1, 3, 2] { offers.add(question(number), at: start) }
        #expect(offers.choose("", for: "/accept", at: start) == .hint("which one? /accept 1, /accept 2, /accept 3"))
    }

    @Test(
        "a text that would be an answer at another terminal is told from others",
        arguments: [
            ("ye 1", "/accept 1"), ("y1", "/accept 1"), ("1 y", "/accept 1"), ("Accept #1.", "/accept 1"),
            ("n 1", "/decline 1"),
            ("decline 1", "/decline 1"), ("y 2", nil), ("y", nil), ("yes", nil), ("1", nil), ("y 1 2", nil), ("you 1", nil),
            ("y 1 please", nil),
        ])
    func answerElsewhere(_ text: String, _ command: String?) {
        var offers = ChatOffers()
        #expect(offers.command(for: text) == nil)
        offers.add(question(1), at: start)
        #expect(offers.command(for: text)?.name == command)
    }

    @Test("R4: an answer without a number never means an offer that has replaced another one")
    func replaced() {
        var offers = ChatOffers()
        offers.add(question(1), at: start)
        #expect(offers.end(1, at: start)?.number == 1)
        offers.add(question(2), at: start)
        offers.beginLine(at: later(59))
        #expect(offers.choose("", for: "/accept", at: later(59)) == .hint("which one? /accept 2"))
        #expect(offers.choose("2", for: "/accept", at: later(1)) == .offer(2))
        #expect(offers.choose("", for: "/accept", at: later(60)) == .offer(2))
    }

    @Test("R4: a question of another node gets no number that one of the former node had, and replaces it as any other does")
    func anotherNode() {
        var offers = ChatOffers()
        offers.add(question(1), at: start)
        offers.beginLine(at: later(1))
        let ended = offers.endAll(at: later(1))
        let shown = offers.add(question(1), at: later(2))
        #expect(ended.map(\.number) == [1] && shown.number == 2 && offers.nodeNumber(of: 2) == 1)
        #expect(offers.choose("1", for: "/accept", at: later(3)) == .hint("offer 1 is not open"))
        #expect(offers.choose("", for: "/accept", at: later(3)) == .hint("which one? /accept 2"))
        #expect(offers.choose("2", for: "/accept", at: later(3)) == .offer(2))
        offers.beginLine(at: later(61))
        #expect(offers.choose("", for: "/accept", at: later(61)) == .offer(2))
        let withdrawn = offers.end(1, at: later(62))
        #expect(withdrawn?.number == 2 && offers.open.isEmpty)
    }

    @Test func `the end of an offer that the user has answered is expected`() {
        var offers = ChatOffers()
        offers.add(question(1), at: start)
        offers.answer(1)
        #expect(offers.end(1, at: start) == nil)
        offers.add(question(2), at: start)
        offers.beginLine(at: later(1))
        #expect(offers.choose("", for: "/decline", at: later(1)) == .offer(2))
    }

    @Test("R4: an answer without a number never means an offer that appears just before the line is begun, or after it")
    func unread() {
        var offers = ChatOffers()
        offers.add(question(1), at: start)
        offers.answer(1)
        offers.beginLine(at: later(1))
        offers.add(question(2), at: later(1))
        #expect(offers.choose("", for: "/accept", at: later(10)) == .hint("which one? /accept 2"))
        offers.beginLine(at: WallTime(milliseconds: later(2).milliseconds - 1))
        #expect(offers.choose("", for: "/accept", at: later(10)) == .hint("which one? /accept 2"))
        offers.beginLine(at: later(2))
        #expect(offers.choose("", for: "/accept", at: later(10)) == .offer(2))
    }
}
