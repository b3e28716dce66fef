import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

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
