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
