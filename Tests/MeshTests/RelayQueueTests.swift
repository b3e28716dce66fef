import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct RelayQueueTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)

    private func packet(_ timestamp: UInt64, _ type: MeshPacketType = .message) -> MeshPacket {
        MeshPacket(type: type, timestamp: timestamp, sender: PeerID(fitting: [5]), payload: [1])
    }

    private func link(_ number: UInt64) -> MeshLinkID { MeshLinkID(rawValue: number) }

    private func insert(_ packet: MeshPacket, after delay: Duration, in queue: inout RelayQueue) {
        queue.insert(
            RelayQueue.Relay(frame: [UInt8(packet.timestamp)], packet: packet, links: [link(1), link(2)], from: link(3)),
            PacketKey(of: packet), due: now + delay)
    }

    @Test func `packets leave in the order of their delays`() {
        var queue = RelayQueue()
        insert(packet(1), after: .milliseconds(30), in: &queue)
        insert(packet(2), after: .milliseconds(10), in: &queue)
        #expect(queue.deadline == now + .milliseconds(10))
        #expect(queue.popDue(now: now) == nil)
        #expect(queue.popDue(now: now + .milliseconds(10))?.frame == [2])
        #expect(queue.popDue(now: now + .milliseconds(10)) == nil)
        #expect(queue.popDue(now: now + .seconds(1))?.frame == [1])
        #expect(queue.byteCount == 0 && queue.count == 0 && queue.recordCount == 0)
    }

    @Test("a line does not overtake its sender's announcement, without which nobody can check it") func order() {
        var queue = RelayQueue()
        insert(packet(1, .announce), after: .milliseconds(30), in: &queue)
        insert(packet(2), after: .milliseconds(10), in: &queue)
        insert(packet(3, .announce), after: .milliseconds(20), in: &queue)
        insert(packet(4), after: .milliseconds(40), in: &queue)
        let order = (0..<4).compactMap { _ in queue.popDue(now: now + .seconds(1))?.frame.first }
        #expect(order.first == 1 && order.last == 4)
        insert(packet(5), after: .milliseconds(1), in: &queue)
        #expect(queue.deadline == now + .milliseconds(1))
    }

    @Test func `a neighbour that has sent a copy gets none`() {
        var queue = RelayQueue()
        insert(packet(1), after: .zero, in: &queue)
        queue.recordCopy(PacketKey(of: packet(1)), on: link(2))
        queue.recordCopy(PacketKey(of: packet(9)), on: link(1))
        #expect(queue.popDue(now: now)?.links == [link(1)])
    }

    @Test("R1, M10: waiting packets are bounded in bytes, and each link has a share") func bound() {
        var queue = RelayQueue()
        let frame = [UInt8](repeating: 0, count: 16 << 10)
        var count = 0
        func fill(from source: MeshLinkID) {
            while queue.hasRoom(for: frame[...], from: source), count < 1_000 {
                count += 1
                queue.insert(
                    RelayQueue.Relay(frame: frame, packet: packet(UInt64(count)), links: [], from: source),
                    PacketKey(of: packet(UInt64(count))), due: now)
            }
        }
        fill(from: link(1))
        #expect(count == 31)
        // Its frames take no room from others.
        for number in 2...16 as ClosedRange<UInt64> {
            #expect(queue.hasRoom(for: frame[...], from: link(number)), "link \(number)")
            fill(from: link(number))
        }
        #expect(queue.byteCount <= 8 << 20)
        while queue.popDue(now: now) != nil {}
        #expect(queue.byteCount == 0 && queue.hasRoom(for: frame[...], from: link(1)))
    }

    @Test("M2: a copy with another signature is another packet, whichever byte differs") func signatures() {
        var history = PacketHistory()
        let moment = Moment(monotonic: now, wall: WallTime(milliseconds: 1_000))
        var original = packet(1)
        original.signature = [UInt8](repeating: 7, count: 64)
        var forged = original
        forged.signature?[63] = 8
        history.record(PacketKey(of: forged), forged, from: source(1), now: moment)
        let key = PacketKey(of: original)
        #expect(!history.isDuplicate(key, original, from: source(1), isSyncResponse: false, now: now))
    }

    @Test("M7: keys that a flood has dropped are rejected by their time, for as long as they may be in transit")
    func dropped() {
        var filter = DuplicateFilter(capacity: 2, lifetime: .seconds(10))
        for second in 0..<3 { filter.insert(key(second), from: source(1), at: moment(second)) }
        #expect(filter.mayBeReplay(timestamp: 100_000, from: source(1), now: now + .seconds(12)))
        #expect(!filter.mayBeReplay(timestamp: 100_001, from: source(1), now: now + .seconds(12)))
        #expect(!filter.mayBeReplay(timestamp: 100_000, from: source(2), now: now + .seconds(12)))
        // Also where the wall clock was ahead, and was set back.
        #expect(!filter.mayBeReplay(timestamp: 100_000, from: source(1), now: now + .seconds(13)))
    }

    @Test("M15: a full filter drops keys of the source that brought most, and hosts without a link count as one")
    func shares() {
        var filter = DuplicateFilter(capacity: 12, lifetime: .seconds(100))
        for number in 0..<4 { filter.insert(key(number), from: source(1), at: moment(number)) }
        for number in 4..<30 { filter.insert(key(number), from: source(2), at: moment(number)) }
        #expect(filter.count == 12)
        #expect((0..<4).allSatisfy { filter.contains(key($0)) })
        #expect((4..<30).filter { filter.contains(key($0)) } == Array(22..<30))
        // Six hosts come and go, two at a time, and bring three keys each.
        for number in 30..<48 {
            let host = UInt64(3 + (number - 30) / 6 * 2 + number % 2)
            filter.insert(key(number), from: source(host), at: moment(number))
            if number % 6 == 4 || number % 6 == 5 { filter.close(source(host)) }
        }
        // Those that are gone share one part, so the first two sources keep theirs.
        #expect((0..<48).filter { filter.contains(key($0)) } == [2, 3, 28, 29] + Array(40..<48))
        // Those that are gone expire in the order of their arrival.
        filter.insert(key(48), from: source(1), at: moment(146))
        #expect((0..<49).filter { filter.contains(key($0)) } == [46, 47, 48])
    }

    @Test("R1: sources that have lost keys early are bounded") func earlyDrops() {
        var filter = DuplicateFilter(capacity: 1, lifetime: .seconds(1_000))
        for number in 0..<100 { filter.insert(key(number), from: source(UInt64(number)), at: moment(number)) }
        #expect(filter.count == 1)
        let count = (0..<100).count {
            filter.mayBeReplay(timestamp: 0, from: source(UInt64($0)), now: now + .seconds(100))
        }
        #expect(count == 64)
    }

    private func source(_ number: UInt64) -> PacketSource { .host(.link(link(number))) }

    private func key(_ number: Int) -> PacketKey { PacketKey(of: packet(UInt64(number))) }

    private func moment(_ second: Int) -> Moment {
        Moment(monotonic: now + .seconds(second), wall: WallTime(milliseconds: 100_000 + 1_000 * Int64(second)))
    }

    @Test func `a message that could not be verified is accepted again as a sync response`() {
        var history = PacketHistory()
        let moment = Moment(monotonic: now, wall: WallTime(milliseconds: 1_000))
        let message = packet(1)
        let key = PacketKey(of: message)
        history.record(key, message, from: source(1), now: moment)
        #expect(history.isDuplicate(key, message, from: source(1), isSyncResponse: false, now: now))
        #expect(!history.isDuplicate(key, message, from: source(1), isSyncResponse: true, now: now))
        history.record(key, message, from: source(1), isAuthentic: true, now: moment)
        #expect(history.isDuplicate(key, message, from: source(1), isSyncResponse: true, now: now))
    }

    @Test("M3: timestamps are accepted within a window, longer for fragments and reassembled files") func window() {
        let wall = WallTime(milliseconds: 10_000_000)
        let plain = TimestampWindow.window(for: packet(1), isReassembled: false)
        #expect(plain.contains(10_000_000 - 120_000, now: wall) && !plain.contains(10_000_000 - 120_001, now: wall))
        #expect(plain.contains(10_000_000 + 120_000, now: wall) && !plain.contains(10_000_000 + 120_001, now: wall))
        #expect(!plain.contains(.max, now: wall) && !plain.contains(0, now: wall))
        let file = TimestampWindow.window(for: packet(1, .fileTransfer), isReassembled: true)
        #expect(file.contains(10_000_000 - 900_000, now: wall) && !file.contains(10_000_000 + 120_001, now: wall))
        #expect(TimestampWindow.window(for: packet(1, .fileTransfer), isReassembled: false).past == plain.past)
    }
}
