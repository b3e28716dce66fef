import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("status lines of the recorder") struct RecorderLineTests {
    private let plain = ANSIStyle(isEnabled: false)

    private func snapshot(_ state: RecorderMachine.Phase, elapsed: Duration = .seconds(5)) -> Recording.Snapshot {
        var now = Recording.Snapshot()
        now.phase = state
        now.elapsed = elapsed
        now.hasSound = true
        return now
    }

    @Test(
        "each state has its sign, its word and its key hint",
        arguments: [
            (RecorderMachine.Phase.idle, "●", "waiting for sound", "Space pauses"),
            (.recording, "●", "recording", "Space pauses"), (.paused, "‖", "paused", "Space resumes"),
        ])
    func states(_ state: RecorderMachine.Phase, _ sign: String, _ word: String, _ hint: String) throws {
        let lines = VoiceScreen.recorder(snapshot(state), columns: 80, style: plain)
        #expect(lines.count == 5)
        let title = try #require(lines.first)
        #expect(title.hasPrefix("\(sign) 0:05  \(word)"))
        #expect(lines.last?.hasPrefix(hint) == true)
    }

    @Test("a level that clips is reported")
    func clipping() {
        var now = snapshot(.recording)
        now.isClipping = true
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[3].hasSuffix("too loud"))
        now.isClipping = false
        #expect(!VoiceScreen.recorder(now, columns: 80, style: plain)[3].hasSuffix("too loud"))
    }

    @Test("without a limit the size is shown, with one the remaining time")
    func remaining() {
        var now = snapshot(.recording)
        now.byteCount = 2048
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[0].hasSuffix(now.byteCount.formattedByteCount))
        now.secondsLeft = 61
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[0].hasSuffix("1:01 left"))
    }

    @Test("the last 30 seconds are red")
    func urgency() {
        let colored = ANSIStyle(isEnabled: true)
        var now = snapshot(.recording)
        now.secondsLeft = 29
        #expect(VoiceScreen.recorder(now, columns: 80, style: colored)[0].contains("\u{1b}[31m0:29 left"))
        now.secondsLeft = 31
        #expect(VoiceScreen.recorder(now, columns: 80, style: colored)[0].contains("\u{1b}[2m0:31 left"))
    }

    @Test("a very narrow terminal shows the time only", arguments: 2...16)
    func narrow(_ columns: Int) {
        let lines = VoiceScreen.recorder(snapshot(.recording), columns: columns, style: plain)
        #expect(lines.count == 1)
        #expect(TerminalText.width(of: lines[0]) <= columns)
    }
}
