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
        for _ in 0..<1_000 { queue.append(packet(0, from: host)) }
        for _ in 0..<500 { queue.append(MeshReaction(event: .peerLost(peer), source: .gone)) }
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

    @Test("M12, M13: a flood drops nothing of contacts and of other hosts while the program is slow, and the latest of its own")
    func shares() async {
        let queue = MeshEventQueue()
        for number in 0..<300 { queue.append(packet(number, from: host)) }
        // A host that writes little.
        for number in 0..<20 { queue.append(packet(number, from: quiet)) }
        for number in 0..<80 { queue.append(packet(number, from: .known)) }
        for number in 300..<400 { queue.append(packet(number, from: host)) }
        queue.append(packet(20, from: quiet))
        queue.finish()
        let numbers = await drain(queue)
        #expect(numbers[quiet] == Array(0...20) && numbers[.known] == Array(0..<80))
        let left = MeshEventQueue.byteCapacity / cost - 101
        #expect(numbers[host] == Array(0..<left))
    }

    @Test("M12: contacts keep half of the room, and so do all hosts together, in equal parts") func halves() async {
        let queue = MeshEventQueue()
        for number in 0..<300 { queue.append(packet(number, from: host)) }
        for number in 0..<300 { queue.append(packet(number, from: .known)) }
        for number in 0..<300 { queue.append(packet(number, from: quiet)) }
        queue.finish()
        let counts = await drain(queue).mapValues(\.count)
        let half = MeshEventQueue.byteCapacity / cost / 2
        #expect(counts[.known] == half)
        #expect([host, quiet].allSatisfy { (half / 2...half / 2 + 1).contains(counts[$0] ?? 0) })
    }

    private let host = PacketSource.host(.address("10.0.0.1"))
    private let quiet = PacketSource.host(.address("10.0.0.2"))
    /// Memory of a packet in the queue.
    private let cost = 20_512

    /// An event whose sender shows its source, and whose bytes show its number.
    private func packet(_ number: Int, from source: PacketSource) -> MeshReaction {
        var bytes = [UInt8](repeating: 0, count: 20_000)
        bytes[0] = UInt8(number / 256)
        bytes[1] = UInt8(number % 256)
        return MeshReaction(event: .bundlePacket(bytes, from: sender(of: source)), source: source)
    }

    private func sender(of source: PacketSource) -> PeerID {
        switch source {
        case host: PeerID(fitting: [1])
        case quiet: PeerID(fitting: [2])
        default: PeerID(fitting: [3])
        }
    }

    /// The numbers of the packets of each source, in their order.
    private func drain(_ queue: MeshEventQueue) async -> [PacketSource: [Int]] {
        let numbers = Mutex<[PacketSource: [Int]]>([:])
        await queue.run { event in
            guard case .bundlePacket(let bytes, let sender) = event,
                let source = [host, quiet, .known].first(where: { self.sender(of: $0) == sender })
            else { return }
            numbers.withLock { $0[source, default: []].append(Int(bytes[0]) * 256 + Int(bytes[1])) }
        }
        return numbers.withLock { $0 }
    }
}
