import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareCLI
@testable import NearshareEngine

@Suite("the changes of the peers nearby that are yet to be written")
struct PeerChangeQueueTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    private func peer(_ number: UInt8, _ name: String) -> NearbyPeer {
        NearbyPeer(
            id: PeerID(bytes: Array(repeating: number, count: 8))!, name: DisplayName(truncating: name)!,
            addresses: [])
    }

    private func all(_ queue: inout PeerChangeQueue, now: MonotonicInstant) -> [PeerChangeQueue.Change] {
        var changes: [PeerChangeQueue.Change] = []
        while let change = queue.next(now: now) { changes.append(change) }
        return changes
    }

    @Test func `R6: a peer that renames itself thousands of times causes few lines, and its last name is written`() {
        var queue = PeerChangeQueue(now: start)
        var count = 0
        for number in 0..<10_000 {
            queue.append(number == 0 ? .found(peer(1, "0")) : .updated(peer(1, "\(number)")), isKnown: false)
            count += all(&queue, now: start).count
        }
        #expect(count == PeerChangeQueue.burst && !queue.isEmpty)
        let last = all(&queue, now: start + PeerChangeQueue.interval)
        #expect(last.map(\.after?.name.claimed) == ["9999"] && queue.isEmpty)
    }

    @Test func `R6: known peers are written before a flood of others, which are written at a limited rate`() {
        var queue = PeerChangeQueue(now: start)
        for number in 0...PeerChangeQueue.burst {
            queue.append(.updated(peer(1, "\(number)")), isKnown: false)
            _ = all(&queue, now: start)
        }
        queue.append(.found(peer(3, "other")), isKnown: false)
        queue.append(.found(peer(4, "friend")), isKnown: true)
        #expect(all(&queue, now: start).isEmpty)
        let first = all(&queue, now: start + PeerChangeQueue.interval)
        #expect(first.map(\.after?.name.claimed) == ["friend"])
    }

    @Test func `a peer that comes and goes before it is written is not mentioned, and one that goes is`() {
        var queue = PeerChangeQueue(now: start)
        queue.append(.found(peer(1, "ada")), isKnown: false)
        queue.append(.lost(peer(1, "ada")), isKnown: false)
        #expect(all(&queue, now: start).isEmpty && queue.isEmpty)
        queue.append(.found(peer(1, "ada")), isKnown: false)
        #expect(all(&queue, now: start) == [.init(before: nil, after: peer(1, "ada"))])
        queue.append(.lost(peer(1, "ada")), isKnown: false)
        #expect(all(&queue, now: start) == [.init(before: peer(1, "ada"), after: nil)])
    }
}
