import Nearshare
import Testing

@testable import NearshareService

@Suite("open questions, and the lines that answer them")
struct PendingPromptsTests {
    private static let parts = PartChooser(Offer(items: [], itemCount: 0, entryCount: 0, totalSize: 0), listed: [])

    @Test("one question takes a bare answer, and an empty line is none") func one() {
        var prompts = PendingPrompts<String>()
        #expect(prompts.prompt() == nil)
        let number = prompts.add(Question("accept?", about: "ben"), "b")
        #expect(prompts.prompt() == "accept? [y]es, [n]o, [b]lock: ")
        #expect(prompts.parse("y", answering: number) == .answer(number: number, .yes))
        #expect(prompts.parse(" NO ", answering: number) == .answer(number: number, .no))
        #expect(prompts.parse("y", answering: nil) == .notAnAnswer(hint: "which one? y \(number)"))
        #expect(prompts.parse("block \(number)", answering: nil) == .answer(number: number, .block))
        #expect(
            prompts.parse("", answering: nil) == .blank && prompts.parse("  ", answering: nil) == .blank)
        #expect(prompts.parse("maybe", answering: nil) == .notAnAnswer(hint: "please answer y, n or b"))
        #expect(prompts.parse("all", answering: nil) == .notAnAnswer(hint: "y accepts all of it; please answer y, n or b"))
        let unknown = PendingPrompts<String>.ParsedLine.notAnAnswer(
            hint: "there is no such question; write y \(number) to accept")
        #expect(prompts.parse("ye \(number + 1)", answering: nil) == unknown)
        #expect(prompts.parse("y\(number)", answering: nil) == .answer(number: number, .yes))
        #expect(prompts.parse("7", answering: number) == .notAnAnswer(hint: "please answer y, n or b"))
        #expect(prompts.parse("y \(number) 7", answering: nil) == unknown)
        // Where no number was written, none is wrong.
        for line in ["yes please", "y it is", "no, thanks"] {
            #expect(prompts.parse(line, answering: number) == .notAnAnswer(hint: "please answer y, n or b"))
        }
    }

    @Test("R4: with two open a bare answer answers neither: an untrusted peer may have asked the last one") func two() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(Question("accept?", about: "ben"), "b")
        let cleo = prompts.add(Question("is it the same?", about: "cleo"), "c")
        #expect(prompts.prompt()?.contains("number \(ben), ben: accept?") == true)
        #expect(prompts.prompt()?.contains("number \(cleo), cleo: is it the same?") == true)
        for word in ["y", "n", "b"] {
            #expect(prompts.parse(word, answering: nil) == .notAnAnswer(hint: "which one? \(word) \(ben) or \(word) \(cleo)"))
        }
        #expect(prompts.parse("y \(ben)", answering: nil) == .answer(number: ben, .yes))
        // An answer that was begun for the only question is shown with it, and keeps its meaning.
        #expect(prompts.prompt(answering: ben) == "number \(ben), ben: accept? [y]es, [n]o, [b]lock: ")
        let (reply, again) = (prompts.remove(cleo)?.reply, prompts.remove(cleo)?.reply)
        #expect(reply == "c" && again == nil)
        // The remaining question keeps its number, because another one was shown a moment ago.
        #expect(prompts.prompt() == "number \(ben), ben: accept? [y]es, [n]o, [b]lock: ")
        #expect(prompts.parse("y", answering: ben) == .answer(number: ben, .yes))
        #expect(
            prompts.parse("y \(cleo)", answering: nil)
                == .notAnAnswer(hint: "there is no such question; write y \(ben) to accept"))
        let replies = prompts.removeAll().map(\.reply)
        #expect(replies == ["b"])
        let dan = prompts.add(Question("accept?", about: "dan"), "d")
        #expect(dan > cleo, "a late answer must not fit another question")
    }

    @Test("R4: the questions of known peers are shown beside those of new ones, however many they are, by number") func known()
    {
        var prompts = PendingPrompts<String>()
        let strangers = (0..<19).map { prompts.add(Question("accept?", about: "device \($0)"), "s") }
        let anna = prompts.add(Question("accept?", about: "anna") { $0.isKnown = true }, "a")
        let ben = prompts.add(Question("accept?", about: "ben") { $0.isKnown = true }, "b")
        #expect(
            prompts.prompt()?.hasPrefix(
                "number \(strangers[0]), device 0: accept?\nnumber \(strangers[1]), device 1: accept?\n"
                    + "number \(anna), anna: accept?\nnumber \(ben), ben: accept?\nand 17 more\n")
                == true)
        #expect(prompts.parse("y", answering: nil) == .notAnAnswer(hint: "which one? y 1 or y 2 or y \(anna) or y \(ben)"))
        // An answer that was begun for another question keeps its meaning.
        #expect(prompts.prompt(answering: strangers[0])?.hasPrefix("number \(strangers[0]), device 0") == true)
    }

    @Test("K2: always is an answer only where the question says so") func always() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(Question("accept?", about: "ben") { $0.allowsAlways = true }, "b")
        #expect(prompts.prompt() == "accept? [y]es, [a]lways, [n]o, [b]lock: ")
        #expect(prompts.parse("a", answering: ben) == .answer(number: ben, .always))
        let mallory = prompts.add(Question("accept?", about: "mallory"), "m")
        #expect(prompts.prompt()?.contains("[a]lways") == true)
        #expect(prompts.parse("always \(ben)", answering: nil) == .answer(number: ben, .always))
        let refusal = PendingPrompts<String>.ParsedLine.notAnAnswer(
            hint: "always is not possible here; please answer y, n or b")
        #expect(prompts.parse("x", answering: ben) == .notAnAnswer(hint: "please answer y, a, n or b"))
        #expect(prompts.parse("a \(mallory)", answering: nil) == refusal)
        let removed = prompts.remove(ben)
        #expect(removed?.reply == "b" && prompts.prompt()?.contains("[a]lways") == false)
        #expect(prompts.parse("a", answering: mallory) == refusal)
    }

    @Test(
        "an answer is a word or its beginning, with its number before or behind it",
        arguments: ["2 y", "ye 2", "Yes 2.", "2yes", "y2", "y #2", "2: YE!", "\"y 2\"", " 2  y "])
    func variants(_ line: String) {
        var prompts = PendingPrompts<String>()
        for name in ["ben", "cleo"] { _ = prompts.add(Question("accept?", about: name), "") }
        #expect(prompts.parse(line, answering: nil) == .answer(number: 2, .yes))
    }

    @Test(
        "R4: a line with another number, or with more words, answers nothing",
        arguments: [
            "3 y", "0 y", "99999999999999999999999 y", "y 99999999999999999999999", "1 y 2", "y 1 2", "y please", "1 2 y",
        ])
    func numbers(_ line: String) {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(Question("accept?", about: "ben"), "b")
        _ = prompts.add(Question("accept?", about: "cleo"), "c")
        guard case .notAnAnswer(let hint) = prompts.parse(line, answering: ben) else {
            Issue.record("an answer")
            return
        }
        #expect(hint == "there is no such question; write y 1 or y 2 to accept" || hint.hasPrefix("please answer"))
    }

    @Test("K2: the beginning of all is none of always, which is more")
    func beginnings() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(
            Question("accept?", about: "ben") { ($0.pages, $0.parts, $0.allowsAlways) = (["x\n"], Self.parts, true) }, "b")
        for line in ["al", "all", "ALL."] {
            #expect(
                prompts.parse(line, answering: ben)
                    == .notAnAnswer(hint: "y accepts all of it; please answer y, a, n, b, l or p"))
        }
        for (line, word) in [
            ("a", PendingPrompts<String>.Word.always), ("alw", .always), ("n.", .no), ("blo", .block), ("li", .list),
        ] {
            #expect(prompts.parse(line, answering: ben) == .answer(number: ben, word))
        }
        for line in ["yess", "yn", "?", "2"] {
            #expect(prompts.parse(line, answering: ben) == .notAnAnswer(hint: "please answer y, a, n, b, l or p"))
        }
        #expect(prompts.parse("pa 1-3", answering: ben) == .part(number: ben, selection: "1-3"))
        #expect(prompts.parse("\(ben) p 2 *.jpg", answering: nil) == .part(number: ben, selection: "2 *.jpg"))
        #expect(prompts.parse("7 p 2", answering: ben) == .notAnAnswer(hint: "which question? p \(ben) 1-3"))
    }

    @Test("a question about a folder can list what is in it, and stays open") func list() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(Question("accept?", about: "ben") { $0.pages = ["  trip/a\n", "  trip/b\n"] }, "b")
        #expect(prompts.prompt() == "accept? [y]es, [n]o, [b]lock, [l]ist: ")
        #expect(prompts.parse("l", answering: ben) == .answer(number: ben, .list))
        #expect(prompts.parse("x", answering: ben) == .notAnAnswer(hint: "please answer y, n, b or l"))
        let pages = (0..<3).map { _ in prompts.nextPage(of: ben) }
        #expect(pages == ["  trip/a\n", "  trip/b\n", "  trip/a\n"] && prompts.open.count == 1)
        let cleo = prompts.add(Question("accept?", about: "cleo"), "c")
        let none = prompts.nextPage(of: cleo)
        #expect(none == nil)
        #expect(prompts.prompt()?.contains("[l]ist") == true)
    }

    @Test("R4: the answer part takes the rest of the line, after the number of a question that has one") func part() {
        var prompts = PendingPrompts<String>()
        let ben = prompts.add(Question("accept?", about: "ben") { $0.parts = Self.parts }, "b")
        #expect(prompts.prompt() == "accept? [y]es, [n]o, [b]lock, [p]art: ")
        #expect(prompts.parse("p 1-3,7 *.jpg", answering: ben) == .part(number: ben, selection: "1-3,7 *.jpg"))
        #expect(prompts.parse("part", answering: ben) == .part(number: ben, selection: ""))
        #expect(prompts.parse("p 1-3", answering: nil) == .notAnAnswer(hint: "which question? p \(ben) 1-3"))
        let cleo = prompts.add(Question("accept?", about: "cleo"), "c")
        #expect(prompts.parse("p \(ben) 2", answering: nil) == .part(number: ben, selection: "2"))
        #expect(prompts.parse("p 1-3", answering: ben) == .notAnAnswer(hint: "which question? p \(ben) 1-3"))
        let hint = "which ones? numbers and patterns, as in \"p \(ben) 1-3,7 *.jpg\"; l lists them"
        #expect(prompts.parse("p \(ben)", answering: nil) == .notAnAnswer(hint: hint))
        #expect(prompts.parse("p \(cleo) 2", answering: nil) == .notAnAnswer(hint: "this can only be accepted as a whole"))
        // The remaining question shows its number, so that the first word is that.
        _ = prompts.remove(cleo)
        #expect(prompts.parse("p \(ben) 2", answering: ben) == .part(number: ben, selection: "2"))
        #expect(prompts.parse("p 2-4", answering: ben) == .notAnAnswer(hint: "which question? p \(ben) 1-3"))
    }

    @Test("R4: a flood of questions does not fill the screen") func flood() {
        var prompts = PendingPrompts<Int>()
        for number in 0..<100 { _ = prompts.add(Question("accept?", about: "p\(number)"), number) }
        #expect(prompts.prompt()?.contains("and 96 more") == true)
        #expect(prompts.parse("n 100", answering: nil) == .answer(number: 100, .no))
    }
}
