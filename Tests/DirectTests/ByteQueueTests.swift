import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareDirect

@Suite struct ByteQueueTests {
    @Test("small and large pieces leave in the order in which they came", arguments: seeds(1...20))
    func mixedSizes(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = ByteQueue()
        var expected: [UInt8] = []
        var taken: [UInt8] = []
        for _ in 0..<200 {
            let bytes = random.bytes(Int.random(in: 0...(random.once(in: 10) ? 40_000 : 30), using: &random))
            // A slice of a larger array, as in a frame.
            queue.append(([9] + bytes)[1...])
            expected += bytes
            if random.once(in: 3) { taken += queue.popPrefix(Int.random(in: 0...5000, using: &random)) }
            #expect(queue.count == expected.count - taken.count, "seed \(seed)")
        }
        while !queue.isEmpty { taken += queue.popPrefix(777) }
        #expect(taken == expected && queue.pieceCount == 0, "seed \(seed)")
    }

    @Test("Q8: single bytes are joined: neither a piece of memory nor the work of one for each")
    func singleBytes() throws {
        let count = Int(StreamFrame.initialWindow)
        var queue = ByteQueue()
        for number in 0..<count { queue.append([UInt8(truncatingIfNeeded: number)][...]) }
        #expect(queue.count == count && queue.pieceCount <= count / 4096)
        let first = queue.popPrefix(10)
        #expect(first.elementsEqual(0..<10))
        let rest = queue.popPrefix(.max)
        #expect(rest.count == count - 10 && queue.isEmpty)
    }

    @Test("bytes leave in the order in which they came, in whatever portions", arguments: seeds(1...30))
    func order(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var queue = ByteQueue()
        var model: [UInt8] = []
        for _ in 0..<400 {
            if random.once(in: 2) {
                let bytes = random.bytes(Int.random(in: 0...40, using: &random))
                // A slice in the middle of an array, as frames are.
                queue.append((random.bytes(3) + bytes + random.bytes(2))[3..<3 + bytes.count])
                model += bytes
            } else {
                let limit = Int.random(in: 0...90, using: &random)
                let bytes = Array(queue.popPrefix(limit))
                #expect(bytes == Array(model.prefix(limit)), "seed \(seed)")
                model.removeFirst(bytes.count)
            }
            #expect(queue.count == model.count && queue.isEmpty == model.isEmpty, "seed \(seed)")
        }
    }

    @Test func `an empty queue gives nothing`() {
        var queue = ByteQueue()
        queue.append([])
        let bytes = queue.popPrefix(10)
        #expect(bytes.isEmpty && queue.isEmpty)
    }
}
