import BundleSimulation
import Glibc

// `make simulate`: the product's own router in networks of 1,000 and 10,000 nodes, on virtual time.

let walking = Landscape.Motion.waypoint(speed: 0.5...2, pause: 0...60)
let all: [BundleSimulation.Scenario] = [
    .init(
        "fixed-1000", count: 1_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0, messageCount: 300,
        broadcastCount: 20),
    .init(
        "fixed-1000-loss", count: 1_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 300,
        broadcastCount: 20),
    .init(
        "dense-1000", count: 1_000, degree: 40, motion: .fixed, profile: .highDensity, loss: 0.05, messageCount: 300,
        broadcastCount: 20),
    .init(
        "walking-1000", count: 1_000, degree: 8, motion: walking, profile: .standard, loss: 0.05, messageCount: 50,
        broadcastCount: 5),
    .init(
        "sparse-1000", count: 1_000, degree: 2, motion: walking, profile: .sparse, loss: 0.05, messageCount: 40,
        broadcastCount: 5),
    .init(
        "hostile-1", count: 300, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 200,
        broadcastCount: 10, warmUp: 300, lastSent: 900, duration: 1_800, hostileShare: 0.01, floodInterval: 6),
    .init(
        "hostile-5", count: 300, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 200,
        broadcastCount: 10, warmUp: 300, lastSent: 900, duration: 1_800, hostileShare: 0.05, floodInterval: 30),
    .init(
        "hostile-20", count: 300, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 200,
        broadcastCount: 10, warmUp: 300, lastSent: 900, duration: 1_800, hostileShare: 0.2, floodInterval: 120),
    .init(
        "hostile-walking-20", count: 200, degree: 8, motion: walking, profile: .standard, loss: 0.05, messageCount: 50,
        broadcastCount: 5, warmUp: 300, lastSent: 900, duration: 1_800, hostileShare: 0.2, floodInterval: 120),
    .init(
        "hostile-drop-20", count: 500, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 200,
        broadcastCount: 10, warmUp: 300, lastSent: 900, duration: 1_800, hostileShare: 0.2, attack: .drops),
    .init(
        "fixed-10000", count: 10_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 300,
        broadcastCount: 10, warmUp: 1_200, lastSent: 2_400),
    .init(
        "walking-10000", count: 10_000, degree: 8, motion: walking, profile: .standard, loss: 0.05, messageCount: 50,
        broadcastCount: 5),
]

let quick: [BundleSimulation.Scenario] = [
    .init(
        "q-fixed", count: 1_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0, messageCount: 200, broadcastCount: 5,
        warmUp: 400, lastSent: 800, duration: 1_000),
    .init(
        "q-loss", count: 1_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 200,
        broadcastCount: 5, warmUp: 400, lastSent: 800, duration: 1_000),
    .init(
        "q-3000", count: 3_000, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 300,
        broadcastCount: 2, warmUp: 500, lastSent: 900, duration: 1_000),
    .init(
        "q-dense", count: 1_000, degree: 40, motion: .fixed, profile: .highDensity, loss: 0.05, messageCount: 200,
        broadcastCount: 5, warmUp: 400, lastSent: 800, duration: 1_000),
    .init(
        "q-hostile", count: 200, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 60,
        broadcastCount: 5, warmUp: 150, lastSent: 300, duration: 700, hostileShare: 0.2, floodInterval: 60),
    .init(
        "q-hostile-drop", count: 200, degree: 10, motion: .fixed, profile: .longReach, loss: 0.05, messageCount: 60,
        broadcastCount: 5, warmUp: 300, lastSent: 500, duration: 900, hostileShare: 0.2, attack: .drops),
    .init(
        "q-walking", count: 500, degree: 8, motion: walking, profile: .standard, loss: 0.05, messageCount: 20,
        broadcastCount: 5, warmUp: 300, lastSent: 600, duration: 900),
]
func cpuSeconds() -> Double { Double(clock()) / Double(CLOCKS_PER_SEC) }

let wanted = Set(CommandLine.arguments.dropFirst())
for scenario in all + (CommandLine.arguments.count > 1 ? quick : []) where wanted.isEmpty || wanted.contains(scenario.name) {
    let began = cpuSeconds()
    var simulation = BundleSimulation(scenario)
    let outcome = simulation.run()
    func number(_ value: Double, _ digits: Int = 1) -> String {
        guard value.isFinite else { return "-" }
        var scale = 1.0
        for _ in 0..<digits { scale *= 10 }
        let scaled = Int((value * scale).rounded())
        guard digits > 0 else { return "\(scaled)" }
        let fraction = String(scaled % Int(scale))
        return "\(scaled / Int(scale))." + String(repeating: "0", count: digits - fraction.utf8.count) + fraction
    }
    print(
        "\(scenario.name): \(scenario.count) nodes, degree \(number(outcome.meanDegree)), \(outcome.encounters) encounters, \(number(cpuSeconds() - began)) s of one core"
    )
    for (name, kind) in [("to one", outcome.messages), ("to all", outcome.broadcasts)] where kind.count > 0 {
        let per = Double(max(1, kind.delivered))
        print(
            "  \(name): \(kind.delivered) of \(kind.deliverable) (\(number(100 * kind.ratio, 2)) %), acknowledged \(kind.acknowledged); "
                + "delay \(number(kind.delay(0.5), 2)) s, p99 \(number(kind.delay(0.99), 2)) s (best \(number(kind.bestDelay(0.5))), \(number(kind.bestDelay(0.99)))); "
                + "per delivery \(number(Double(kind.transmissions) / per, 2)) + \(number(Double(kind.acknowledgements) / per, 2)) ack, "
                + "smallest \(number(Double(kind.smallest) / per, 2)) (x \(number(Double(kind.transmissions) / Double(max(1, kind.smallest)), 2))), "
                + "flooding \(number(Double(kind.flooding) / per, 1)) (1/\(number(Double(kind.flooding) / Double(max(1, kind.transmissions)))))"
                + (kind.lostCount == 0 ? "" : "; for \(kind.lostCount) out of reach \(kind.lostTransmissions)")
        )
    }
    let hours = scenario.duration / 3600 * Double(scenario.count)
    print(
        "  reports \(number(Double(outcome.reports) / hours)), receipts \(number(Double(outcome.receipts) / hours)), control bytes \(number(Double(outcome.controlBytes) / hours, 0)), message bytes \(number(Double(outcome.messageBytes) / hours, 0)) a node and hour; memory mean \(outcome.meanByteCount) peak \(outcome.peakByteCount)"
            + (outcome.junk == 0 ? "" : "; \(outcome.junk) transmissions of made-up bundles")
    )
    fflush(nil)
}
