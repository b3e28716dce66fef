/// The results of a simulation.
package struct BundleOutcome: Sendable {
    package struct Kind: Sendable {
        package var count = 0
        /// Pairs of bundle and destination that could have been delivered in time.
        package var deliverable = 0
        package var delivered = 0
        package var acknowledged = 0
        /// Seconds.
        package var delays: [Double] = []
        package var bestDelays: [Double] = []
        package var transmissions = 0
        package var acknowledgements = 0
        package var flooding = 0
        package var smallest = 0
        /// Bundles that could not have been delivered in time, and their transmissions, which none of the sums above include.
        package var lostCount = 0
        package var lostTransmissions = 0

        package var ratio: Double { deliverable == 0 ? 1 : Double(delivered) / Double(deliverable) }

        package func delay(_ share: Double) -> Double { BundleOutcome.quantile(delays, share) }
        package func bestDelay(_ share: Double) -> Double { BundleOutcome.quantile(bestDelays, share) }
    }

    package let scenario: BundleSimulation.Scenario
    package var messages = Kind()
    package var broadcasts = Kind()
    package let meanDegree: Double
    package let encounters: Int
    /// Transmissions of bundles that attackers made up, by honest nodes.
    package let junk: Int
    package let reports: Int
    package let receipts: Int
    package let controlBytes: Int
    package let messageBytes: Int
    /// The largest memory of any node at any minute, and the mean of all nodes at the end.
    package let peakByteCount: Int
    package let meanByteCount: Int
    package let took: Duration

    init(_ simulation: BundleSimulation, peakByteCount: Int, took: Duration) {
        scenario = simulation.scenario
        for course in simulation.courses {
            let yardstick = course.yardstick
            let deliverable = yardstick.deliverable
            func add(to kind: inout Kind) {
                kind.count += 1
                guard !deliverable.isEmpty else {
                    kind.lostCount += 1
                    kind.lostTransmissions += course.copyCount
                    return
                }
                kind.deliverable += deliverable.count
                kind.flooding += yardstick.floodCount
                kind.smallest += yardstick.smallestCount
                kind.transmissions += course.copyCount
                kind.acknowledgements += course.acknowledgementCount
                if course.acknowledgedAt != nil { kind.acknowledged += 1 }
                for node in deliverable {
                    kind.bestDelays.append(Double(yardstick.reachedAt[node]) - yardstick.created)
                    guard let at = course.deliveries[Int32(node)] else { continue }
                    kind.delivered += 1
                    kind.delays.append(at - yardstick.created)
                }
            }
            if yardstick.receiver == nil { add(to: &broadcasts) } else { add(to: &messages) }
        }
        let degrees = simulation.landscape.neighbours.map(\.count)
        meanDegree = Double(degrees.reduce(0, +)) / Double(degrees.count)
        encounters = simulation.encounterCount
        junk = simulation.junkCount
        reports = simulation.reportCount
        receipts = simulation.receiptCount
        controlBytes = simulation.controlByteCount
        messageBytes = simulation.messageByteCount
        self.peakByteCount = peakByteCount
        meanByteCount = simulation.routers.reduce(0) { $0 + $1.byteCount } / simulation.routers.count
        self.took = took
    }

    static func quantile(_ values: [Double], _ share: Double) -> Double {
        guard !values.isEmpty else { return .nan }
        return values.sorted()[min(values.count - 1, Int(share * Double(values.count)))]
    }
}
