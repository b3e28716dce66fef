import NearshareBase
import NearshareTesting
import Testing

@testable import NearshareBundles

@Suite("spanning tree")
struct SpanningTreeTests {
    private let root = RouterFixtures.endpoint(1)
    private let near = RouterFixtures.endpoint(200)
    private let far = RouterFixtures.endpoint(300)

    private func moment(_ seconds: Double) -> Moment { RouterFixtures.moment(seconds) }

    private func tree(neighbours: EndpointID...) -> SpanningTree {
        var tree = SpanningTree(local: RouterFixtures.local, epochInterval: .seconds(60), now: moment(0))
        for neighbour in neighbours { _ = tree.addNeighbour(neighbour, isRadio: false, now: moment(0)) }
        return tree
    }

    private func report(
        epoch: UInt32 = 1, distance: UInt16, isToParent: Bool = false, reaches: [EndpointID]? = nil
    ) -> SpanningTreeReport {
        SpanningTreeReport(
            position: TreePosition(root: root, epoch: epoch, distance: distance), isToParent: isToParent,
            reachability: reaches.flatMap { ReachabilityFilter(tags: $0.map { ReachabilityFilter.tag(of: $0) }) })
    }

    @Test("a node without neighbours is its own root; the first neighbour starts the epoch timer, once")
    func start() {
        var tree = tree()
        #expect(tree.isRoot && tree.parent == nil)
        let reactions = tree.addNeighbour(near, isRadio: false, now: moment(0))
        guard case .start(.epochEnd, _)? = reactions.first else { return #expect(Bool(false)) }
        #expect(tree.addNeighbour(far, isRadio: false, now: moment(0)).isEmpty)
    }

    @Test("the root increments its epoch and reports to all")
    func rootEpoch() {
        var tree = tree(neighbours: near)
        let reactions = tree.endEpoch(now: moment(60))
        #expect(tree.position.epoch == 1 && reactions.first == .reportToAll)
    }

    @Test("a lower root is selected after a delay; the neighbour nearest to it becomes the parent")
    func selection() {
        var tree = tree(neighbours: near, far)
        let reactions = tree.receive(report(distance: 2), from: far, now: moment(1))
        guard case .start(.parentSelection, _)? = reactions.first else { return #expect(Bool(false)) }
        #expect(tree.receive(report(distance: 1), from: near, now: moment(1)).isEmpty)
        #expect(tree.isRoot)
        #expect(tree.selectParent(now: moment(1.4)) == [.reportToAll])
        #expect(tree.parent == near)
        #expect(tree.position == TreePosition(root: root, epoch: 1, distance: 2))
    }

    @Test("a selection waits for the present parent, and keeps it where it is as near as others")
    func stability() {
        var tree = tree(neighbours: near, far)
        _ = tree.receive(report(distance: 1), from: far, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        #expect(tree.parent == far)
        _ = tree.receive(report(epoch: 2, distance: 1), from: near, now: moment(60))
        let waiting = tree.selectParent(now: moment(61))
        #expect(waiting == [.start(.parentSelection, JitteredDelay(.milliseconds(200)))])
        _ = tree.receive(report(epoch: 2, distance: 1), from: far, now: moment(62))
        #expect(tree.selectParent(now: moment(62)) == [.reportToAll])
        #expect(tree.parent == far && tree.position.epoch == 2)
    }

    @Test("a lost parent is replaced by a neighbour nearer to the root; without one the node is detached until the next epoch")
    func lostParent() {
        var tree = tree(neighbours: near, far)
        _ = tree.receive(report(distance: 0), from: near, now: moment(0))
        _ = tree.receive(report(distance: 0), from: far, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        #expect(tree.parent == near)
        let reactions = tree.removeNeighbour(near, now: moment(2))
        #expect(tree.parent == far && reactions.first == .report(to: far))
        _ = tree.removeNeighbour(far, now: moment(3))
        #expect(tree.parent == nil && tree.position.isDetached)
        // A neighbour at the same distance may be below this node: no parent until the next epoch.
        _ = tree.addNeighbour(near, isRadio: false, now: moment(4))
        _ = tree.receive(report(distance: 1), from: near, now: moment(4))
        _ = tree.selectParent(now: moment(5))
        #expect(tree.parent == nil)
        _ = tree.receive(report(epoch: 2, distance: 1), from: near, now: moment(60))
        _ = tree.selectParent(now: moment(61))
        #expect(tree.parent == near)
    }

    @Test("B1: a neighbour that is parent and claims to be a child can leave at any moment")
    func parentAndChild() {
        var tree = tree(neighbours: near)
        _ = tree.receive(report(distance: 0), from: near, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        _ = tree.receive(report(distance: 0, isToParent: true), from: near, now: moment(2))
        _ = tree.reachabilityReportDue(now: moment(4))
        _ = tree.removeNeighbour(near, now: moment(5))
        #expect(tree.parent == nil && tree.neighbours.isEmpty)
    }

    @Test("B9: epochs that are made up faster than a root begins them are not followed")
    func earlyEpochs() {
        var tree = tree(neighbours: near)
        _ = tree.receive(report(epoch: 1, distance: 0), from: near, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        var count = 0
        for epoch in 2...100 as ClosedRange<UInt32> {
            _ = tree.receive(report(epoch: epoch, distance: 0), from: near, now: moment(Double(epoch)))
            if tree.selectParent(now: moment(Double(epoch) + 0.5)).contains(.reportToAll) { count += 1 }
        }
        // The first one may be early; then four a minute.
        #expect(tree.position.epoch >= 80 && tree.parent == near)
        #expect((4...8).contains(count), "\(count)")
    }

    @Test("B9: claims of ever lower roots lead to a limited rate of selections")
    func lowerRoots() {
        var tree = tree(neighbours: near)
        var (time, count) = (0.0, 0)
        var due: Double?
        for root in (1...2_000 as ClosedRange<UInt64>).reversed() {
            time += 0.5
            let lie = SpanningTreeReport(
                position: TreePosition(root: EndpointID(rawValue: root), epoch: 1, distance: 0), isToParent: false)
            for case .start(.parentSelection, let delay) in tree.receive(lie, from: near, now: moment(time)) {
                var random = SeededRandom(seed: root)
                due = time + (delay.end(from: moment(time).monotonic, using: &random) - moment(time).monotonic) / .seconds(1)
            }
            guard let at = due, at <= time else { continue }
            due = nil
            if tree.selectParent(now: moment(time)).contains(.reportToAll) { count += 1 }
        }
        // A thousand seconds.
        #expect(count > 20 && count < 250, "\(count)")
    }

    @Test("a root that stops incrementing the epoch is not believed until it does")
    func silentRoot() {
        var tree = tree(neighbours: near)
        _ = tree.receive(report(distance: 0), from: near, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        _ = tree.endEpoch(now: moment(100))
        #expect(!tree.isRoot)
        _ = tree.endEpoch(now: moment(152))
        #expect(tree.isRoot && tree.silentRootCount == 1)
        _ = tree.receive(report(distance: 0), from: near, now: moment(160))
        _ = tree.selectParent(now: moment(180))
        #expect(tree.isRoot)
        _ = tree.receive(report(epoch: 2, distance: 0), from: near, now: moment(200))
        _ = tree.selectParent(now: moment(201))
        #expect(tree.parent == near)
    }

    @Test("B9: a neighbour that invents one root after the other, none of which increments the epoch, fills a bounded table")
    func manySilentRoots() {
        var tree = tree(neighbours: near)
        var largest = 0
        for number in 0..<40 {
            let time = 1_000 * Double(number)
            let position = TreePosition(root: EndpointID(rawValue: UInt64(1 + number)), epoch: 1, distance: 0)
            _ = tree.receive(SpanningTreeReport(position: position, isToParent: false), from: near, now: moment(time))
            _ = tree.selectParent(now: moment(time + 1))
            #expect(tree.parent == near, "\(number)")
            for passed in 1...5 { _ = tree.endEpoch(now: moment(time + 100 * Double(passed))) }
            #expect(tree.isRoot, "\(number)")
            largest = max(largest, tree.silentRootCount)
        }
        #expect(largest == 16)
    }

    @Test("a destination below a child is routed to the child with the smallest filter, any other to the parent")
    func nextHop() {
        let (destination, other) = (RouterFixtures.endpoint(5_000), RouterFixtures.endpoint(6_000))
        var tree = tree(neighbours: root, near, far)
        _ = tree.receive(report(distance: 0), from: root, now: moment(0))
        _ = tree.selectParent(now: moment(1))
        _ = tree.receive(report(distance: 2, isToParent: true, reaches: [far, destination, other]), from: far, now: moment(2))
        _ = tree.receive(report(distance: 2, isToParent: true, reaches: [destination]), from: near, now: moment(2))
        #expect(tree.nextHop(to: destination, excluding: []) == near)
        #expect(tree.nextHop(to: destination, excluding: [near]) == far)
        #expect(tree.nextHop(to: RouterFixtures.endpoint(7_000), excluding: []) == root)
        #expect(tree.nextHop(to: RouterFixtures.endpoint(7_000), excluding: [root]) == nil)
        #expect(tree.broadcastNeighbours == [root, near, far])
    }

    @Test("reachability is merged from children, reported once to each neighbour, and again after a loss")
    func reachability() throws {
        var tree = tree(neighbours: near, far)
        let own = tree.reachabilityUpdate(for: near)
        let first = try #require(own)
        #expect(first.tags == [ReachabilityFilter.tag(of: RouterFixtures.local)])
        #expect(tree.reachabilityUpdate(for: near) == nil)
        _ = tree.receive(report(distance: 2, isToParent: true, reaches: [far]), from: far, now: moment(1))
        let merged = tree.reachabilityUpdate(for: near)
        let second = try #require(merged)
        #expect(second.contains(ReachabilityFilter.tag(of: far)))
        #expect(tree.reachabilityUpdate(for: near) == nil)
        tree.forgetReportedReachability(by: near)
        #expect(tree.reachabilityUpdate(for: near) == second)
    }

    @Test("M13: a neighbour that claims a lower root and names this node its parent leaves no trace when it leaves")
    func lyingParent() {
        for others in 0...1 {
            var tree = others == 0 ? tree(neighbours: near) : tree(neighbours: near, far)
            if others == 1 { _ = tree.receive(report(distance: 3), from: far, now: moment(0)) }
            // A lower root, and this node is the parent: each is the other's.
            _ = tree.receive(report(distance: 1, isToParent: true, reaches: [near, far]), from: near, now: moment(1))
            _ = tree.selectParent(now: moment(1.4))
            #expect(tree.parent == near)
            _ = tree.removeNeighbour(near, now: moment(2))
            #expect(tree.neighbours[near] == nil && tree.parent != near)
            _ = tree.reachabilityReportDue(now: moment(4))
            _ = tree.endEpoch(now: moment(200))
            #expect(others == 0 || tree.isRoot || tree.parent == far)
        }
    }
}
