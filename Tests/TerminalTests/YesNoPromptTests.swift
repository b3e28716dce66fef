import NearshareBase
import Testing

@testable import NearshareTerminal

@Suite struct YesNoPromptTests {
    @Test(arguments: [("y", true), ("YES", true), ("ye", true), (" yes. ", true), ("n", false), ("No", false), ("n!", false)])
    func `a word that begins yes or no is an answer`(_ line: String, _ answer: Bool) {
        #expect(YesNoPrompt.parse(line) == answer)
    }

    @Test("other lines are not answers", arguments: ["", " ", ".", "yy", "ja", "0", "y n"])
    func others(_ line: String) {
        #expect(YesNoPrompt.parse(line) == nil)
    }
}
