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
            queue.append(.publicText(from: peer, id: "\(number)", text: "x", source: .address("10.0.0.1")))
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

    @Test(
        "M12: the public texts of a quiet source wait for one text of each other one, and are never the ones that are dropped")
    func turns() throws {
        let identity = LocalIdentity(seed: [UInt8](repeating: 1, count: LocalIdentity.seedByteCount))
        let peer = MeshPeer(
            id: identity.peerID, name: try DisplayName("anna"), fingerprint: identity.fingerprint, capabilities: nil,
            isDirect: true, isReachable: true, hops: 1, statedFragmentLimit: nil)
        var queue = MessengerInputQueue()
        func append(_ id: String, _ host: String) {
            queue.append(.publicText(from: peer, id: id, text: "x", source: .address(host)))
        }
        for number in 0..<MessengerInputQueue.capacity { append("\(number)", "10.0.0.\(number % 12)") }
        for number in 0..<20 { append("quiet \(number)", "10.0.1.1") }
        for number in 0..<100 { append("late \(number)", "10.0.0.1") }
        var ids: [String] = []
        while !queue.isEmpty {
            for input in queue.dequeue() {
                if case .event(.publicText(_, let id, _, _)) = input { ids.append(id) }
            }
        }
        let quiet = ids.indices.filter { ids[$0].hasPrefix("quiet") }
        #expect(quiet.map { ids[$0] } == (0..<20).map { "quiet \($0)" })
        #expect(quiet.last ?? .max < 20 * 13 && ids.count == MessengerInputQueue.capacity)
        #expect(ids.prefix(12) == (0..<12).map { "\($0)" }[...])
    }
}
