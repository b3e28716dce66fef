import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("one direction of a byte stream") struct StreamPartTests {
    private func data(_ part: inout SendingPart, buffer: Int = 1_000) -> Int? {
        guard case .data(let bytes, _)? = part.next(maximumData: 1 << 30, buffer: buffer) else { return nil }
        return bytes.count
    }

    @Test func `data waits for credit, and the end for the data`() throws {
        var part = SendingPart()
        let window = Int(StreamFrame.initialWindow)
        let written = try part.write([UInt8](repeating: 1, count: window + 10)[...], buffer: window * 2)
        #expect(written == window + 10)
        part.finish()
        let first = data(&part)
        let blocked = part.isReady
        #expect(first == window && !blocked)
        try part.receiveCredit(upTo: StreamFrame.initialWindow + 10)
        let second = data(&part)
        #expect(second == 10 && part.isReady && !part.isFinished)
        guard case .finish? = part.next(maximumData: 10, buffer: 10) else {
            Issue.record("the end was not sent")
            return
        }
        #expect(part.isFinished && !part.isReady)
    }

    @Test func `a full buffer takes no more, and tells when half of it is free`() throws {
        var part = SendingPart()
        let written = try part.write([UInt8](repeating: 1, count: 150)[...], buffer: 100)
        #expect(written == 100 && part.availableByteCount(in: 100) == 0)
        var told: [Bool] = []
        while case .data(_, let isWritable)? = part.next(maximumData: 20, buffer: 100) { told.append(isWritable) }
        // After 60 bytes, and only once.
        #expect(told == [false, false, true, false, false])
    }

    @Test("R7: credit never shrinks, and nothing is written after the end")
    func violations() throws {
        var part = SendingPart()
        #expect(throws: MalformedInput.self) { try part.receiveCredit(upTo: StreamFrame.initialWindow - 1) }
        try part.receiveCredit(upTo: .max)
        part.finish()
        #expect(throws: StreamError.notOpen) { try part.write([1], buffer: 10) }
    }

    @Test func `received bytes are read in order, then the end, once`() throws {
        var part = ReceivingPart()
        let isReadable = [try part.receive([1, 2, 3]), try part.receive([4])]
        #expect(isReadable == [true, false])
        let ended = try part.receiveFinish()
        let reads = [part.read(upTo: 2), part.read(upTo: 9), part.read(upTo: 9)]
        #expect(!ended && reads == [.bytes([1, 2]), .bytes([3, 4]), .end])
        #expect(part.isFinished)
        #expect(throws: MalformedInput.self) { try part.receive([5]) }
        #expect(throws: MalformedInput.self) { try part.receiveFinish() }
    }

    @Test("R3: data beyond the window is a violation; credit follows half a window that was read")
    func window() throws {
        var part = ReceivingPart()
        let window = StreamFrame.initialWindow
        _ = try part.receive([UInt8](repeating: 1, count: Int(window))[...])
        var greedy = part
        #expect(throws: MalformedInput.self) { try greedy.receive([1]) }
        let early = part.nextCredit(window: window)
        _ = part.read(upTo: Int(window / 2))
        let credit = part.nextCredit(window: window)
        let again = part.nextCredit(window: window)
        #expect(early == nil && credit == window + window / 2 && again == nil)
        _ = try part.receive([UInt8](repeating: 1, count: Int(window / 2))[...])
    }
}
