import Glibc
import Logging
import Nearshare

/// In memory; removed by who runs this.
let place = CommandLine.arguments[1]

/// Two or more nodes in one process, in one session.
enum Company {
    /// Each with a home of its own.
    static func settings(_ number: Int) throws -> NodeSettings {
        let home = "\(place)/\(number)"
        mkdir(place, 0o700)
        mkdir(home, 0o700)
        let machine = try LocalMachine(environment: ["HOME": home])
        var settings = try machine.nodeSettings(
            name: DisplayName(truncating: "node \(number)"), interface: "lo", discovery: nil,
            log: Logger(label: "benchmark", factory: { _ in SwiftLogNoOpLogHandler() }))
        settings.limits.linksPerAddress = 64
        return settings
    }

    static func gather(
        _ count: Int, _ nodes: [(node: Node, receiving: Listener)] = [],
        _ body: @escaping @Sendable ([(node: Node, receiving: Listener)], [Session]) async throws -> Void
    ) async throws {
        try await withNode(try settings(nodes.count)) { node in
            let all = nodes + [(node, try node.listen())]
            guard all.count == count else { return try await gather(count, all, body) }
            var settings = SessionSettings()
            settings.trust = .anyKey
            let first = try all[0].node.startSession(settings)
            var sessions = [first]
            for (_, receiving) in all.dropFirst() {
                async let joined = receiving.sessionInvitations.first { _ in true }?.accept(settings)
                let address = LinkAddress(host: "127.0.0.1", port: receiving.port)
                _ = try await first.invite(PeerDestination(addresses: [address]))
                sessions.append(try await joined!)
            }
            for session in sessions {
                while session.members.count < count - 1 || !session.members.allSatisfy(\.state.isConnected) {
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
            try await body(all, sessions)
            for session in sessions { await session.leave() }
        }
    }
}

enum SessionMessages: Rival {
    static let name = "**nearshare session**, encrypted"

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        nonisolated(unsafe) var result = (roundTrips: Cost(), oneWay: Cost())
        try await Company.gather(2) { _, sessions in
            let message = SessionMessage(bytes: [UInt8](repeating: 7, count: messageByteCount))
            async let echo: Void = {
                var left = roundTripCount
                for await received in sessions[1].messages {
                    try await sessions[1].send(received.message)
                    left -= 1
                    if left == 0 { return }
                }
            }()
            let answers = sessions[0].messages.makeAsyncIterator()
            var start = Moment()
            for _ in 0..<roundTripCount {
                try await sessions[0].send(message)
                _ = await answers.next()
            }
            result.roundTrips = start.cost
            try await echo
            start = Moment()
            async let sent: Void = {
                for _ in 0..<oneWayCount { try await sessions[0].send(message) }
            }()
            let arriving = sessions[1].messages.makeAsyncIterator()
            for _ in 0..<oneWayCount { _ = await arriving.next() }
            result.oneWay = start.cost
            try await sent
        }
        return result
    }
}

enum Streams {
    static func run(rounds: Int) async throws {
        let total = 1 << 30
        nonisolated(unsafe) var figures: [Double] = []
        try await Company.gather(2) { nodes, sessions in
            let piece = [UInt8](repeating: 1, count: 256 << 10)
            for _ in 0..<rounds {
                let stream = try sessions[0].openStream(named: "bulk", to: nodes[1].node.id)
                let start = seconds()
                async let written: Void = {
                    for _ in 0..<total / piece.count { try await stream.write(piece) }
                    stream.finish()
                }()
                var count = 0
                let arriving = await sessions[1].streams.first { _ in true }!.stream
                while let bytes = try await arriving.read(upTo: 256 << 10) { count += bytes.count }
                try await written
                precondition(count == total)
                figures.append(Double(total) / (seconds() - start) / 1e9)
            }
        }
        print("A byte stream of 1 GiB: \(rounded(median(figures))) GB/s\n")
    }
}

enum Resources {
    static func run(rounds: Int) async throws {
        let size = 256 << 20
        let path = "\(place)/large"
        let file = open(path, O_CREAT | O_WRONLY, 0o600)
        let block = LocalMachine.randomBytes(1 << 20)
        for _ in 0..<size >> 20 { precondition(write(file, block, block.count) == block.count) }
        close(file)
        nonisolated(unsafe) var (together, apart) = ([Double](), [Double]())
        try await Company.gather(5) { nodes, sessions in
            let source = try FileSource(paths: [path])
            let others = nodes.dropFirst().map(\.node.id)
            let takers = sessions.dropFirst().map { session in
                Task {
                    for await invitation in session.resources { _ = await invitation.accept(into: Discard()).result }
                }
            }
            for round in 0..<rounds {
                var start = seconds()
                let key = [UInt8](repeating: UInt8(round), count: 32)
                for transfer in try sessions[0].sendResource(source, to: others, resumeKey: key).values {
                    guard await transfer.result.outcome == .completed else { fatalError("a resource did not arrive") }
                }
                together.append(seconds() - start)
                start = seconds()
                for other in others {
                    let transfer = try sessions[0].sendResource(source, to: [other], resumeKey: key)[other]!
                    guard await transfer.result.outcome == .completed else { fatalError("a resource did not arrive") }
                }
                apart.append(seconds() - start)
            }
            for taker in takers { taker.cancel() }
        }
        print("256 MiB to 4 members: at once \(rounded(median(together))) s, one after the other \(rounded(median(apart))) s")
    }
}

func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }

/// Takes everything and keeps nothing.
final class Discard: ResourceSink {
    func resumePoint() throws(StorageError) -> ResumePoint { .start }
    func resume(at point: ResumePoint) throws(StorageError) {}
    func begin(_ entry: EntryHeader, at offset: UInt64, entriesDigest: [UInt8]) throws(StorageError) {}
    func write(_ bytes: UnsafeRawBufferPointer) throws(StorageError) {}
    func endEntry() throws(StorageError) {}
    func finish() throws(StorageError) -> [DeliveredItem] { [] }
    func suspend() {}
    func discard() {}
}
