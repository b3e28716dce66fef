/// The best possible delivery of one bundle, and the cost of plain flooding, on the same network with links without loss or
/// delay.
struct Yardstick {
    let source: Int
    /// Nil for everyone.
    let receiver: Int?
    let created: Double
    let expiry: Double
    let hopLimit: UInt16
    /// Fewest hops over which the bundle can have reached each node by now; ``never`` for none.
    private(set) var hops: [UInt16]
    private(set) var reachedAt: [Float]
    /// Transmissions of plain flooding: each node sends the bundle to all neighbours except the previous node, and to each new
    /// one.
    private(set) var floodCount = 0

    static let never = UInt16.max

    init(source: Int, receiver: Int?, created: Double, timeToLive: Double, hopLimit: Int, in neighbours: [[Int32]]) {
        self.source = source
        self.receiver = receiver
        self.created = created
        expiry = created + timeToLive
        self.hopLimit = UInt16(hopLimit)
        hops = Array(repeating: Self.never, count: neighbours.count)
        reachedAt = Array(repeating: .infinity, count: neighbours.count)
        hops[source] = 0
        reachedAt[source] = Float(created)
        floodCount = neighbours[source].count
        relax([Int32(source)], now: created, in: neighbours)
    }

    mutating func linkUp(_ a: Int, _ b: Int, now: Double, in neighbours: [[Int32]]) {
        guard now <= expiry else { return }
        let (first, second) = (hops[a], hops[b])
        guard first != Self.never || second != Self.never else { return }
        if first != Self.never { floodCount += 1 }
        if second != Self.never { floodCount += 1 }
        if first != Self.never, first &+ 1 < second {
            reach(b, over: first, now: now, in: neighbours)
        } else if second != Self.never, second &+ 1 < first {
            reach(a, over: second, now: now, in: neighbours)
        }
    }

    private mutating func reach(_ node: Int, over previous: UInt16, now: Double, in neighbours: [[Int32]]) {
        guard previous < hopLimit else { return }
        note(node, previous + 1, now, neighbours)
        relax([Int32(node)], now: now, in: neighbours)
    }

    private mutating func note(_ node: Int, _ count: UInt16, _ now: Double, _ neighbours: [[Int32]]) {
        if hops[node] == Self.never {
            reachedAt[node] = Float(now)
            floodCount += max(0, neighbours[node].count - 1)
        }
        hops[node] = count
    }

    private mutating func relax(_ from: [Int32], now: Double, in neighbours: [[Int32]]) {
        var front = from
        while !front.isEmpty {
            var next: [Int32] = []
            for node in front {
                let count = hops[Int(node)]
                guard count < hopLimit else { continue }
                for other in neighbours[Int(node)] where hops[Int(other)] > count + 1 {
                    note(Int(other), count + 1, now, neighbours)
                    next.append(other)
                }
            }
            front = next
        }
    }

    /// Nodes that the bundle can have reached.
    var deliverable: [Int] {
        if let receiver { return hops[receiver] == Self.never ? [] : [receiver] }
        return hops.indices.filter { $0 != source && hops[$0] != Self.never }
    }

    /// Fewest transmissions: along the shortest path to one destination; once to each node for everyone.
    var smallestCount: Int {
        guard let receiver else { return deliverable.count }
        return hops[receiver] == Self.never ? 0 : Int(hops[receiver])
    }
}
