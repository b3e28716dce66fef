import Glibc
import Nearshare

/// A game of sixteen processes: each sends its state 60 times a second to all others, as unreliable messages.
enum Game {
    static let option = "--player"
    private static let count = 16
    private static let duration = 10
    private static let rate = 60

    // MARK: The whole

    static func run() throws {
        let folder = "\(directory)/game"
        mkdir(folder, 0o700)
        let before = childTime()
        let players = (0..<count).map {
            Command([CommandLine.arguments[0], directory, option, "\($0)"], output: "\(folder)/log")
        }
        let succeeded = players.map { $0.wait() }
        precondition(!succeeded.contains(false), "a player has failed; see \(folder)/log")
        var latencies: [UInt32] = []
        for number in 0..<count { latencies += read("\(folder)/latencies-\(number)") }
        let expected = count * (count - 1) * rate * duration
        latencies.sort()
        print("### A game loop: \(count) processes, \(rate) messages of \(messageByteCount) bytes a second to each other\n")
        print("| sent | lost | median | 99 % | the slowest | CPU of all, of one processor |")
        print("|---|---|---|---|---|---|")
        func time(_ share: Double) -> String {
            latencies.isEmpty ? "–" : "\(rounded(Double(latencies[Int(Double(latencies.count - 1) * share)]) / 1000)) ms"
        }
        let processor = (childTime() - before) / Double(duration) * 100
        print(
            "| \(expected) | \(expected - latencies.count) | \(time(0.5)) | \(time(0.99)) | \(time(1)) "
                + "| \(Int(processor)) %, with the start |\n")
    }

    private static func childTime() -> Double {
        var usage = rusage()
        getrusage(__rusage_who_t(RUSAGE_CHILDREN.rawValue), &usage)
        return Double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
            + Double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6
    }

    // MARK: One player

    static func play(_ number: Int) async throws {
        let folder = "\(directory)/game"
        var limits = NodeLimits()
        limits.linksPerAddress = count * 2
        var settings = SessionSettings()
        settings.trust = .anyKey
        settings.memberLimit = count
        settings.topology = .mesh
        try await LocalMachine(identity: .ephemeral, environment: ["HOME": folder]).run(
            as: DisplayName(truncating: "player \(number)"), interface: "lo", findsOthers: false, limits: limits
        ) { [settings] node in
            let listener = try node.listen()
            let session: Session
            if number == 0 {
                session = try node.startSession(settings)
                for other in 1..<count {
                    let port = UInt16(try await wait { read("\(folder)/port-\(other)").first })
                    _ = try await session.invite(
                        PeerDestination(addresses: [(host: "127.0.0.1", port: port)]))
                }
            } else {
                write([UInt32(listener.port)], to: "\(folder)/port-\(number)")
                session = try await listener.sessionInvitations.first { _ in true }!.accept(settings)
            }
            _ = try await wait { Forming.isFormed(session, of: count) ? true : nil }
            write([1], to: "\(folder)/ready-\(number)")
            for other in 0..<count { _ = try await wait { read("\(folder)/ready-\(other)").first } }
            let latencies = try await exchange(in: session)
            write(latencies, to: "\(folder)/latencies-\(number)")
            // No other player is cut off while it waits for its last messages.
            for other in 0..<count { _ = try await wait { read("\(folder)/latencies-\(other)").first } }
            await session.leave(waiting: .zero)
        }
    }

    private static func exchange(in session: Session) async throws -> [UInt32] {
        async let sent: Void = {
            let start = ContinuousClock.now
            for tick in 1...rate * duration {
                try await Task.sleep(until: start + .seconds(1) / rate * tick, clock: .continuous)
                let now = UInt64(seconds() * 1e6)
                let bytes = (0..<8).map { UInt8(truncatingIfNeeded: now >> (8 * $0)) }
                try await session.send(
                    SessionMessage(bytes: bytes + [UInt8](repeating: 7, count: messageByteCount - 8)), mode: .unreliable)
            }
        }()
        let receiver = Task {
            var latencies: [UInt32] = []
            for await received in session.messages {
                let sent = received.message.bytes.prefix(8).enumerated().reduce(UInt64(0)) { $0 | UInt64($1.1) << (8 * $1.0) }
                latencies.append(UInt32(clamping: UInt64(seconds() * 1e6) - sent))
            }
            return latencies
        }
        try await sent
        try await Task.sleep(for: .seconds(1))
        receiver.cancel()
        return await receiver.value
    }

    private static func wait<Value>(for value: () -> Value?) async throws -> Value {
        for _ in 0..<3000 {
            if let value = value() { return value }
            try await Task.sleep(for: .milliseconds(20))
        }
        fatalError("a player waits in vain")
    }

    // MARK: Files of numbers

    private static func write(_ numbers: [UInt32], to path: String) {
        let file = fopen("\(path).new", "w")!
        fwrite(numbers, 4, numbers.count, file)
        fclose(file)
        rename("\(path).new", path)
    }

    private static func read(_ path: String) -> [UInt32] {
        guard let file = fopen(path, "r") else { return [] }
        defer { fclose(file) }
        var numbers = [UInt32](repeating: 0, count: count * rate * duration * 2)
        let read = fread(&numbers, 4, numbers.count, file)
        return Array(numbers.prefix(read))
    }
}
