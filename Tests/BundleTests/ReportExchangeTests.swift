import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareBundles

@Suite("report exchange")
struct ReportExchangeTests {
    private let neighbour = RouterFixtures.endpoint(1)

    private struct Bench {
        var exchange = ReportExchange()
        var tree = SpanningTree(
            local: RouterFixtures.local, epochInterval: .seconds(60), now: RouterFixtures.moment(0))
        var seen = SeenBundles(capacity: 1_000)
        var random = SeededRandom(seed: 1)

        init(_ neighbour: EndpointID) {
            _ = tree.addNeighbour(neighbour, isRadio: false, now: RouterFixtures.moment(0))
            exchange.addNeighbour(neighbour)
        }

        mutating func report(
            _ request: ReportExchange.Request, to id: EndpointID, at milliseconds: Int64 = 0
        ) -> SpanningTreeReport? {
            let effects = exchange.report(
                request, to: id, tree: &tree, seen: seen,
                now: RouterFixtures.moment(0).monotonic + .milliseconds(milliseconds), random: &random)
            return effects.packets.compactMap { if case .report(let report) = $0 { report } else { nil } }.first
        }

        /// A report that the neighbour confirms at once.
        mutating func confirmedReport(
            _ request: ReportExchange.Request, to id: EndpointID
        ) -> SpanningTreeReport? {
            let report = report(request, to: id)
            if let token = report?.token { exchange.confirm(token, by: id) }
            return report
        }

        mutating func spread(_ number: Int) {
            let (high, low) = (UInt8(number / 256 + 1), UInt8(truncatingIfNeeded: number))
            let id = RouterFixtures.stored(low, from: high, to: .everyone).id
            seen.insert(id, expiry: RouterFixtures.moment(100).wall, from: nil) { _ in false }
            seen.markEpidemic(id)
        }
    }

    @Test("the first report has the summary vector and the reachability filter, the next one only changes")
    func changes() {
        var bench = Bench(neighbour)
        let first = bench.confirmedReport(.positionAndSummary, to: neighbour)
        #expect(first?.summary != nil && first?.reachability != nil)
        let second = bench.confirmedReport(.positionAndSummary, to: neighbour)
        #expect(second?.summary == nil && second?.reachability == nil)
        bench.spread(1)
        #expect(bench.exchange.isSummaryDue(to: neighbour, seen: bench.seen))
        #expect(bench.confirmedReport(.position, to: neighbour)?.summary == nil)
        #expect(bench.confirmedReport(.positionAndSummary, to: neighbour)?.summary != nil)
        #expect(!bench.exchange.isSummaryDue(to: neighbour, seen: bench.seen))
    }

    @Test("an answer always has the summary vector")
    func answer() {
        var bench = Bench(neighbour)
        _ = bench.report(.positionAndSummary, to: neighbour)
        let answer = bench.report(.answer, to: neighbour)
        #expect(answer?.summary != nil && answer?.isAnswer == true)
    }

    @Test("what a lost report contained is in the next one; a confirmed report is not repeated")
    func losses() throws {
        var bench = Bench(neighbour)
        let lost = bench.report(.positionAndSummary, to: neighbour)
        let first = try #require(lost)
        let token = try #require(first.token)
        let request = try #require(bench.exchange.retransmission(of: token, to: neighbour))
        #expect(request.hasSummary && request.attemptCount == 1)
        let repeated = bench.report(request, to: neighbour)
        let second = try #require(repeated)
        #expect(second.summary != nil && second.reachability == first.reachability && second.token != token)
        #expect(bench.exchange.retransmission(of: token, to: neighbour) == nil)
        let newest = try #require(second.token)
        bench.exchange.confirm(newest, by: neighbour)
        #expect(bench.exchange.retransmission(of: newest, to: neighbour) == nil)
        #expect(bench.report(.position, to: neighbour)?.reachability == nil)
    }

    @Test("B9: of more bundles than fit into a vector, a neighbour that asks in quick succession gets the same share")
    func shares() throws {
        var bench = Bench(neighbour)
        for number in 0..<(SummaryVector.idsInShare + 1) { bench.spread(number) }
        func share(at milliseconds: Int64) throws -> UInt8 {
            let report = bench.report(.answer, to: neighbour, at: milliseconds)
            let summary = try #require(report?.summary)
            #expect(summary.shareCount == 2)
            return summary.share
        }
        let first = try share(at: 0)
        for milliseconds in 1..<250 as Range<Int64> { #expect(try share(at: milliseconds) == first) }
        #expect(try share(at: 250) != first)
        #expect(try share(at: 500) == first)
    }

    @Test("B9: a report is repeated four times at most")
    func attempts() throws {
        var bench = Bench(neighbour)
        var request: ReportExchange.Request? = .positionAndSummary
        var count = 0
        while let next = request {
            let report = bench.report(next, to: neighbour)
            let token = try #require(report?.token)
            request = bench.exchange.retransmission(of: token, to: neighbour)
            count += 1
        }
        #expect(count == 5)
    }
}
