import Nearshare
import NearshareBundles
import Testing

@testable import NearshareService

@Suite("the parts of chat lines in a list of messages") struct ChatPartJoinerTests {
    private let anna = PeerID(bytes: [UInt8](repeating: 1, count: 8))
    private let ben = PeerID(bytes: [UInt8](repeating: 2, count: 8))

    private func message(_ number: Int, _ content: ChatContent, from sender: PeerID?) throws -> ReceivedMessage {
        ReceivedMessage(
            number: number, id: try #require(BundleID(bytes: [UInt8](0..<16))), sender: sender, senderName: nil,
            signer: EndpointID(rawValue: 1), content: .structured(content.value), isBroadcast: false,
            created: WallTime(milliseconds: 0), received: WallTime(milliseconds: 0), hops: 0)
    }

    private func part(_ number: Int, _ index: Int, of count: Int = 3, id: String = "l", from sender: PeerID?) throws
        -> ReceivedMessage
    {
        try message(
            number, .part(id: id, index: index, count: count, text: "text \(index) ", written: WallTime(milliseconds: 1)),
            from: sender)
    }

    @Test func `a line is one message when its last part has come, in any order and among others`() throws {
        var joiner = ChatPartJoiner()
        let between = try message(3, .line(id: "m", text: "short"), from: anna)
        let early = try joiner.add(part(1, 2, from: anna)) + joiner.add(part(2, 0, from: anna)) + joiner.add(between)
        // Another peer may use the same id, or another number of parts.
        let others = try joiner.add(part(4, 1, from: ben)) + joiner.add(part(5, 1, of: 2, from: anna))
        let whole = try joiner.add(part(6, 1, from: anna))
        #expect(early == [between] && others.isEmpty)
        let expected = try message(6, .line(id: "l", text: "text 0 text 1 text 2 "), from: anna)
        #expect(whole == [expected])
        let rest = joiner.drain()
        #expect(rest.map(\.number) == [4, 5])
        let again = joiner.drain()
        #expect(again.isEmpty)
    }

    @Test func `a part that comes twice, or has no certain sender, completes no line`() throws {
        var joiner = ChatPartJoiner()
        let shown = try (1...3).flatMap { try joiner.add(part($0, 0, from: anna)) }
        #expect(shown.isEmpty)
        let unknown = try part(4, 1, from: nil)
        let separate = joiner.add(unknown)
        #expect(separate == [unknown])
    }

    @Test("R6: beyond the capacity the parts of the oldest line are shown")
    func capacity() throws {
        var joiner = ChatPartJoiner()
        var shown: [Int] = []
        for number in 1...ChatPartJoiner.capacity + 2 {
            shown += try joiner.add(part(number, 0, id: "l\(number)", from: anna)).map(\.number)
        }
        #expect(shown == [1, 2])
    }
}
