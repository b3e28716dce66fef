import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareStorage

@Suite("buffer of a stream for several readers")
struct FanOutBufferTests {
    private static let begin = MonotonicInstant(nanoseconds: 0)

    /// The next step of a reader, and the bytes that it received.
    private func next(
        _ reader: Int, _ count: Int, in buffer: inout FanOutBuffer, now: Duration = .zero
    ) -> (step: FanOutBuffer.Step?, bytes: [UInt8]) {
        var bytes = [UInt8](repeating: 0, count: count)
        let step = bytes.withUnsafeMutableBytes { buffer.next(for: reader, into: $0, now: Self.begin + now) }
        if case .copied(let count) = step { return (step, Array(bytes.prefix(count))) }
        return (step, [])
    }

    private func started(_ readerCount: Int) -> FanOutBuffer {
        var buffer = FanOutBuffer(readerCount: readerCount)
        for reader in 0..<readerCount { #expect(buffer.start(reader) == true) }
        return buffer
    }

    @Test("a reader starts once, and not after it was removed")
    func starting() {
        var buffer = FanOutBuffer(readerCount: 2)
        #expect(buffer.start(0) && !buffer.start(0) && !buffer.start(7))
        buffer.remove(1)
        #expect(buffer.start(1) == false)
        #expect(next(1, 10, in: &buffer).step == .failed(StorageError(.failed, "")))
    }

    @Test("one reader fills the buffer while the others wait, and all get the bytes")
    func filling() {
        var buffer = started(2)
        #expect(next(0, 10, in: &buffer).step == .fill)
        #expect(next(1, 10, in: &buffer).step == nil)
        buffer.finishFilling(.bytes(3), appending: [1, 2, 3])
        #expect(next(1, 2, in: &buffer).bytes == [1, 2])
        #expect(next(0, 10, in: &buffer).bytes == [1, 2, 3])
        #expect(next(1, 10, in: &buffer).bytes == [3])
        #expect(next(1, 10, in: &buffer).step == .fill)
    }

    @Test("the last reader reads directly, from where the buffer ends")
    func direct() {
        var buffer = started(2)
        _ = next(0, 10, in: &buffer)
        buffer.finishFilling(.bytes(2), appending: [1, 2])
        buffer.remove(0)
        #expect(next(1, 1, in: &buffer).bytes == [1] && next(1, 10, in: &buffer).bytes == [2])
        #expect(next(1, 10, in: &buffer).step == .readDirectly)
        buffer.finishDirectRead(.bytes(5), by: 1)
        #expect(next(1, 10, in: &buffer).step == .readDirectly)
        buffer.finishDirectRead(.end, by: 1)
        #expect(next(1, 10, in: &buffer).step == .copied(0))
    }

    @Test("bytes are kept for a reader that has not started")
    func unstarted() {
        var buffer = FanOutBuffer(readerCount: 2)
        #expect(buffer.start(0) == true)
        #expect(next(0, 10, in: &buffer).step == .fill)
        buffer.finishFilling(.bytes(1), appending: [9])
        #expect(next(0, 10, in: &buffer).bytes == [9])
        #expect(buffer.start(1) && next(1, 10, in: &buffer).bytes == [9])
    }

    @Test("a full buffer waits for the slowest reader, until that one is removed")
    func full() {
        var buffer = started(2)
        let block = [UInt8](repeating: 1, count: FanOutBuffer.capacity)
        _ = next(0, 1, in: &buffer)
        buffer.finishFilling(.bytes(block.count), appending: block)
        #expect(next(0, block.count, in: &buffer).bytes.count == block.count)
        #expect(next(0, 1, in: &buffer).step == nil)
        buffer.remove(1)
        #expect(next(0, 1, in: &buffer).step == .readDirectly)
    }

    @Test("a reader that reads nothing for 30 seconds, while others wait for it, is removed")
    func stalled() {
        var buffer = started(3)
        let block = [UInt8](repeating: 1, count: FanOutBuffer.capacity)
        _ = next(0, 1, in: &buffer)
        buffer.finishFilling(.bytes(block.count), appending: block)
        #expect(next(0, block.count, in: &buffer).bytes.count == block.count)
        #expect(buffer.removeStalled(now: Self.begin + .seconds(99)) == [], "no reader waits")
        #expect(next(0, 1, in: &buffer, now: .seconds(100)).step == nil)
        #expect(next(2, 1, in: &buffer, now: .seconds(120)).bytes == [1])
        let (first, second) = (Self.begin + .seconds(130), Self.begin + .seconds(150))
        #expect(buffer.stallDeadline == first)
        #expect(buffer.removeStalled(now: first + .nanoseconds(-1)) == [])
        #expect(buffer.removeStalled(now: first) == [1])
        #expect(next(1, 1, in: &buffer).step == .failed(StorageError(.failed, "")))
        #expect(next(0, 1, in: &buffer, now: .seconds(130)).step == nil && buffer.stallDeadline == second)
        #expect(buffer.removeStalled(now: second) == [2], "the one that waits is not stalled itself")
        #expect(next(0, 1, in: &buffer, now: .seconds(150)).step == .readDirectly && buffer.stallDeadline == nil)
    }

    @Test("a reader that has not started is not stalled: its offer has a timeout of its own")
    func unstartedIsNotStalled() {
        var buffer = FanOutBuffer(readerCount: 2)
        let block = [UInt8](repeating: 1, count: FanOutBuffer.capacity)
        #expect(buffer.start(0) && next(0, 1, in: &buffer).step == .fill)
        buffer.finishFilling(.bytes(block.count), appending: block)
        #expect(next(0, block.count, in: &buffer).bytes.count == block.count)
        #expect(next(0, 1, in: &buffer).step == nil && buffer.stallDeadline == nil)
        #expect(buffer.start(1) && next(0, 1, in: &buffer, now: .seconds(60)).step == nil)
        #expect(buffer.removeStalled(now: Self.begin + .seconds(89)) == [])
        #expect(buffer.removeStalled(now: Self.begin + .seconds(90)) == [1])
    }

    @Test("an end and a failure reach every reader after the buffered bytes")
    func endings() {
        for (result, expected) in [
            (FanOutBuffer.ReadResult.end, FanOutBuffer.Step.copied(0)),
            (.failure(StorageError(.noPermission, "")), .failed(StorageError(.noPermission, ""))),
        ] {
            var buffer = started(2)
            _ = next(0, 10, in: &buffer)
            buffer.finishFilling(.bytes(1), appending: [5])
            #expect(next(0, 10, in: &buffer).bytes == [5])
            #expect(next(0, 10, in: &buffer).step == .fill)
            buffer.finishFilling(result, appending: [])
            #expect(next(0, 10, in: &buffer).step == expected)
            #expect(next(1, 10, in: &buffer).bytes == [5])
            #expect(next(1, 10, in: &buffer).step == expected)
        }
    }

    @Test("an interrupted read is repeated by the next reader")
    func interrupted() {
        var buffer = started(2)
        #expect(next(0, 10, in: &buffer).step == .fill)
        buffer.finishFilling(.interrupted, appending: [])
        #expect(next(1, 10, in: &buffer).step == .fill)
    }

    @Test("a reader that is removed during its own read loses nothing for others")
    func removedWhileReading() {
        var buffer = started(1)
        #expect(next(0, 10, in: &buffer).step == .readDirectly)
        buffer.remove(0)
        buffer.finishDirectRead(.bytes(10), by: 0)
        #expect(next(0, 10, in: &buffer).step == .failed(StorageError(.failed, "")))
    }
}
