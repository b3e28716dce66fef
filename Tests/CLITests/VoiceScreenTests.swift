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

@Suite struct ClockArgumentTests {
    @Test(
        "seconds, and minutes and hours before colons",
        arguments: [("90", 90), ("1:30", 90), ("0.5", 0.5), ("1:00:00", 3600), ("24:00:00", 86_400)] as [(String, Double)])
    func lengths(_ text: String, _ seconds: Double) throws {
        #expect(try #require(ClockArgument(argument: text)).duration == .milliseconds(Int64(seconds * 1000)))
    }

    @Test(
        "what is none is refused",
        arguments: ["", "0", "-1", "1:60", "1:75:00", "0:60:00", "1:-5", "1:2:3:4", ":", "1:", "nan", "inf", "1e9", "25:00:00"])
    func refused(_ text: String) {
        #expect(ClockArgument(argument: text) == nil)
    }
}
