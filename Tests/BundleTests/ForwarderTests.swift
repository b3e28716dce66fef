import NearshareBase
import Testing

@testable import NearshareBundles

@Suite("forwarder")
struct ForwarderTests {
    /// A forwarder with its index and tree, and neighbours 1, 2, … over links that lose packets.
    private struct Bench {
        var forwarder = Forwarder(settings: BundleRouterSettings())
        var index = BundleIndex(local: RouterFixtures.local, quota: BundleQuota(), salt: 0)
        var tree = SpanningTree(
            local: RouterFixtures.local, epochInterval: .seconds(60), now: RouterFixtures.moment(0))

        init(neighbours: ClosedRange<UInt64>, isRadio: Bool = false) {
            for number in neighbours {
                let id = RouterFixtures.endpoint(number)
                _ = tree.addNeighbour(id, isRadio: isRadio, now: RouterFixtures.moment(0))
                forwarder.addNeighbour(
                    id, link: BundleLink(isRadio: isRadio), epidemicByteCount: 0, now: RouterFixtures.moment(0))
            }
        }

        mutating func insert(_ stored: StoredBundle) -> BundleID {
            index.insert(stored)
            return stored.id
        }

        mutating func start(_ id: BundleID, at seconds: Double = 0) -> [RouterEffect] {
            forwarder.start(id, index: &index, tree: tree, now: RouterFixtures.moment(seconds))
        }

        mutating func retransmit(_ id: BundleID, after count: UInt8, to neighbour: EndpointID, at seconds: Double)
            -> [RouterEffect]
        {
            forwarder.retransmit(
                id, to: neighbour, after: count, index: &index, tree: tree, now: RouterFixtures.moment(seconds))
        }

        mutating func timeOut(_ id: BundleID, at seconds: Double) -> [RouterEffect] {
            forwarder.acknowledgementTimedOut(id, index: &index, tree: tree, now: RouterFixtures.moment(seconds))
        }
    }

    private let one = RouterFixtures.endpoint(1)
    private let two = RouterFixtures.endpoint(2)
    private let absent = RouterFixtures.endpoint(50)

    @Test("a destination in range gets the bundle, which is sent again until it is confirmed")
    func direct() {
        var bench = Bench(neighbours: 1...2)
        let id = bench.insert(RouterFixtures.stored(1, to: .endpoint(two)))
        let effects = bench.start(id)
        #expect(effects.forwardedTo == [two])
        #expect(effects.timers == [.retransmission(id, to: two, after: 1), .acknowledgementTimeout(id)])
        #expect(bench.index[id]?.state == .routed(to: two))
        let again = bench.forwarder.retransmit(
            id, to: two, after: 1, index: &bench.index, tree: bench.tree, now: RouterFixtures.moment(0.5))
        #expect(again.forwardedTo == [two])
        let confirmed = bench.forwarder.receiveReceipt(
            id.short, from: two, index: &bench.index, now: RouterFixtures.moment(0.6))
        #expect(confirmed.events == [.sent(id)])
        let late = bench.forwarder.retransmit(
            id, to: two, after: 2, index: &bench.index, tree: bench.tree, now: RouterFixtures.moment(1))
        #expect(late.isEmpty)
    }

    @Test func `copies for one destination are repeated in the order of their creation, whichever timer is due first`() {
        var bench = Bench(neighbours: 1...1)
        let ids = (0..<3).map { number in
            bench.insert(RouterFixtures.stored(UInt8(number), to: .endpoint(one), created: Double(number)))
        }
        let other = bench.insert(RouterFixtures.stored(4, from: 2, to: .endpoint(one), created: 0))
        for id in ids + [other] { _ = bench.start(id, at: 10) }
        let first = bench.retransmit(ids[2], after: 1, to: one, at: 10.5)
        #expect(first.forwardedIDs == ids)
        #expect(first.timers == ids.map { .retransmission($0, to: one, after: 2) })
        for id in ids.prefix(2) { #expect(bench.retransmit(id, after: 1, to: one, at: 10.6).isEmpty, "its timer is replaced") }
        #expect(bench.retransmit(other, after: 1, to: one, at: 10.6).forwardedIDs == [other])
        #expect(bench.retransmit(ids[1], after: 2, to: one, at: 11.5).forwardedIDs == [ids[0], ids[1]])
        // One that was repeated more often does not go with it.
        #expect(bench.retransmit(ids[2], after: 2, to: one, at: 11.6).forwardedIDs == [ids[2]])
    }

    @Test func `bundles for a neighbour that is tried again go in the order of their creation`() {
        var bench = Bench(neighbours: 1...1)
        let ids = (0..<3).map { number in
            bench.insert(RouterFixtures.stored(UInt8(number), to: .endpoint(one), created: Double(number)))
        }
        let resent = bench.forwarder.resend(ids[1], to: one, index: &bench.index, now: RouterFixtures.moment(40))
        #expect(resent.forwardedIDs == [ids[0], ids[1]])
        #expect(bench.forwarder.resend(ids[0], to: one, index: &bench.index, now: RouterFixtures.moment(41)).isEmpty)
    }

    @Test("a reverse route is preferred to the tree, and a missing acknowledgement starts epidemic forwarding")
    func reverseRoute() {
        var bench = Bench(neighbours: 1...2)
        bench.forwarder.recordRoute(to: absent, through: two, hopCount: 3, now: RouterFixtures.moment(0))
        let id = bench.insert(RouterFixtures.stored(1, to: .endpoint(absent), previousNode: one))
        #expect(bench.start(id).forwardedTo == [two])
        _ = bench.timeOut(id, at: 30)
        #expect(bench.index[id]?.state == .epidemic)
        #expect(bench.index.seen.epidemic == [id])
    }

    @Test("where nodes do not move the sender tries a second time before it starts epidemic forwarding")
    func secondAttempt() {
        var bench = Bench(neighbours: 1...1)
        bench.forwarder.recordRoute(to: absent, through: one, hopCount: 3, now: RouterFixtures.moment(0))
        let id = bench.insert(RouterFixtures.stored(1, to: .endpoint(absent)))
        _ = bench.start(id, at: 1_000)
        // The only neighbour has it already, so the bundle waits for the last attempt.
        _ = bench.timeOut(id, at: 1_030)
        #expect(bench.index[id]?.isSecondAttempt == true)
        _ = bench.timeOut(id, at: 1_060)
        #expect(bench.index[id]?.state == .epidemic)
    }

    @Test("a copy stays within the hop limit and the maximum propagation")
    func limits() throws {
        var bench = Bench(neighbours: 1...2)
        let profile = try PropagationProfile(
            hopLimit: 2, timeToLiveSeconds: 1_000, sharingTimeMilliseconds: 1_000, maximumPropagation: 1, tracklistLimit: 10)
        let id = bench.insert(RouterFixtures.stored(1, to: .everyone, previousNode: absent, profile: profile))
        // The tree is empty: the first neighbour is the nearest to a root.
        #expect(bench.start(id).forwardedTo == [one])
        let toTwo = bench.forwarder.forward(id, to: two, index: &bench.index, now: RouterFixtures.moment(1))
        #expect(!toTwo.isForwarded)
        let used = bench.insert(RouterFixtures.stored(2, to: .everyone, previousNode: absent, profile: profile, hopCount: 2))
        #expect(bench.start(used).forwardedTo == [])
    }

    @Test("B4: the list of visited nodes withholds a routed copy, and nothing under epidemic forwarding")
    func visitedNodes() {
        var bench = Bench(neighbours: 1...1)
        bench.forwarder.recordRoute(to: absent, through: one, hopCount: 3, now: RouterFixtures.moment(0))
        let fresh = bench.insert(RouterFixtures.stored(1, to: .endpoint(absent)))
        #expect(bench.start(fresh).modes == [.routed])
        var visited = RouterFixtures.stored(2, to: .endpoint(absent))
        visited.copy.visitedTags = [one.visitTag(in: visited.id)]
        // The route is not taken, and the tree is not stable yet.
        #expect(bench.start(bench.insert(visited)).modes == [.epidemic])
    }

    @Test("a large body is not sent over radio")
    func radio() {
        var bench = Bench(neighbours: 1...1, isRadio: true)
        let large = bench.insert(RouterFixtures.stored(1, to: .endpoint(one), bodyByteCount: 1_217))
        #expect(bench.start(large).forwardedTo == [])
        let small = bench.insert(RouterFixtures.stored(2, to: .endpoint(one), bodyByteCount: 1_216))
        #expect(bench.start(small).forwardedTo == [one])
    }

    @Test("receipts are collected for a short time, and sent at once when they fill a packet")
    func receipts() {
        var bench = Bench(neighbours: 1...1)
        #expect(bench.forwarder.confirm(1, to: one).timers == [.receipts(to: one)])
        #expect(bench.forwarder.confirm(2, to: one).isEmpty)
        #expect(bench.forwarder.sendReceipts(to: one).packets == [.receipt([1, 2])])
        #expect(bench.forwarder.sendReceipts(to: one).isEmpty)
        for number in 0..<63 as Range<UInt64> { _ = bench.forwarder.confirm(number, to: one) }
        #expect(bench.forwarder.confirm(63, to: one).packets == [.receipt(Array(0..<64))])
    }

    @Test("what a summary vector lacks is forwarded at a limited rate, for as long as the sharing time")
    func pacing() {
        var bench = Bench(neighbours: 1...1, isRadio: true)
        var ids: [BundleID] = []
        for number in 0..<10 {
            let id = bench.insert(
                RouterFixtures.stored(UInt8(number), to: .everyone, created: Double(number), bodyByteCount: 800))
            bench.index.startEpidemic(id)
            ids.append(id)
        }
        let (missing, hasUnseen) = bench.forwarder.compare(
            SummaryVector(of: [ids[0]], turn: 1, salt: 7), of: one, index: bench.index)
        #expect(missing == Array(ids[1...]) && !hasUnseen)
        let first = bench.forwarder.replaceQueue(of: one, with: missing, index: &bench.index, now: RouterFixtures.moment(20))
        #expect(first.forwardedTo.count == 2 && first.timers.contains(.pacing(one)))
        let second = bench.forwarder.sendQueued(to: one, index: &bench.index, now: RouterFixtures.moment(20.25))
        #expect(second.forwardedTo.count == 2)
        #expect(bench.forwarder.sendQueued(to: one, index: &bench.index, now: RouterFixtures.moment(40)).isEmpty)
        #expect(bench.forwarder.sendQueued(to: one, index: &bench.index, now: RouterFixtures.moment(20.5)).isEmpty)
    }

    @Test("B9: the table of reverse routes is bounded, and a longer path replaces only an old route")
    func routes() {
        var routes = ReverseRoutes()
        for number in 0..<200 {
            routes.record(
                source: RouterFixtures.endpoint(UInt64(number)), through: one, hopCount: 2,
                now: RouterFixtures.moment(Double(number))
            ) { _ in true }
        }
        #expect(routes.count == 128 && routes.nextHop(to: RouterFixtures.endpoint(0)) == nil)
        let last = RouterFixtures.endpoint(199)
        routes.record(source: last, through: two, hopCount: 3, now: RouterFixtures.moment(200)) { _ in true }
        #expect(routes.nextHop(to: last) == one)
        routes.record(source: last, through: two, hopCount: 3, now: RouterFixtures.moment(320)) { _ in true }
        #expect(routes.nextHop(to: last) == two)
        routes.removeExpired(now: RouterFixtures.moment(1_221))
        #expect(routes.count == 0)
    }
}
