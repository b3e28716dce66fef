import NearshareBase
import Testing

@testable import NearshareMesh

@Suite struct FragmentSchedulerTests {
    private let now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let radio = MeshLinkID(rawValue: 1)

    /// One radio link and no peers.
    private func routing() -> MeshRouting {
        var links = LinkTable()
        links.open(radio, profile: .radio, MeshRouter.Settings(), now: now)
        return MeshRouting(own: PeerID(fitting: [1]), peers: PeerTable(), links: links)
    }

    private func scheduler() -> FragmentScheduler {
        var scheduler = FragmentScheduler()
        scheduler.addLink(radio, now: now)
        return scheduler
    }

    private func fragmentation(_ number: UInt64, count: Int) throws -> MeshFragmentation {
        try MeshFragmentation(
            MeshPacket(type: .fileTransfer, timestamp: number, sender: PeerID(fitting: [1]), payload: []),
            frame: [UInt8](repeating: UInt8(number), count: count * 10), id: MeshFragment.ID(rawValue: number),
            chunkByteCount: 10)
    }

    private func key(_ number: UInt8) -> MeshFileKey {
        MeshFileKey(MeshFileControl.FileID(digest: [UInt8](repeating: number, count: 32)), with: nil)
    }

    private func file(_ number: UInt8, count: Int) throws -> FragmentJob {
        FragmentJob(try fragmentation(UInt64(number), count: count), origin: .file(key(number)), to: .everyone)
    }

    /// The set and index of a fragment.
    private func name(_ emission: FragmentScheduler.Emission?) throws -> String? {
        guard let emission else { return nil }
        let fragment = try MeshFragment(decoding: emission.packet.payload)
        return "\(fragment.id.rawValue).\(fragment.index)"
    }

    @Test func `transfers take turns at the pace of the link`() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 3))
        scheduler.insert(try file(2, count: 1))
        var sent: [String?] = []
        for number in 0..<5 {
            let moment = now + .milliseconds(20 * number)
            let emission = scheduler.popDue(now: moment, routing())
            sent.append(try name(emission))
            // Only one in each interval.
            #expect(scheduler.popDue(now: moment + .milliseconds(19), routing()) == nil)
        }
        #expect(sent == ["1.0", "2.0", "1.1", "1.2", nil])
        #expect(scheduler.isEmpty && scheduler.deadline(routing()) == nil)
    }

    @Test func `the last fragment is marked, and the deadline follows the pace`() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 2))
        #expect(scheduler.deadline(routing()) == now)
        let first = scheduler.popDue(now: now, routing())
        #expect(first?.isLast == false && first?.sent == 1 && first?.total == 2)
        #expect(scheduler.deadline(routing()) == now + .milliseconds(20))
        let last = scheduler.popDue(now: now + .milliseconds(20), routing())
        #expect(last?.isLast == true && last?.isRetransmission == false)
    }

    @Test("a fragment follows the end of the write before it at the pacing of the link, however late that was")
    func lateWrites() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 3))
        let sent = scheduler.popDue(now: now, routing())
        #expect(sent != nil)
        scheduler.startWriting(to: radio)
        for milliseconds in [20, 44] {
            let early = scheduler.popDue(now: now + .milliseconds(milliseconds), routing())
            #expect(early == nil)
            let deadline = try #require(scheduler.deadline(routing()))
            #expect(deadline > now + .milliseconds(milliseconds - 1))
        }
        scheduler.finishWriting(to: radio, pacing: .milliseconds(20), now: now + .milliseconds(45))
        #expect(scheduler.deadline(routing()) == now + .milliseconds(65))
        let (early, due) = (
            scheduler.popDue(now: now + .milliseconds(64), routing()), scheduler.popDue(now: now + .milliseconds(65), routing())
        )
        #expect(early == nil && due != nil)
    }

    @Test("a fragment that waits in the outbox holds back the next one") func waiting() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 2))
        var links = routing().links
        links.enqueue([1], on: radio, priority: .bulk)
        let busy = MeshRouting(own: PeerID(fitting: [1]), peers: PeerTable(), links: links)
        let held = scheduler.popDue(now: now, busy)
        let sent = scheduler.popDue(now: now + .milliseconds(20), routing())
        #expect(held == nil && sent != nil)
    }

    @Test func `only fragments that were sent are sent again`() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 3))
        _ = scheduler.popDue(now: now, routing())
        #expect(scheduler.repeat([0, 2], of: key(1)) == 1)
        // The earlier request is still being served.
        #expect(scheduler.repeat([0], of: key(1)) == 0)
        #expect(scheduler.repeat([0], of: key(9)) == nil)
        let retransmission = scheduler.popDue(now: now + .seconds(1), routing())
        #expect(retransmission?.isRetransmission == true)
        #expect(try name(retransmission) == "1.0")
        #expect(try name(scheduler.popDue(now: now + .seconds(2), routing())) == "1.1")
    }

    @Test func `a congested link gets no further fragments`() throws {
        var scheduler = scheduler()
        scheduler.insert(try file(1, count: 1))
        var links = routing().links
        links.enqueue([UInt8](repeating: 0, count: 256 << 10), on: radio, priority: .bulk)
        let congested = MeshRouting(own: PeerID(fitting: [1]), peers: PeerTable(), links: links)
        #expect(scheduler.popDue(now: now, congested) == nil && scheduler.deadline(congested) == nil)
        #expect(scheduler.popDue(now: now, routing()) != nil)
    }

    @Test("M6, M10: packets relayed from one link take neither the place of this node's nor that of another link's")
    func shares() throws {
        var scheduler = scheduler()
        func origin(_ link: UInt64) -> FragmentJob.Origin { .relayed(from: MeshLinkID(rawValue: link), isAuthentic: false) }
        for number in 0..<8 as Range<UInt64> {
            #expect(scheduler.hasRoom(for: 100, origin: origin(7)))
            scheduler.insert(
                FragmentJob(try fragmentation(number, count: 3), byteCount: 100, origin: origin(7), to: .link(radio)))
        }
        #expect(!scheduler.hasRoom(for: 100, origin: origin(7)) && scheduler.hasRoom(for: 100, origin: origin(8)))
        #expect(scheduler.hasRoom(for: 100, origin: .own) && !scheduler.hasRoom(for: 9 << 20, origin: .own))
        // This node's file gets every second turn, not the ninth.
        scheduler.insert(try file(50, count: 2))
        let sent = try (0..<4).map { try name(scheduler.popDue(now: now + .milliseconds(20 * $0), routing()))?.prefix(3) }
        #expect(sent.count { $0 == "50." } == 2)
        scheduler.removeJobs(exceptForLinks: LinkTable())
        #expect(scheduler.jobs.allSatisfy { $0.origin == .file(key(50)) })
    }
}
