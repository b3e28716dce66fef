import Glibc

/// The size of a message in bytes; messages go over loopback within one process.
let messageByteCount = 100
let oneWayCount = 200_000
let roundTripCount = 20_000

/// One way of sending messages between two ends.
protocol MessagingSystem {
    static var name: String { get }
    /// Runs both ends.
    /// - Returns: the cost of ``roundTripCount`` round trips, and of ``oneWayCount`` messages one way.
    static func run() async throws -> (roundTrips: Cost, oneWay: Cost)
}

/// The time that something took, in seconds.
struct Cost {
    var wall = 0.0
    /// Processor time of the whole process: both ends.
    var processor = 0.0
}

/// Measures the cost of what happens after its creation.
struct Stopwatch {
    private let wall = seconds()
    private let processor = seconds(CLOCK_PROCESS_CPUTIME_ID)

    /// The cost up to now.
    var cost: Cost { Cost(wall: seconds() - wall, processor: seconds(CLOCK_PROCESS_CPUTIME_ID) - processor) }
}

func seconds(_ clock: clockid_t = CLOCK_MONOTONIC) -> Double {
    var time = timespec()
    clock_gettime(clock, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func median(_ values: [Double]) -> Double {
    let sorted = values.sorted()
    return (sorted[(sorted.count - 1) / 2] + sorted[sorted.count / 2]) / 2
}

/// `session-benchmark FOLDER [ROUNDS [PART...]]` measures the parts in ``parts``: all of them unless some are named, for a look at
/// one with a profiler. FOLDER is for the files that it writes. ROUNDS, 5 unless given, is of all parts but forming and game, which
/// have a number of their own.
@main struct Benchmark {
    private static let parts = ["session", "nio", "zeromq", "mqtt", "stream", "resources", "forming", "game"]

    static func main() async throws {
        if CommandLine.arguments.count == 4, CommandLine.arguments[2] == Game.option {
            return try await Game.play(Int(CommandLine.arguments[3])!)
        }
        let rounds = CommandLine.arguments.dropFirst(2).first.map { Int($0) ?? 0 } ?? 5
        guard rounds > 0 else { fatalError("ROUNDS is a number from 1") }
        let named = CommandLine.arguments.dropFirst(3)
        for part in named where !parts.contains(part) { fatalError("no part is called \(part)") }
        let isWanted = { (part: String) in named.isEmpty || named.contains(part) }
        var systems: [any MessagingSystem.Type] = []
        if isWanted("session") { systems.append(SessionMessages.self) }
        if isWanted("nio") { systems.append(NIOMessages.self) }
        if isWanted("zeromq") { systems.append(ZeroMQMessages.self) }
        if isWanted("mqtt") { systems.append(MQTTMessages.self) }
        try await messages(rounds, systems)
        if isWanted("stream") { try await Streams.run(rounds: rounds) }
        if isWanted("resources") { try await Resources.run(rounds: rounds) }
        if isWanted("forming") { try await Forming.run() }
        if isWanted("game") { try Game.run() }
    }

    private static func messages(_ rounds: Int, _ systems: [any MessagingSystem.Type]) async throws {
        guard !systems.isEmpty else { return }
        var results: [String: [(roundTrips: Cost, oneWay: Cost)]] = [:]
        for round in 0...rounds {
            for system in systems {
                let result = try await system.run()
                // The first round only warms caches and connections up.
                guard round > 0 else { continue }
                results[system.name, default: []].append(result)
            }
        }
        print("### Messages of \(messageByteCount) bytes\n")
        print("| | round trips a second | CPU of each, both ends | messages a second, one way | CPU of each, both ends |")
        print("|---|---|---|---|---|")
        for system in systems {
            let figures = results[system.name]!
            print(
                "| \(system.name) | \(row(figures.map(\.roundTrips), roundTripCount)) | \(row(figures.map(\.oneWay), oneWayCount)) |"
            )
        }
        print("")
    }

    /// Medians of all rounds.
    private static func row(_ costs: [Cost], _ count: Int) -> String {
        let rate = Double(count) / median(costs.map(\.wall))
        let microseconds = median(costs.map(\.processor)) / Double(count) * 1e6
        return "\(Int(rate)) | \(rounded(microseconds)) µs"
    }
}
