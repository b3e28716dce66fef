internal import NearshareBase

/// The reports to each neighbour: what was reported, and what is not confirmed yet.
struct ReportExchange: Sendable {
    private struct Neighbour {
        var unconfirmed: UnconfirmedReport?
        /// Generation of the summary vector in the last report; ``never`` before the first one.
        var summaryGeneration = Self.never

        static let never: Int32 = -1
    }

    /// The last report over a link that loses packets. The next report repeats what it contained.
    private struct UnconfirmedReport {
        let token: UInt64
        let hasSummary: Bool
        let hasReachability: Bool
        let attemptCount: UInt8
    }

    /// The purpose of a report.
    struct Request: Sendable, Hashable {
        /// Include the summary vector if the neighbour does not have the present one.
        var hasSummary: Bool
        /// An answer to a summary vector: the present one is included in any case.
        var isAnswer = false
        /// Earlier reports that this one repeats.
        var attemptCount: UInt8 = 0

        static let position = Self(hasSummary: false)
        static let positionAndSummary = Self(hasSummary: true)
        static let answer = Self(hasSummary: true, isAnswer: true)
    }

    private var neighbours: [EndpointID: Neighbour] = [:]
    /// The last summary vector, and the generation of the bundles that it lists.
    private var summary: (generation: Int, vector: SummaryVector, built: MonotonicInstant)?
    private var summaryCount = 0

    mutating func addNeighbour(_ id: EndpointID) {
        neighbours[id] = Neighbour()
    }

    mutating func removeNeighbour(_ id: EndpointID) {
        neighbours[id] = nil
    }

    /// Bytes on the heap.
    var byteCount: Int { neighbours.tableByteCount + (summary?.vector.filter.bytes.count ?? 0) }

    /// Whether bundles have been listed since a neighbour was sent the last summary vector.
    func isSummaryDue(to id: EndpointID, seen: SeenBundles) -> Bool {
        neighbours[id].map { $0.summaryGeneration != Self.generation(of: seen) } ?? false
    }

    /// Builds a report with all changes since the last one to the same neighbour.
    /// - Parameters:
    ///   - random: for the token, and for the salt of a summary vector.
    /// - Returns: the effects that send the report and repeat it until it is confirmed.
    mutating func report(
        _ request: Request, to id: EndpointID, tree: inout SpanningTree, seen: SeenBundles,
        now: MonotonicInstant, random: inout some RandomNumberGenerator
    ) -> [RouterEffect] {
        guard let index = neighbours.index(forKey: id) else { return [] }
        let unconfirmed = neighbours.values[index].unconfirmed
        var report = SpanningTreeReport(
            position: tree.position, isToParent: tree.parent == id, isAnswer: request.isAnswer)
        let generation = Self.generation(of: seen)
        let isOutdated = request.isAnswer || neighbours.values[index].summaryGeneration != generation
        if unconfirmed?.hasSummary == true || (request.hasSummary && isOutdated) {
            neighbours.values[index].summaryGeneration = generation
            report.summary = currentSummary(of: seen, now: now, random: &random)
        }
        if unconfirmed?.hasReachability == true { tree.forgetReportedReachability(by: id) }
        report.reachability = tree.reachabilityUpdate(for: id)
        let token = random.next()
        report.token = token
        neighbours.values[index].unconfirmed = UnconfirmedReport(
            token: token, hasSummary: report.summary != nil, hasReachability: report.reachability != nil,
            attemptCount: request.attemptCount)
        let delay = JitteredDelay(Self.retransmissionDelay * Double(1 << request.attemptCount), by: 1...1.2)
        return [
            .start(.reportRetransmission(to: id, token: token), delay), .react(.send(.report(report), to: id)),
        ]
    }

    /// - Returns: the request that repeats a report; nil when it was confirmed, replaced, or repeated often enough.
    func retransmission(of token: UInt64, to id: EndpointID) -> Request? {
        guard let report = neighbours[id]?.unconfirmed, report.token == token,
            report.attemptCount < Self.maximumAttemptCount
        else { return nil }
        return Request(hasSummary: report.hasSummary, attemptCount: report.attemptCount + 1)
    }

    /// Records that the neighbour has received the report with this token.
    mutating func confirm(_ token: UInt64, by id: EndpointID) {
        guard let index = neighbours.index(forKey: id), neighbours.values[index].unconfirmed?.token == token else { return }
        neighbours.values[index].unconfirmed = nil
    }

    /// The bundles in one vector; of more than fit, each vector lists another share. Building one costs as much as there are
    /// bundles, so neighbours that ask in quick succession get the same.
    private mutating func currentSummary(
        of seen: SeenBundles, now: MonotonicInstant, random: inout some RandomNumberGenerator
    ) -> SummaryVector {
        if let summary, summary.generation == seen.generation,
            summary.vector.shareCount == 1 || now - summary.built < Self.summaryInterval
        {
            return summary.vector
        }
        summaryCount += 1
        let vector = SummaryVector(
            of: seen.epidemic, turn: summaryCount, salt: UInt32(truncatingIfNeeded: random.next()))
        summary = (seen.generation, vector, now)
        return vector
    }

    /// Truncated to 31 bits: it is incremented by one at a time, and only compared with the last one.
    private static func generation(of seen: SeenBundles) -> Int32 { Int32(truncatingIfNeeded: seen.generation & 0x7fff_ffff) }

    private static let summaryInterval = Duration.milliseconds(250)
    private static let retransmissionDelay = Duration.milliseconds(600)
    private static let maximumAttemptCount: UInt8 = 4
}
