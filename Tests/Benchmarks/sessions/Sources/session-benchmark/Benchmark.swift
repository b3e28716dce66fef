import Glibc

/// Messages of so many bytes, over loopback, within one process.
let messageByteCount = 100
let oneWayCount = 200_000
let roundTripCount = 20_000

/// One way of sending messages between two ends.
protocol Rival {
    static var name: String { get }
    /// Runs both ends, and tells seconds for ``roundTripCount`` round trips and for ``oneWayCount`` messages.
    static func run() async throws -> (roundTrips: Double, oneWay: Double)
}

func seconds() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

@main struct Benchmark {
    static func main() async throws {
        let rounds = CommandLine.arguments.dropFirst(2).first.flatMap { Int($0) } ?? 5
        try await messages(rounds)
        try await Streams.run(rounds: rounds)
        try await Resources.run(rounds: rounds)
    }

    private static func messages(_ rounds: Int) async throws {
        let rivals: [any Rival.Type] = [SessionMessages.self, NIOMessages.self, ZeroMQMessages.self]
        var results: [String: [(Double, Double)]] = [:]
        for round in 0...rounds {
            for rival in rivals {
                let (roundTrips, oneWay) = try await rival.run()
                // The first round warms everything up.
                guard round > 0 else { continue }
                results[rival.name, default: []].append((Double(roundTripCount) / roundTrips, Double(oneWayCount) / oneWay))
            }
        }
        print("### Messages of \(messageByteCount) bytes\n")
        print("| | round trips a second | messages a second, one way |")
        print("|---|---|---|")
        for rival in rivals {
            let figures = results[rival.name]!
            print("| \(rival.name) | \(Int(median(figures.map(\.0)))) | \(Int(median(figures.map(\.1)))) |")
        }
        print("")
    }
}
