import BundleSimulation
import NearshareBundles
import Testing

@Suite("hostile nodes", .timeLimit(.minutes(5))) struct HostileNodesTests {
    /// Some of 80 nodes claim the lowest root and to reach everything, confirm and drop what they get, spoil the hop counts of
    /// others' copies, and flood: a small form of `make simulate SCENARIOS="hostile-1 hostile-5 hostile-20"`.
    @Test(
        "B1, B4, B5: of what honest nodes send each other 95 % arrives, while others lie, drop and flood",
        arguments: [0.0125, 0.05, 0.2])
    func delivery(share: Double) {
        let scenario = BundleSimulation.Scenario(
            "hostile", count: 80, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 20,
            broadcastCount: 2, warmUp: 100, lastSent: 200, duration: 500, hostileShare: share, floodInterval: 5 * 80 * share)
        var simulation = BundleSimulation(scenario)
        let outcome = simulation.run()
        #expect(outcome.messages.deliverable >= 15 && outcome.junk > 0)
        #expect(outcome.messages.ratio >= 0.95, "\(outcome.messages.delivered) of \(outcome.messages.deliverable)")
        #expect(outcome.broadcasts.ratio >= 0.95, "\(outcome.broadcasts.delivered) of \(outcome.broadcasts.deliverable)")
    }
}
