import NearshareBase
import NearshareMesh
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("mesh event queue")
struct MeshEventQueueTests {
    @Test("R1, M13: events that neighbours can cause at will are bounded in bytes, and no other is lost")
    func bounded() async throws {
        let queue = MeshEventQueue()
        let peer = PeerID(fitting: [1])
        for _ in 0..<1_000 { queue.append(.bundlePacket([UInt8](repeating: 0, count: 20_000), from: peer)) }
        for _ in 0..<500 { queue.append(.peerLost(peer)) }
        queue.finish()
        let counts = Mutex((packets: 0, losses: 0))
        await queue.run { event in
            counts.withLock { counts in
                if case .bundlePacket = event { counts.packets += 1 } else { counts.losses += 1 }
            }
        }
        let (packets, losses) = counts.withLock { $0 }
        #expect(packets > 100 && packets <= MeshEventQueue.byteCapacity / 20_000 && losses == 500)
    }
}
