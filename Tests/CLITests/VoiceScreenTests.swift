import Nearshare
import NearshareAudio
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite struct VoiceScreenTests {
    private let plain = ANSIStyle(isEnabled: false)

    private func snapshot() -> Recording.Snapshot {
        var now = Recording.Snapshot()
        now.phase = .recording
        now.elapsed = .seconds(75)
        now.level = 0.97
        now.isClipping = true
        now.recentLevels = (0..<240).map { Double($0 % 11) / 10 }
        now.byteCount = 123_456
        now.hasSound = true
        return now
    }

    @Test("the recorder is never wider than the terminal", arguments: 1...100)
    func recorderWidth(_ columns: Int) {
        var now = snapshot()
        for left in [nil, 0, 29, 1700, 100_000] {
            now.secondsLeft = left
            for state in [RecorderMachine.Phase.idle, .recording, .paused] {
                now.phase = state
                for line in VoiceScreen.recorder(now, columns: columns, style: plain) {
                    #expect(TerminalText.width(of: line) < max(2, columns), "\(line)")
                }
            }
        }
    }

    @Test("what is left is shown as long as there is room for it")
    func secondsLeft() throws {
        var now = snapshot()
        now.secondsLeft = 36
        let title = try #require(VoiceScreen.recorder(now, columns: 80, style: plain).first)
        #expect(title.hasPrefix("● 1:15  recording"))
        #expect(title.hasSuffix("0:36 left"))
        #expect(VoiceScreen.recorder(now, columns: 24, style: plain)[0].hasSuffix("0:36 left"))
    }

    @Test("a muted microphone is shown while a peer speaks")
    func nothingHeard() {
        var now = snapshot()
        now.hasSound = false
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[0].contains("nothing heard yet"))
        now.elapsed = .seconds(2)
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[0].contains("recording"))
    }
}
