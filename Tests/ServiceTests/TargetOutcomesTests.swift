import Nearshare
import Testing

@testable import NearshareService

@Suite struct TargetOutcomesTests {
    @Test func `targets that select one receiver end as the first of them, and count once`() {
        let (anna, ben) = (PeerID(hex: "1a2b3c4d5e6f7081")!, PeerID(hex: "2b2b3c4d5e6f7081")!)
        var outcomes = TargetOutcomes()
        let claims = [(anna, 0), (ben, 1), (anna, 2), (anna, 0)].map { outcomes.claim($0.0, at: $0.1) }
        #expect(claims == [true, true, false, true] && outcomes.repeatedCount == 1)
        outcomes.record(nil, at: 2)
        #expect(outcomes.reached.isEmpty, "the first target has not ended")
        outcomes.record(nil, at: 0)
        outcomes.record(CommandFailure(.notTrusted, "no"), at: 1)
        #expect(outcomes.reached == [0, 2] && outcomes.distrusted == [1])
    }

    @Test func `the exit code of several failures is that of a key that is not trusted, or of the first target`() {
        var outcomes = TargetOutcomes()
        #expect(outcomes.failureStatus == nil)
        outcomes.record(CommandFailure(.declined, "no"), at: 2)
        outcomes.record(CommandFailure(.peerNotFound, "no"), at: 1)
        #expect(outcomes.failureStatus == .peerNotFound)
        outcomes.record(CommandFailure(.notTrusted, "no"), at: 3)
        #expect(outcomes.failureStatus == .notTrusted)
    }
}
