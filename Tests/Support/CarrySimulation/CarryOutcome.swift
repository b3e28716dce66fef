/// How a simulation went, in numbers.
public struct CarryOutcome: Sendable {
    public struct Kind: Sendable {
        public var count = 0
        /// Pairs of message and receiver that could have been delivered in time, and those that were.
        public var deliverable = 0
        public var delivered = 0
        public var acknowledged = 0
        /// Seconds.
        public var delays: [Double] = []
        public var bestDelays: [Double] = []
        public var transmissions = 0
        public var acknowledgements = 0
        public var flooding = 0
        public var smallest = 0
        /// Messages that nobody could have been given in time, and what was spent on them; it is in none of the sums above.
        public var lostCount = 0
        public var lostTransmissions = 0

        public var ratio: Double { deliverable == 0 ? 1 : Double(delivered) / Double(deliverable) }

        public func delay(_ share: Double) -> Double { CarryOutcome.quantile(delays, share) }
        public func bestDelay(_ share: Double) -> Double { CarryOutcome.quantile(bestDelays, share) }
    }

    public let scenario: CarrySimulation.Scenario
    public var messages = Kind()
    public var broadcasts = Kind()
    public let meanDegree: Double
    public let encounters: Int
    public let reports: Int
    public let receipts: Int
    public let controlBytes: Int
    public let messageBytes: Int
    /// The most memory that any node took at any minute, and their mean at the end.
    public let peakByteCount: Int
    public let meanByteCount: Int
    public let took: Duration

    init(_ simulation: CarrySimulation, peakByteCount: Int, took: Duration) {
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
        reports = simulation.reportCount
        receipts = simulation.receiptCount
        controlBytes = simulation.controlByteCount
        messageBytes = simulation.messageByteCount
        self.peakByteCount = peakByteCount
        meanByteCount = simulation.carriers.reduce(0) { $0 + $1.byteCount } / simulation.carriers.count
        self.took = took
    }

    static func quantile(_ values: [Double], _ share: Double) -> Double {
        guard !values.isEmpty else { return .nan }
        return values.sorted()[min(values.count - 1, Int(share * Double(values.count)))]
    }
}
