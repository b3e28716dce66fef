import NearshareTesting

/// Positions and movement of nodes in a square. Nodes within a range of each other have a link.
package struct Landscape: Sendable {
    package enum Motion: Sendable {
        case fixed
        /// Random waypoint: to a random point at a random speed (metres a second), a pause there (seconds), to another.
        case waypoint(speed: ClosedRange<Float>, pause: ClosedRange<Float>)
    }

    private struct Walker {
        var toX: Float
        var toY: Float
        var speed: Float
        var waitUntil: Float
    }

    let count: Int
    let side: Float
    let range: Float
    let motion: Motion
    private var x: [Float]
    private var y: [Float]
    private var walkers: [Walker] = []
    private var random: SeededRandom
    /// The neighbours of each node, in ascending order.
    private(set) package var neighbours: [[Int32]]

    /// - Parameter degree: mean number of neighbours away from the edge, which determines the size of the square.
    package init(count: Int, degree: Double, range: Float = 50, motion: Motion, seed: UInt64) {
        self.count = count
        self.range = range
        self.motion = motion
        side = range * Float((Double.pi * Double(count) / degree).squareRoot())
        random = SeededRandom(seed: seed)
        (x, y) = ([], [])
        for _ in 0..<count {
            x.append(Float.random(in: 0..<side, using: &random))
            y.append(Float.random(in: 0..<side, using: &random))
        }
        neighbours = Array(repeating: [], count: count)
        if case .waypoint = motion {
            walkers = (0..<count).map { Walker(toX: x[$0], toY: y[$0], speed: 1, waitUntil: 0) }
            // A warm start: all nodes are moving.
            for index in 0..<count { aim(index, now: 0) }
        }
        neighbours = measured()
    }

    private mutating func aim(_ index: Int, now: Float) {
        guard case .waypoint(let speed, let pause) = motion else { return }
        walkers[index] = Walker(
            toX: Float.random(in: 0..<side, using: &random), toY: Float.random(in: 0..<side, using: &random),
            speed: Float.random(in: speed, using: &random),
            waitUntil: now + Float.random(in: pause, using: &random))
    }

    /// Moves all nodes by `step` seconds.
    /// - Returns: links that came up and links that went down, each once, the lower number first.
    public mutating func move(to now: Float, step: Float) -> (up: [(Int, Int)], down: [(Int, Int)]) {
        guard case .waypoint = motion else { return ([], []) }
        for index in 0..<count where walkers[index].waitUntil <= now {
            let (dx, dy) = (walkers[index].toX - x[index], walkers[index].toY - y[index])
            let distance = (dx * dx + dy * dy).squareRoot()
            let reach = walkers[index].speed * step
            if distance <= reach {
                (x[index], y[index]) = (walkers[index].toX, walkers[index].toY)
                aim(index, now: now)
            } else {
                x[index] += dx / distance * reach
                y[index] += dy / distance * reach
            }
        }
        let next = measured()
        var up: [(Int, Int)] = []
        var down: [(Int, Int)] = []
        for index in 0..<count {
            let (old, new) = (neighbours[index], next[index])
            var (i, j) = (0, 0)
            while i < old.count || j < new.count {
                if j == new.count || (i < old.count && old[i] < new[j]) {
                    if old[i] > index { down.append((index, Int(old[i]))) }
                    i += 1
                } else if i == old.count || new[j] < old[i] {
                    if new[j] > index { up.append((index, Int(new[j]))) }
                    j += 1
                } else {
                    i += 1
                    j += 1
                }
            }
        }
        neighbours = next
        return (up, down)
    }

    /// Pairs within range, found in a grid of cells of that width.
    private func measured() -> [[Int32]] {
        let cells = max(1, Int(side / range))
        let width = side / Float(cells)
        var grid = [[Int32]](repeating: [], count: cells * cells)
        func cell(_ value: Float) -> Int { min(cells - 1, Int(value / width)) }
        for index in 0..<count { grid[cell(y[index]) * cells + cell(x[index])].append(Int32(index)) }
        var result = [[Int32]](repeating: [], count: count)
        let limit = range * range
        for index in 0..<count {
            let (cx, cy) = (cell(x[index]), cell(y[index]))
            var found: [Int32] = []
            found.reserveCapacity(neighbours[index].count + 4)
            for row in max(0, cy - 1)...min(cells - 1, cy + 1) {
                for column in max(0, cx - 1)...min(cells - 1, cx + 1) {
                    for other in grid[row * cells + column] where other != index {
                        let (dx, dy) = (x[Int(other)] - x[index], y[Int(other)] - y[index])
                        if dx * dx + dy * dy <= limit { found.append(other) }
                    }
                }
            }
            found.sort()
            result[index] = found
        }
        return result
    }
}
