import NearshareBase
import NearshareBundles
import Testing

@testable import NearshareEngine

@Suite("chat lines as structured messages")
struct ChatContentTests {
    @Test(
        "marks of lines read are split so that any link can carry them, whatever IDs the peer has chosen",
        arguments: [1, 32, 64])
    func readMarks(_ byteCount: Int) {
        let ids = (0..<60).map { number in
            let digits = String(number)
            return byteCount == 1
                ? String(Character(Unicode.Scalar(UInt8(40 + number))))
                : String(repeating: "0", count: byteCount - digits.count) + digits
        }
        let messages = ChatContent.read(splitting: ids)
        var rejoined: [String] = []
        for message in messages {
            guard case .read(let part) = message else {
                Issue.record("\(message) is no read mark")
                continue
            }
            #expect(part.count <= 24 && part.reduce(0) { $0 + $1.utf8.count } <= ChatContent.maximumPartByteCount)
            #expect(ChatContent(message.value) == message)
            rejoined += part
        }
        #expect(rejoined == ids)
        #expect(ChatContent.read(splitting: []).isEmpty)
    }

    @Test("IDs that are no valid ones make read marks invalid", arguments: ["", String(repeating: "x", count: 65)])
    func invalidIDs(_ id: String) {
        #expect(ChatContent(.object(["read": .array([.string("a"), .string(id)])])) == nil)
        #expect(ChatContent(.object(["read": .array([.string("a"), .integer(1)])])) == nil)
    }

    @Test(
        "a line has its time of writing in each of its messages, and the longest fits any link",
        arguments: [1, 840, 841, 5_000])
    func written(byteCount: Int) throws {
        let (text, id) = (String(repeating: "a", count: byteCount), String(repeating: "i", count: 64))
        let written = WallTime(milliseconds: (1 << 48) - 1)
        for content in ChatContent.split(text, id: id, written: written) {
            #expect(ChatContent(content.value) == content)
            #expect(try BundleContent.structured(content.value).encoded().count <= BundleContent.maximumRadioByteCount)
            switch content {
            case .line(_, _, let time), .part(_, _, _, _, let time): #expect(time == written)
            case .read: Issue.record("no line")
            }
        }
        let named: StructuredValue = .object(["text": .string("hi"), "written": .string("yesterday")])
        #expect(ChatContent(named) == .line(id: nil, text: "hi"))
    }
}
