import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("received voice notes") struct VoiceNoteRendererTests {
    private let scratch = ScratchFolder()

    private func title(speaker: String, from sender: String?) throws -> String {
        let lines = VoiceNoteRenderer.lines(
            try voiceNote(in: ScratchFolder(), speaker: speaker), from: try sender.map { try DisplayName($0) }, columns: 80,
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

    @Test("a note that was received is announced within the width of the terminal", arguments: [40, 80])
    func width(columns: Int) throws {
        let lines = VoiceNoteRenderer.lines(
            try voiceNote(in: scratch, speaker: "anna"), from: try DisplayName("anna"), columns: columns,
            style: ANSIStyle(isEnabled: false))
        #expect(lines.allSatisfy { TerminalText.width(of: $0) <= columns }, "\(lines)")
    }

    @Test("the notice of a chat has the waveform on one row of any usual screen", arguments: [(80, 24), (40, 12), (100, 30)])
    func notice(columns: Int, rows: Int) throws {
        let note = try voiceNote(in: scratch, speaker: "anna")
        let notice = VoiceNoteRenderer.notice(note, from: try DisplayName("anna"))
        let waveform = try #require(notice.split(separator: "\n").last)
        #expect(waveform.count == 24 && !waveform.contains("/"))
        var typing = ChatTyping(columns: columns, rows: rows)
        typing.handle(.event(.notice(notice)))
        #expect(typing.text.split(separator: "\n").contains { $0.hasPrefix("      \(waveform)") }, "\(typing.text)")
        #expect(typing.text.contains("/play \(note.id)"), "\(typing.text)")
    }

    @Test("a received note has the hint how to play it among the files of a conversation as well")
    func history() throws {
        let machine = try LocalMachine(identity: .ephemeral, environment: ["HOME": scratch.path])
        let note = try voiceNote(in: scratch, speaker: "anna")
        let peer = Fingerprint(hex: String(repeating: "1a", count: 32))!
        try ReceiveHistory(in: machine.state).append(
            .init(
                when: WallTime(milliseconds: 1), peer: peer, peerName: try DisplayName("anna"), claimedName: "note.opus",
                path: note.path, size: 1, type: "audio/ogg", isFolder: false))
        let file = SharedItem(try #require(TransferHistory(of: machine).conversationItems(with: peer.peerID).first))
        let start = "received \(note.path), voice note, 0:01; /play \(note.id) plays it"
        #expect(file.sentence.hasPrefix(start), "\(file.sentence)")
    }

    /// A note of a second of sound.
    private func voiceNote(in scratch: ScratchFolder, speaker: String) throws -> VoiceNote {
        let settings = try #require(
            NoteSettings(bitrate: NoteSettings.speechBitrate, speaker: speaker, recorded: WallTime(milliseconds: 0)))
        let file = try #require(try NoteFile.create(scratch("note.opus")))
        let writer = try NoteWriter(to: file, rate: AudioFormat.speech.rate, settings: settings)
        let samples = (0..<AudioFormat.speech.rate).map { Int16(truncatingIfNeeded: $0 &* 997) }
        try samples.withUnsafeBufferPointer { try writer.write($0, soundEnd: $0.count) }
        #expect(try writer.finish(frames: samples.count))
        return try VoiceNote(path: scratch("note.opus"))
    }
}
