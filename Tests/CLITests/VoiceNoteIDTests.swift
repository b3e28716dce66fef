import Nearshare
import NearshareAudio
import NearshareService
import NearshareTerminal
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("ids of voice notes") struct VoiceNoteIDTests {
    @Test("an id has six hexadecimal digits, and depends on the content only")
    func form() {
        for number in 0..<500 as Range<UInt32> {
            let id = VoiceNote.id(of: [number, 7, 20_000])
            #expect(id.count == 6 && id.allSatisfy(\.isHexDigit))
            #expect(id == VoiceNote.id(of: [number, 7, 20_000]))
        }
    }

    @Test("notes have different ids, as a rule")
    func collisions() {
        let ids = Set((0..<1000 as Range<UInt32>).map { VoiceNote.id(of: [$0, 1, 20_000]) })
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
