import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

/// One characteristic, several centrals: BlueZ notifies all of them.
@Suite(.timeLimit(.minutes(1))) struct NotificationQueueTests {
    private func drained(_ queue: NotificationQueue) -> [[UInt8]] {
        var frames: [[UInt8]] = []
        while let frame = queue.popFirst() { frames.append(frame) }
        return frames
    }

    private func queue(_ centrals: String...) -> NotificationQueue {
        let queue = NotificationQueue(onNonEmpty: {})
        for central in centrals { queue.subscribe(central) }
        return queue
    }

    @Test("a frame for several centrals is notified once") func once() {
        let queue = queue("a", "b")
        #expect(queue.append([1], for: "a"))
        #expect(queue.append([1], for: "b"))
        #expect(queue.append([2], for: "b"))
        #expect(drained(queue) == [[1], [2]])
    }

    @Test("the same frame sent twice to one central is notified twice") func twice() {
        let queue = queue("a", "b")
        for _ in 0..<2 { #expect(queue.append([1], for: "a")) }
        #expect(drained(queue) == [[1], [1]])
    }

    @Test("a central that subscribes later has not received earlier frames") func latecomer() {
        let queue = queue("a")
        #expect(queue.append([1], for: "a"))
        queue.subscribe("b")
        #expect(queue.append([1], for: "b"))
        #expect(drained(queue) == [[1], [1]])
    }

    @Test("R7: the queue is bounded; the next frame waits until one is sent, or its central is gone") func bounded() throws {
        let queue = queue("a")
        for number in 0..<NotificationQueue.capacity { #expect(queue.append([UInt8(number)], for: "a")) }
        let results = Monitor<[Bool]>([])
        for _ in 0..<2 {
            _ = try BlockingThread.start {
                let isQueued = queue.append([255], for: "a")
                results.update { $0.append(isQueued) }
            }
        }
        #expect(queue.popFirst() == [0])
        results.wait { $0.count == 1 ? () : nil }
        queue.unsubscribe("a")
        results.wait { $0.count == 2 ? () : nil }
        #expect(results.withLock { $0 } == [true, false])
        #expect(drained(queue).isEmpty, "the next central would get them")
    }

    @Test("frames for an unknown central are rejected") func unknown() {
        let queue = queue("a")
        #expect(!queue.append([1], for: "b"))
        #expect(drained(queue).isEmpty)
    }
}
