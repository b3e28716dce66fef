import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("the sending part of a message channel") struct SendQueueTests {
    private func message(_ byteCount: Int = 1) -> SessionMessage {
        SessionMessage(bytes: [UInt8](repeating: 1, count: byteCount))
    }

    @Test("messages keep their numbers until they are acknowledged", arguments: seeds(1...20))
    func numbers(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var queue = SendQueue()
        var first: UInt64 = 0
        var next: UInt64 = 0
        for _ in 0..<600 {
            if random.once(in: 3), next > first {
                first = UInt64.random(in: first...next, using: &random)
                try queue.acknowledge(below: first)
            } else {
                let number = queue.append(message(Int(next % 200)))
                #expect(number == next, "seed \(seed)")
                next += 1
            }
            #expect(queue.firstNumber == first && queue.nextNumber == next && queue.count == Int(next - first), "seed \(seed)")
            #expect(first == 0 || queue[first - 1] == nil, "seed \(seed)")
            #expect(queue[next] == nil, "seed \(seed)")
            if next > first { #expect(queue[next - 1]?.message?.bytes.count == Int((next - 1) % 200), "seed \(seed)") }
        }
        // An older acknowledgement is no step back; one of the future is a violation (R7).
        try queue.acknowledge(below: 0)
        #expect(queue.firstNumber == first)
        #expect(throws: MalformedInput.self) { try queue.acknowledge(below: next + 1) }
    }

    @Test func `messages and bytes fill the window, and an acknowledgement frees it`() throws {
        var limits = MessageChannel.Limits()
        limits.unacknowledgedCount = 3
        var queue = SendQueue()
        for _ in 0..<3 {
            #expect(queue.hasRoom(limits))
            _ = queue.append(message())
        }
        #expect(!queue.hasRoom(limits))
        try queue.acknowledge(below: 1)
        #expect(queue.hasRoom(limits))
        limits.unacknowledgedCount = 100
        limits.unacknowledgedByteCount = 500
        _ = queue.append(message(500))
        #expect(!queue.hasRoom(limits))
        queue.restart()
        #expect(queue.hasRoom(limits) && queue.count == 0 && queue.nextNumber == 0)
    }
}
