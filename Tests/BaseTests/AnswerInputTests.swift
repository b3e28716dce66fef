import NearshareBase
import Testing

@Suite struct AnswerInputTests {
    private func answer(_ keys: AnswerKey...) -> AnswerInput {
        var answer = AnswerInput()
        for key in keys { #expect(answer.handle(key) == nil) }
        return answer
    }

    @Test func `keys edit the end of an answer`() {
        #expect(answer(.text("ye"), .text("s"), .redraw).text == "yes")
        #expect(answer(.text("yes"), .backspace).text == "ye")
        #expect(answer(.backspace, .deleteWord).isEmpty)
        #expect(answer(.text("1 yes"), .deleteLine).isEmpty)
    }

    @Test(
        "a word is deleted with the spaces behind it", arguments: [("1 yes", "1 "), ("1 yes  ", "1 "), ("yes", ""), ("  ", "")])
    func deleteWord(_ typed: String, _ left: String) {
        #expect(answer(.text(typed), .deleteWord).text == left)
    }

    @Test func `Enter ends an answer, and another one begins`() {
        var answer = answer(.text("yes"))
        #expect(answer.handle(.enter) == "yes")
        #expect(answer.isEmpty && answer.handle(.enter) == "")
    }

    @Test("R1: an answer has at most 200 characters") func bounded() {
        #expect(answer(.text(String(repeating: "x", count: 500)), .text("y")).text == String(repeating: "x", count: 200))
    }
}
