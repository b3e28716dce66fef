import NearshareBase
import NearshareCrypto
import Testing

@testable import NearshareEngine
@testable import NearshareMesh

@Suite("inputs of the messenger") struct MessengerInputQueueTests {
    @Test("M12: a flood of public texts delays no other event, and takes no room from it")
    func flood() throws {
        let identity = LocalIdentity(seed: [UInt8](repeating: 1, count: LocalIdentity.seedByteCount))
        let peer = MeshPeer(
            id: identity.peerID, name: try DisplayName("anna"), fingerprint: identity.fingerprint, capabilities: nil,
            isDirect: true, isReachable: true, hops: 1, statedFragmentLimit: nil)
        var queue = MessengerInputQueue()
        for number in 0..<2 * MessengerInputQueue.capacity {
            queue.append(.publicText(from: peer, id: "\(number)", text: "x"))
        }
        let first = queue.dequeue()
        queue.append(.peerChanged(peer.id))
        let next = queue.dequeue()
        guard next.count == 1, case .event(.peerChanged(let id)) = next[0] else {
            Issue.record("\(next.count) inputs")
            return
        }
        var publicCount = first.count
        while !queue.isEmpty { publicCount += queue.dequeue().count }
        #expect(id == peer.id && first.count == MessengerInputQueue.publicBatchCount)
        #expect(publicCount == MessengerInputQueue.capacity)
    }
}
