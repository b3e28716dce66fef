import NearshareMesh
import Testing

@testable import NearshareEngine

@Suite("frames without their end")
struct PartialFramesTests {
    private func link(_ number: Int) -> MeshLinkID { MeshLinkID(rawValue: UInt64(number)) }

    @Test("R1: links that hold back the ends of their frames are closed, the largest first, and none with a small one")
    func all() {
        var frames = PartialFrames()
        let first = frames.record(16 << 10, on: link(0), from: "newcomer")
        #expect(first == nil)
        var closed: Set<MeshLinkID> = []
        // Each link of an address of its own, 64 KiB at a time.
        for byteCount in stride(from: 64 << 10, through: 5 << 20, by: 64 << 10) {
            for number in 1...24 where !closed.contains(link(number)) {
                if let largest = frames.record(byteCount, on: link(number), from: "\(number)") { closed.insert(largest) }
                #expect(frames.byteCount <= PartialFrames.capacity)
            }
        }
        #expect(closed.count == 21 && !closed.contains(link(0)))
    }

    @Test("R1: the links of one address hold less than all together, and a single one the largest frame") func address() {
        var frames = PartialFrames()
        let other = frames.record(5 << 20, on: link(0), from: "other")
        let first = frames.record(5 << 20, on: link(1), from: "address")
        let second = frames.record(4 << 20, on: link(2), from: "address")
        #expect(other == nil && first == nil && second == link(1))
        // The frame is complete.
        let complete = frames.record(0, on: link(2), from: "address")
        #expect(complete == nil && frames.byteCount == 5 << 20)
        frames.remove(link(0))
        #expect(frames.byteCount == 0)
    }
}
