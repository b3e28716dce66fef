import FoundationEssentials
import Glibc
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("lines of a piped conversation") struct DeliveryModelTests {
    private static let peer = PeerID(hex: "1a2b3c4d5e6f7081")!

    @Test("in whatever order replies and states arrive, each line is counted once", arguments: 1...40 as ClosedRange<UInt64>)
    func anyOrder(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let goal = [MessageStatus.sent, .delivered, .read].randomElement(using: &random) ?? .sent
        let count = Int.random(in: 1...12, using: &random)
        let finals = (0..<count).map { _ in
            [MessageStatus.sent, .delivered, .read, .failed].randomElement(using: &random) ?? .sent
        }
        enum Step {
            case accepted(Int)
            case changed(Int, MessageStatus)
        }
        var steps: [Step] = []
        for (line, final) in finals.enumerated() {
            steps.append(.accepted(line))
            // States may be lost and repeated; the last one arrives.
            for status in [MessageStatus.sent, .delivered] where status < final && random.once(in: 2) {
                steps.append(.changed(line, status))
            }
            steps.append(.changed(line, final))
        }
        steps.shuffle(using: &random)
        // The node ends a line with its final state, also after others that overtook each other.
        steps += finals.enumerated().map { .changed($0, $1) }
        var tracker = DeliveryTracker(.peer(Self.peer), requiredStatus: goal)
        for step in steps {
            switch step {
            case .accepted(let line): tracker.recordAcceptance(of: "\(line)")
            case .changed(let line, let status):
                tracker.handle(.chatMessageChanged(id: "\(line)", conversation: .peer(Self.peer), status: status, reason: nil))
            }
        }
        tracker.recordEndOfInput()
        #expect(tracker.reachedCount + tracker.failures.count + tracker.pending.count == count, "seed \(seed)")
        let reached = finals.filter { $0 != .failed && $0 >= goal }.count
        #expect(tracker.reachedCount >= reached, "seed \(seed)")
        #expect(tracker.pending.values.allSatisfy { $0 < goal }, "seed \(seed)")
        #expect(tracker.isDone == tracker.pending.isEmpty, "seed \(seed)")
    }
}
