import Nearshare
import NearshareBundles
import Testing

@testable import NearshareService

@Suite("the parts of chat lines in a list of messages") struct ChatPartJoinerTests {
    private let anna = PeerID(bytes: [UInt8](repeating: 1, count: 8))
    private let ben = PeerID(bytes: [UInt8](repeating: 2, count: 8))
    private let start = MonotonicInstant(nanoseconds: 0)

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
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        let between = try message(3, .line(id: "m", text: "short"), from: anna)
        let early =
            try joiner.add(part(1, 2, from: anna), at: start) + joiner.add(part(2, 0, from: anna), at: start)
            + joiner.add(between, at: start)
        // Another peer may use the same id, or another number of parts.
        let others =
            try joiner.add(part(4, 1, from: ben), at: start)
            + joiner.add(part(5, 1, of: 2, from: anna), at: start)
        let whole = try joiner.add(part(6, 1, from: anna), at: start)
        #expect(early == [between] && others.isEmpty)
        let expected = try message(6, .line(id: "l", text: "text 0 text 1 text 2 "), from: anna)
        #expect(whole == [expected])
        let rest = joiner.drain()
        #expect(rest.map(\.number) == [4, 5])
        let again = joiner.drain()
        #expect(again.isEmpty)
    }

    @Test func `a part that comes twice, or has no certain sender, completes no line`() throws {
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        let shown = try (1...3).flatMap { try joiner.add(part($0, 0, from: anna), at: start) }
        #expect(shown.isEmpty)
        let unknown = try part(4, 1, from: nil)
        let separate = joiner.add(unknown, at: start)
        #expect(separate == [unknown])
    }

    @Test("M12: a part with another text in the place of an earlier one is shown, so that neither is hidden")
    func replacedPart() throws {
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        let first = try joiner.add(part(1, 0, of: 2, from: anna), at: start)
        let other = try message(2, .part(id: "l", index: 0, count: 2, text: "other"), from: anna)
        let replaced = joiner.add(other, at: start)
        let whole = try joiner.add(part(3, 1, of: 2, from: anna), at: start)
        let expected = try message(3, .line(id: "l", text: "text 0 text 1 "), from: anna)
        #expect(first.isEmpty && replaced == [other] && whole == [expected])
    }

    @Test("M12: the parts of a line that is not whole in time are shown, and later ones at once")
    func timeout() throws {
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        let (first, second) = (start + .seconds(30), start + .seconds(40))
        #expect(joiner.deadline == nil)
        var shown: [ReceivedMessage] = []
        shown += try joiner.add(part(1, 0, from: anna), at: start)
        shown += try joiner.add(part(2, 0, id: "m", from: anna), at: start + .seconds(10))
        // A later part does not extend the time.
        shown += try joiner.add(part(3, 1, from: anna), at: start + .seconds(29))
        shown += joiner.drainExpired(at: start + .milliseconds(29_999))
        #expect(shown.isEmpty && joiner.deadline == first)
        let expired = joiner.drainExpired(at: first)
        #expect(expired.map(\.number) == [1, 3] && joiner.deadline == second)
        let last = try part(4, 2, from: anna)
        let late = joiner.add(last, at: first)
        #expect(late == [last])
        let rest = joiner.drain()
        #expect(rest.map(\.number) == [2] && joiner.deadline == nil)
        // The first line has ended with its last part: this is another one.
        let again = try joiner.add(part(5, 0, from: anna), at: start + .seconds(10))
        #expect(again.isEmpty && joiner.deadline == second)
    }

    @Test("M12: lines whose parts are shown leave the whole capacity to others")
    func shownLines() throws {
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        for number in 1...ChatPartJoiner.capacity {
            _ = try joiner.add(part(number, 0, id: "l\(number)", from: anna), at: start)
        }
        let drained = joiner.drain()
        #expect(drained.map(\.number) == Array(1...ChatPartJoiner.capacity))
        var shown: [Int] = []
        for number in 1...ChatPartJoiner.capacity + 1 {
            shown += try joiner.add(part(100 + number, 0, id: "m\(number)", from: anna), at: start).map(\.number)
        }
        #expect(shown == [101])
    }

    @Test("R6: beyond the capacity the parts of the oldest line are shown")
    func capacity() throws {
        var joiner = ChatPartJoiner(timeout: .seconds(30))
        var shown: [Int] = []
        for number in 1...ChatPartJoiner.capacity + 2 {
            shown += try joiner.add(part(number, 0, id: "l\(number)", from: anna), at: start).map(\.number)
        }
        #expect(shown == [1, 2])
    }
}
