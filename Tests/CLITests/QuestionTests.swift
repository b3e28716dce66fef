import Nearshare
import NearshareTerminal
import Testing

@testable import NearshareCLI
@testable import NearshareEngine

private let emptyNames = ["", " ", "\t\n", "\u{a0}"]

@Suite("what is asked, and what a line answers")
struct OpenQuestionsTests {
    @Test("one question takes a bare answer, and an empty line is none") func one() {
        var questions = PendingPrompts<String>()
        #expect(questions.prompt == nil)
        let number = questions.add("accept?", about: "ben", "b")
        #expect(questions.prompt == "accept? [y]es, [n]o, [b]lock: ")
        #expect(questions.take("y") == .answer(number: number, .yes))
        #expect(questions.take(" NO ") == .answer(number: number, .no))
        #expect(questions.take("block \(number)") == .answer(number: number, .block))
        #expect(questions.take("") == .none(nil) && questions.take("  ") == .none(nil))
        #expect(questions.take("maybe") == .none("please answer y, n or b"))
        #expect(questions.take("y \(number + 1)") == .none("there is no such question"))
        #expect(questions.take("y \(number) 7") == .none("there is no such question"))
    }

    @Test("R4: with two open a bare answer answers neither: a stranger may have asked the last one") func two() {
        var questions = PendingPrompts<String>()
        let ben = questions.add("accept?", about: "ben", "b")
        let cleo = questions.add("is it the same?", about: "cleo", "c")
        #expect(questions.prompt?.contains("number \(ben), ben: accept?") == true)
        #expect(questions.prompt?.contains("number \(cleo), cleo: is it the same?") == true)
        for word in ["y", "n", "b"] { #expect(questions.take(word) == .none("which one? \(word) \(ben) or \(word) \(cleo)")) }
        #expect(questions.take("y \(ben)") == .answer(number: ben, .yes))
        let (reply, again) = (questions.remove(cleo), questions.remove(cleo))
        #expect(reply == "c" && again == nil)
        // Whom a bare answer is for is said, as something else stood there a moment ago.
        #expect(questions.prompt == "number \(ben), ben: accept? [y]es, [n]o, [b]lock: ")
        #expect(questions.take("y") == .answer(number: ben, .yes))
        #expect(questions.take("y \(cleo)") == .none("there is no such question"))
        let replies = questions.removeAll()
        #expect(replies == ["b"])
        let dan = questions.add("accept?", about: "dan", "d")
        #expect(dan > cleo, "a late answer must not fit another question")
    }

    @Test("R4: a flood of questions does not fill the screen") func flood() {
        var questions = PendingPrompts<Int>()
        for number in 0..<100 { _ = questions.add("accept?", about: "p\(number)", number) }
        #expect(questions.prompt?.contains("and 96 more") == true)
        #expect(questions.take("n 100") == .answer(number: 100, .no))
    }
}

@Suite("whom a text means")
struct PeerTextTests {
    @Test("an empty name is a mistake", arguments: emptyNames) func empty(_ text: String) {
        #expect(throws: (any Error).self) { try PeerText.check(text) }
    }

    @Test("an empty name means nobody, though every name begins so", arguments: emptyNames)
    func emptyMeansNobody(_ text: String) throws {
        let id = try #require(PeerID(hex: "0123456789abcdef"))
        let peer = NearbyPeer(id: id, name: try DisplayName("anna"), addresses: [])
        #expect(PeerTable.find(text, among: [id: peer]) == .none)
        #expect(PeerTable.find("an", among: [id: peer]) == .one(peer, isExact: false))
        var book = TrustStore()
        let fingerprint = LocalIdentity(seed: [UInt8](repeating: 7, count: 64)).fingerprint
        let isKept = book.introduce(fingerprint, claiming: peer.name, as: peer.name, at: WallTime(milliseconds: 1))
        #expect(isKept)
        #expect(try PeerSelection.findIfKnown(text, in: book) == nil)
        #expect(try PeerSelection.findIfKnown("an", in: book)?.fingerprint == fingerprint)
    }

    @Test("an address without a port is told so", arguments: ["10.77.0.1", "fe80::1%eth0", "::1"])
    func hosts(_ text: String) {
        #expect(throws: (any Error).self) { try PeerText.check(text) }
    }

    @Test(arguments: ["anna", "10.77.0.1:4000", "[fe80::1%eth0]:4000", "10.77", "0123456789abcdef", "anna.local:1", "a%b"])
    func names(_ text: String) throws {
        #expect(try PeerText.check(text) == text)
    }

    @Test("the same one twice is one") func unique() {
        #expect(PeerText.unique(["anna", "ben", "Anna", "anna"]) == ["anna", "ben"])
    }
}
