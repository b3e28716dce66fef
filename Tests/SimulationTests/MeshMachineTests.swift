import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("Mesh machine") struct MeshMachineTests {
    private func machine() -> MeshMachine {
        MeshMachine(
            MeshRouter(
                identity: LocalIdentity(seed: [UInt8](repeating: 1, count: LocalIdentity.seedByteCount)),
                name: DisplayName(truncating: "Ada")!, random: SeededRandom(seed: 1)))
    }

    private func moment(_ milliseconds: Int64) -> Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: milliseconds * 1_000_000),
            wall: WallTime(milliseconds: 1_800_000_000_000 + milliseconds))
    }

    @Test("R3: there is room for a limited number of links, and for none once the node leaves")
    func room() throws {
        var machine = machine()
        let links = (0..<MeshMachine.maximumLinkCount).compactMap { _ in machine.linkUp(.stream, now: moment(0)) }
        #expect(links.count == MeshMachine.maximumLinkCount && Set(links).count == links.count)
        let extra = machine.linkUp(.stream, now: moment(0))
        #expect(extra == nil && !machine.hasRoomForLinks)
        machine.linkDown(try #require(links.first), now: moment(1))
        #expect(machine.hasRoomForLinks)
        machine.leave(now: moment(2))
        let late = machine.linkUp(.stream, now: moment(2))
        #expect(!machine.hasRoomForLinks && late == nil)
    }

    @Test("R3: the links of one address give way to those of others, and leave room for this node's own")
    func oneMachine() throws {
        var machine = machine()
        let taken = (0..<16).compactMap { machine.linkUp(.stream, from: "attacker", now: moment(Int64($0))) }
        #expect(taken.count == MeshMachine.maximumIncomingLinkCount)
        let first = machine.linkUp(.stream, from: "anna", now: moment(20))
        var replaced = machine.drainReplaced()
        #expect(first != nil && replaced.count == 1)
        for number in 0..<6 {
            let other = machine.linkUp(.stream, from: "other \(number)", now: moment(30))
            #expect(other != nil, "\(number)")
        }
        replaced = machine.drainReplaced()
        #expect(replaced.allSatisfy { taken.contains($0) })
        let own = (0..<4).compactMap { _ in machine.linkUp(.stream, now: moment(40)) }
        replaced = machine.drainReplaced()
        #expect(own.count == 4 && replaced.isEmpty)
        // It comes back as often as it likes.
        for number in 0..<50 as Range<Int64> { _ = machine.linkUp(.stream, from: "attacker", now: moment(50 + number)) }
        #expect(machine.isOpen(try #require(first)) && own.allSatisfy { machine.isOpen($0) })
    }

    @Test("R3: neighbours that never prove a key give way to newcomers, from whatever addresses they come")
    func silentNeighbours() {
        var machine = machine()
        for number in 0..<12 { _ = machine.linkUp(.stream, from: "\(number)", now: moment(0)) }
        let early = machine.linkUp(.stream, from: "anna", now: moment(1_000))
        #expect(early == nil)
        let late = machine.linkUp(.stream, from: "anna", now: moment(6_000))
        let replaced = machine.drainReplaced()
        #expect(late != nil && replaced.count == 1)
    }

    @Test("A node without links has left at once")
    func leavesAlone() {
        var machine = machine()
        machine.leave(now: moment(0))
        #expect(machine.isLeaving && machine.isFinished && machine.deadline == nil)
    }

    @Test("A node that leaves waits for its links, until the farewell timeout")
    func farewell() throws {
        var machine = machine()
        let opened = [machine.linkUp(.stream, now: moment(0)), machine.linkUp(.stream, now: moment(0))]
        let (first, second) = (try #require(opened[0]), try #require(opened[1]))
        while machine.router.nextFrame(for: first) != nil {}
        machine.leave(now: moment(10))
        #expect(machine.router.hasFrame(for: first) && !machine.isFinished)
        let end = moment(10).monotonic + MeshMachine.farewellTimeout
        #expect(try #require(machine.deadline) <= end)

        var drained = machine
        drained.linkDown(first, now: moment(20))
        #expect(!drained.isFinished && !drained.isOpen(first) && drained.isOpen(second))
        drained.stopWriting(to: second)
        #expect(drained.isFinished)

        machine.advance(to: moment(509))
        #expect(!machine.isFinished && machine.deadline == end)
        machine.advance(to: moment(510))
        #expect(machine.isFinished)
    }
}
