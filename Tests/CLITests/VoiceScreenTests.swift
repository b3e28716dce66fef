import Nearshare
import NearshareAudio
import Testing

@testable import NearshareCLI

@Suite struct VoiceScreenTests {
    private let plain = ANSIStyle(isOn: false)

    private func snapshot() -> Recording.Snapshot {
        var now = Recording.Snapshot()
        now.state = .recording
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
            for state in [RecorderMachine.State.idle, .recording, .paused] {
                now.state = state
                for line in VoiceScreen.recorder(now, columns: columns, ink: plain) {
                    #expect(TerminalText.width(of: line) < max(2, columns), "\(line)")
                }
            }
        }
    }

    @Test("what is left is shown as long as there is room for it")
    func secondsLeft() throws {
        var now = snapshot()
        now.secondsLeft = 36
        let title = try #require(VoiceScreen.recorder(now, columns: 80, ink: plain).first)
        #expect(title.hasPrefix("● 1:15  recording"))
        #expect(title.hasSuffix("0:36 left"))
        #expect(VoiceScreen.recorder(now, columns: 24, ink: plain)[0].hasSuffix("0:36 left"))
    }

    @Test("a microphone that is off is seen while somebody speaks")
    func nothingHeard() {
        var now = snapshot()
        now.hasSound = false
        #expect(VoiceScreen.recorder(now, columns: 80, ink: plain)[0].contains("nothing heard yet"))
        now.elapsed = .seconds(2)
        #expect(VoiceScreen.recorder(now, columns: 80, ink: plain)[0].contains("recording"))
    }

    @Test("bars reach from a line to the top, in eighths")
    func wave() {
        #expect(VoicePicture.wave([0, 0.25, 0.5, 0.75, 1, 2, -1], rows: 2) == ["   ▄██ ", "▁▄████▁"])
    }

    @Test("a level bar has its width at every level", arguments: [-1, 0, 0.001, 0.3, 0.7, 0.95, 1, 7])
    func bar(_ level: Double) {
        for width in 1...40 { #expect(VoicePicture.bar(level, width: width, ink: plain).count == width) }
    }
}

@Suite struct VoiceKeyTests {
    @Test(
        "keys are told apart, however they arrive",
        arguments: [
            (" \r", [.space, .enter]), ("\u{1b}[C\u{1b}[D", [.right, .left]), ("\u{1b}OC", [.right]),
            ("S", [.letter("s")]), ("\u{1b}[1;5Cq", [.right, .letter("q")]), ("\u{1b}[A\u{1b}[3~l", [.letter("l")]),
            ("\u{1b}", []), ("\u{1b}[", []), ("ä", []),
        ] as [(String, [VoiceKey])])
    func keys(_ typed: String, _ keys: [VoiceKey]) {
        #expect(VoiceKey.all(in: Array(typed.utf8)) == keys)
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
        arguments: ["", "0", "-1", "1:60", "1:-5", "1:2:3:4", ":", "1:", "nan", "inf", "1e9", "25:00:00"])
    func refused(_ text: String) {
        #expect(ClockArgument(argument: text) == nil)
    }
}
