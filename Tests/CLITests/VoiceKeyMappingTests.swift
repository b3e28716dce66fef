import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("keys of the recorder") struct VoiceKeyMappingTests {
    @Test("letters are folded to lower case")
    func letters() {
        for (typed, letter) in [("S", "s"), ("L", "l"), ("r", "r"), ("D", "d"), ("K", "k"), ("q", "q")] {
            #expect(VoiceKey.all(in: .text(typed)) == [.character(Character(letter))])
        }
    }

    @Test(
        "a paste and other keys are ignored",
        arguments: [
            TerminalKey.paste("sss"), .tab, .backTab, .up, .down, .pageUp, .home, .control("a"), .alt("s"), .backspace,
        ])
    func ignored(_ key: TerminalKey) {
        #expect(VoiceKey.all(in: key).isEmpty)
    }
}
