import Nearshare
import NearshareAudio
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite struct VoiceKeyTests {
    @Test(
        "terminal keys map to commands, several characters to several",
        arguments: [
            (.text(" sL"), [.space, .character("s"), .character("l")]), (.enter, [.enter]), (.lineBreak, [.enter]),
            (.left, [.left]), (.wordLeft, [.left]), (.right, [.right]), (.wordRight, [.right]), (.text("ä"), []),
            (.up, []), (.escape, []), (.delete, []),
        ] as [(TerminalKey, [VoiceKey])])
    func keys(_ key: TerminalKey, _ commands: [VoiceKey]) {
        #expect(VoiceKey.all(in: key) == commands)
    }
}
