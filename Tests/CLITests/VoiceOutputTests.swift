import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("ids of voice notes") struct VoiceNoteIDTests {
    @Test("an id has six hexadecimal digits, and depends on the path only")
    func form() {
        for number in 0..<500 {
            let id = VoiceNote.id(of: "/home/anna/voice-\(number).opus")
            #expect(id.count == 6 && id.allSatisfy(\.isHexDigit))
            #expect(id == VoiceNote.id(of: "/home/anna/voice-\(number).opus"))
        }
    }

    @Test("paths have different ids, as a rule")
    func collisions() {
        let ids = Set((0..<1000).map { VoiceNote.id(of: "/home/anna/voice-\($0).opus") })
        #expect(ids.count > 990)
    }

    @Test("a file that is no note is reported by its path, escaped")
    func damaged() {
        #expect {
            try VoiceNote(path: "/dev/null")
        } throws: {
            "\($0)".contains("/dev/null")
        }
        #expect(throws: AudioError.self) { try VoiceNote(path: "/nonexistent\u{1b}/x.opus") }
    }
}

@Suite("received voice notes") struct VoiceNoteRendererTests {
    private func title(speaker: String, from sender: String?) throws -> String {
        let scratch = ScratchFolder()
        let settings = try #require(
            NoteSettings(bitrate: NoteSettings.speechBitrate, speaker: speaker, recorded: WallTime(milliseconds: 0)))
        let file = try #require(try NoteFile.create(scratch("note.opus")))
        let writer = try NoteWriter(to: file, rate: AudioFormat.speech.rate, settings: settings)
        let samples = (0..<AudioFormat.speech.rate).map { Int16(truncatingIfNeeded: $0 &* 997) }
        try samples.withUnsafeBufferPointer { try writer.write($0, soundEnd: $0.count) }
        #expect(try writer.finish(frames: samples.count))
        let lines = VoiceNoteRenderer.lines(
            try VoiceNote(path: scratch("note.opus")), from: try sender.map { try DisplayName($0) }, columns: 80,
            style: ANSIStyle(isEnabled: false))
        #expect(!lines.joined().contains("\u{1b}"))
        return lines[0]
    }

    @Test("K14: a note is announced by its authenticated sender; another speaker in its tags is a claim")
    func sender() throws {
        #expect(try title(speaker: "anna", from: "anna").hasPrefix("  voice note from anna, 0:"))
        #expect(
            try title(speaker: "anna", from: "ben").hasPrefix("  voice note from ben (speaker according to the file: anna), 0:")
        )
        #expect(try title(speaker: "anna", from: nil).hasPrefix("  voice note (speaker according to the file: anna), 0:"))
    }
}

@Suite("endings of a recording") struct RecordingEndingTests {
    @Test(
        "every ending has its JSON value",
        arguments: [
            (RecorderMachine.StopReason.requested, "asked"), (.interrupted, "interrupted"), (.terminated, "terminated"),
            (.duration, "duration"), (.limit, "limit"), (.sourceEnded, "source-ended"),
            (.failed(AudioError(.noSpace, "x")), "disk-full"), (.failed(AudioError(.deviceGone, "x")), "device-gone"),
            (.failed(AudioError(.failed, "x")), "failed"),
        ])
    func words(_ ending: RecorderMachine.StopReason, _ word: String) {
        #expect(ending.word == word)
    }

    @Test(
        "audio errors have exit statuses",
        arguments: [
            (AudioError(.noSpace, "x"), NearshareService.ExitStatus.noSpace), (AudioError(.overLimit, "x"), .noSpace),
            (AudioError(.damaged, "x"), .damaged), (AudioError(.unavailable, "x"), .failure),
            (AudioError(.deviceGone, "x"), .failure), (AudioError(.failed, "x"), .failure),
        ])
    func statuses(_ error: AudioError, _ status: NearshareService.ExitStatus) {
        #expect(CommandFailure(error).status == status)
    }
}

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
        #expect(VoiceScreen.recorder(now, columns: 80, style: plain)[0].hasSuffix(now.byteCount.asByteCount))
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
