import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareMesh

@Suite("the trace of packets") struct PacketTraceTests {
    private let time = WallTime(milliseconds: 1_000)

    private func packet(_ number: UInt64) -> MeshPacket {
        MeshPacket(type: .message, timestamp: number, sender: PeerID(fitting: [1]), payload: [1])
    }

    @Test("the latest decisions stay, the oldest first")
    func bound() {
        var trace = PacketTrace()
        #expect(trace.ordered.isEmpty)
        let count = UInt64(PacketTrace.capacity)
        for number in 0..<count + 10 { trace.record(.sent(linkCount: 1), packet(number), at: time) }
        #expect(trace.ordered.count == PacketTrace.capacity)
        #expect(trace.ordered.first?.id == MeshPacketID(of: packet(10)))
        #expect(trace.ordered.last?.id == MeshPacketID(of: packet(count + 9)))
    }

    @Test("each decision about a packet is recorded")
    func decisions() throws {
        var victim = AttackedRouter()
        let anna = UntrustedPeer(seed: 730)
        victim.receive(try anna.announcement(at: victim.now))
        let text = try anna.message("hi", at: victim.now)
        victim.receive(text)
        victim.receive(text, from: 1)
        victim.receive(try anna.message("last", at: victim.now + 1, ttl: 1))
        victim.receive(try anna.message("old", at: victim.now - 600_000))
        var forged = text
        forged[forged.count - MeshPacket.signatureByteCount] ^= 1
        victim.receive(forged)
        func decisions(_ frame: [UInt8]) throws -> [PacketTrace.Decision] {
            let id = MeshPacketID(of: try MeshFrame(decoding: frame[...]).packet)
            return victim.router.trace.ordered.filter { $0.id == id && $0.sender == anna.id }.map(\.decision)
        }
        let (first, second) = (AttackedRouter.link(0), AttackedRouter.link(1))
        let all = try decisions(text)
        #expect(all.count == 4 && all[0] == .handled(on: first, ttl: 7) && all[2] == .duplicate(on: second))
        guard case .relayed(linkCount: 1, ttl: _) = all[1] else {
            Issue.record("\(all)")
            return
        }
        // The signature is no part of the id.
        #expect(all[3] == .rejected(on: first))
        let spent = try decisions(anna.message("last", at: victim.now + 1, ttl: 1))
        #expect(spent == [.handled(on: first, ttl: 1), .notRelayed(.spent)])
        let old = try decisions(anna.message("old", at: victim.now - 600_000))
        #expect(old == [.outsideTimeWindow(on: first)])
    }
}
