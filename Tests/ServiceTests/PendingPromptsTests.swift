import Testing

@testable import NearshareService

@Suite("Open questions, and the lines that answer them")
struct PendingPromptsTests {
    @Test("One question takes a bare answer, and an empty line is none") func one() {
        var prompts = PendingPrompts<String>()
        #expect(prompts.prompt == nil)
        let number = prompts.add("accept?", about: "ben", "b")
        #expect(prompts.prompt == "accept? [y]es, [n]o, [b]lock: ")
        #expect(prompts.parse("y") == .answer(number: number, .yes))
        #expect(prompts.parse(" NO ") == .answer(number: number, .no))
        #expect(prompts.parse("block \(number)") == .answer(number: number, .block))
        #expect(prompts.parse("") == .none(hint: nil) && prompts.parse("  ") == .none(hint: nil))
        #expect(prompts.parse("maybe") == .none(hint: "please answer y, n or b"))
        #expect(prompts.parse("y \(number + 1)") == .none(hint: "there is no such question"))
        #expect(prompts.parse("y \(number) 7") == .none(hint: "there is no such question"))
    }

    @Test("R4: with two open a bare answer answers neither: an untrusted peer may have asked the last one") func two() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add("accept?", about: "ben", "b")
        let cleo = prompts.add("is it the same?", about: "cleo", "c")
        #expect(prompts.prompt?.contains("number \(ben), ben: accept?") == true)
        #expect(prompts.prompt?.contains("number \(cleo), cleo: is it the same?") == true)
        for word in ["y", "n", "b"] {
            #expect(prompts.parse(word) == .none(hint: "which one? \(word) \(ben) or \(word) \(cleo)"))
        }
        #expect(prompts.parse("y \(ben)") == .answer(number: ben, .yes))
        let (reply, again) = (prompts.remove(cleo), prompts.remove(cleo))
        #expect(reply == "c" && again == nil)
        // The remaining question keeps its number, because another one was shown a moment ago.
        #expect(prompts.prompt == "number \(ben), ben: accept? [y]es, [n]o, [b]lock: ")
        #expect(prompts.parse("y") == .answer(number: ben, .yes))
        #expect(prompts.parse("y \(cleo)") == .none(hint: "there is no such question"))
        let replies = prompts.removeAll()
        #expect(replies == ["b"])
        let dan = prompts.add("accept?", about: "dan", "d")
        #expect(dan > cleo, "a late answer must not fit another question")
    }

    @Test("R4: a flood of questions does not fill the screen") func flood() {
        var prompts = PendingPrompts<Int>()
        for number in 0..<100 { _ = prompts.add("accept?", about: "p\(number)", number) }
        #expect(prompts.prompt?.contains("and 96 more") == true)
        #expect(prompts.parse("n 100") == .answer(number: 100, .no))
    }
}
