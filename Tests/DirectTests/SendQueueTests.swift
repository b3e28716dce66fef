import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite("the sending part of a message channel") struct SendQueueTests {
    private func message(_ byteCount: Int = 1) -> SessionMessage {
        SessionMessage(bytes: [UInt8](repeating: 1, count: byteCount))
    }

    /// Gives numbers to all messages that wait.
    private func carryAll(_ queue: inout SendQueue) {
        while queue.message(queue.nextNumber, within: MessageChannel.Limits()) != nil { queue.assignNextNumber() }
    }

    @Test("messages keep their numbers until they are acknowledged", arguments: seeds(1...20))
    func numbers(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var queue = SendQueue()
        var first: UInt64 = 0
        var next: UInt64 = 0
        func message(_ number: UInt64) -> SessionMessage? { queue.message(number, within: MessageChannel.Limits()) }
        for _ in 0..<600 {
            if random.once(in: 3), next > first {
                first = UInt64.random(in: first...next, using: &random)
                try queue.acknowledge(below: first)
            } else {
                queue.append(self.message(Int(next % 200)))
                #expect(queue.nextNumber == next, "seed \(seed): no link has carried it")
                queue.assignNextNumber()
                next += 1
            }
            #expect(queue.firstNumber == first && queue.nextNumber == next && queue.count == Int(next - first), "seed \(seed)")
            #expect(first == 0 || message(first - 1) == nil, "seed \(seed)")
            #expect(message(next) == nil, "seed \(seed)")
            if next > first { #expect(message(next - 1)?.bytes.count == Int((next - 1) % 200), "seed \(seed)") }
        }
        // An older acknowledgement is no step back; one of the future is a violation (R7).
        try queue.acknowledge(below: 0)
        #expect(queue.firstNumber == first)
        #expect(throws: MalformedInput.self) { try queue.acknowledge(below: next + 1) }
    }

    @Test("messages count as waiting until a link carries them, and as unacknowledged until the peer has them")
    func waiting() throws {
        var queue = SendQueue()
        queue.append(message(100))
        queue.append(message(10), isUrgent: true)
        #expect(queue.waitingByteCount == queue.windowByteCount && queue.windowByteCount == 100 + 10 + 2 * 64)
        queue.assignNextNumber()
        #expect(queue.waitingByteCount == 100 + 64 && queue.windowByteCount == 100 + 10 + 2 * 64)
        queue.assignNextNumber()
        try queue.acknowledge(below: 1)
        #expect(queue.waitingByteCount == 0 && queue.windowByteCount == 100 + 64)
    }

    @Test("urgent messages overtake those that wait, in their order, and none that a link has carried")
    func urgent() throws {
        var queue = SendQueue()
        queue.append(message(1))
        queue.assignNextNumber()
        let late = queue.append(message(2))
        let first = queue.append(message(3), isUrgent: true)
        let second = queue.append(message(4), isUrgent: true)
        carryAll(&queue)
        let sizes = (0..<4).map { queue.message($0, within: MessageChannel.Limits())?.bytes.count }
        #expect(sizes == [1, 3, 4, 2])
        #expect(!queue.acknowledged.contains(first))
        try queue.acknowledge(below: 3)
        #expect([first, second].allSatisfy(queue.acknowledged.contains) && !queue.acknowledged.contains(late))
    }

    @Test("urgent messages have room of their own in the receiver's window, and wait when it is full as well")
    func urgentRoom() throws {
        var limits = MessageChannel.Limits()
        limits.maximumUnacknowledgedCount = 24
        func carryAll(_ queue: inout SendQueue) {
            while queue.message(queue.nextNumber, within: limits) != nil { queue.assignNextNumber() }
        }
        var queue = SendQueue()
        while queue.hasRoom(limits) { queue.append(message()) }
        carryAll(&queue)
        #expect(queue.count == 24 && queue.nextNumber == 21 && queue.hasRoomForUrgent(limits))
        queue.append(message(7), isUrgent: true)
        #expect(queue.message(21, within: limits)?.bytes.count == 7)
        carryAll(&queue)
        while queue.hasRoomForUrgent(limits) { queue.append(message(8), isUrgent: true) }
        #expect(queue.count == 24 + 1 + 3)
        carryAll(&queue)
        #expect(queue.nextNumber == 24 && queue.message(24, within: limits) == nil)
        try queue.acknowledge(below: 1)
        #expect(queue.message(24, within: limits)?.bytes.count == 8)
    }

    @Test("acknowledgements of any ranges leave exactly the other messages", arguments: seeds(1...20))
    func selective(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var queue = SendQueue()
        var tickets: [MessageChannel.Ticket] = []
        var acknowledged: Set<UInt64> = []
        for _ in 0..<300 {
            if random.once(in: 2), !tickets.isEmpty {
                let first = UInt64.random(in: 0..<UInt64(tickets.count), using: &random)
                let end = UInt64.random(in: first...min(first + 5, UInt64(tickets.count)), using: &random)
                try queue.acknowledge(below: 0, early: [first..<end])
                acknowledged.formUnion(first..<end)
            } else {
                tickets.append(queue.append(message(tickets.count % 50), isUrgent: random.once(in: 3)))
                queue.assignNextNumber()
            }
            let left = (0..<UInt64(tickets.count)).filter { !acknowledged.contains($0) }
            #expect(queue.firstNumber == left.first ?? UInt64(tickets.count), "seed \(seed)")
            #expect(queue.count == left.count && queue.nextNumber == UInt64(tickets.count), "seed \(seed)")
            #expect(queue.windowByteCount == left.reduce(0) { $0 + 64 + Int($1 % 50) }, "seed \(seed)")
            for (number, ticket) in tickets.enumerated() {
                let isLeft = !acknowledged.contains(UInt64(number))
                #expect(queue.acknowledged.contains(ticket) == !isLeft, "seed \(seed)")
                let kept = queue.message(UInt64(number), within: MessageChannel.Limits())
                #expect(kept?.bytes.count == (isLeft ? number % 50 : nil), "seed \(seed)")
            }
        }
        let next = UInt64(tickets.count)
        #expect(throws: MalformedInput.self) { try queue.acknowledge(below: 0, early: [next..<next + 1]) }
        try queue.acknowledge(below: next)
        #expect(queue.count == 0 && queue.windowByteCount == 0 && queue.firstUnacknowledged(from: 0) == next)
    }

    @Test func `messages and bytes fill the window, and an acknowledgement frees it`() throws {
        var limits = MessageChannel.Limits()
        limits.maximumUnacknowledgedCount = 3
        var queue = SendQueue()
        for _ in 0..<3 {
            #expect(queue.hasRoom(limits))
            _ = queue.append(message())
        }
        #expect(!queue.hasRoom(limits))
        carryAll(&queue)
        try queue.acknowledge(below: 1)
        #expect(queue.hasRoom(limits))
        limits.maximumUnacknowledgedCount = 100
        limits.maximumUnacknowledgedByteCount = 500
        _ = queue.append(message(500))
        #expect(!queue.hasRoom(limits))
        queue.restart()
        #expect(queue.hasRoom(limits) && queue.count == 0 && queue.nextNumber == 0)
    }
}
