import Glibc
import Logging
import Nearshare

/// A directory on a file system in memory; the caller removes it.
let directory = CommandLine.arguments[1]

/// Two or more nodes in one process, in one session.
enum TestSession {
    /// A node, and what peers connect to.
    typealias TestNode = (node: Node, listener: Listener, inbox: Inbox)

    private static let isSilent: Bool = {
        LoggingSystem.bootstrap { _ in SwiftLogNoOpLogHandler() }
        return true
    }()

    /// Runs `count` nodes, each with a home directory of its own, joins them into one session, and hands them to `body`.
    static func run(
        _ count: Int, nodes: [TestNode] = [],
        body: @escaping @Sendable ([TestNode], [Session]) async throws -> Void
    ) async throws {
        precondition(isSilent)
        let home = "\(directory)/\(nodes.count)"
        mkdir(directory, 0o700)
        mkdir(home, 0o700)
        let machine = try LocalMachine(environment: ["HOME": home])
        let inbox = try machine.inbox("\(home)/Inbox")
        let name = DisplayName(truncating: "node \(nodes.count)")
        try await machine.run(as: name, interface: "lo", findsOthers: false) { node in
            let all = nodes + [(node, try node.listen(), inbox)]
            guard all.count == count else { return try await run(count, nodes: all, body: body) }
            var settings = SessionSettings()
            settings.trust = .anyKey
            let first = try all[0].node.startSession(settings)
            var sessions = [first]
            for (_, listener, _) in all.dropFirst() {
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(settings)
                _ = try await first.invite(PeerDestination(addresses: [("127.0.0.1", listener.port)]))
                guard let session = try await joined else { fatalError("a node has stopped before it was invited") }
                sessions.append(session)
            }
            for (session, member) in zip(sessions, all) {
                let others = all.map(\.node.id).filter { $0 != member.node.id }
                await waitForMembers(others, in: session)
                for other in others { try await session.waitUntilConnected(to: other) }
            }
            try await body(all, sessions)
            for session in sessions { await session.leave() }
        }
    }

    private static func waitForMembers(_ ids: [PeerID], in session: Session) async {
        var changes = session.changes.makeAsyncIterator()
        while !Set(ids).isSubset(of: session.members.map(\.id)) {
            guard await changes.next() != nil else { fatalError("a session has ended before all have joined it") }
        }
    }
}

enum SessionMessages: MessagingSystem {
    static let name = "**nearshare session**, encrypted"

    static func run() async throws -> (roundTrips: Cost, oneWay: Cost) {
        nonisolated(unsafe) var result = (roundTrips: Cost(), oneWay: Cost())
        try await TestSession.run(2) { _, sessions in
            let message = SessionMessage(bytes: [UInt8](repeating: 7, count: messageByteCount))
            async let echo: Void = {
                var left = roundTripCount
                for await received in sessions[1].messages {
                    try await sessions[1].send(received.message)
                    left -= 1
                    if left == 0 { return }
                }
            }()
            var answers = sessions[0].messages.makeAsyncIterator()
            var start = Stopwatch()
            for _ in 0..<roundTripCount {
                try await sessions[0].send(message)
                _ = await answers.next()
            }
            result.roundTrips = start.cost
            try await echo
            start = Stopwatch()
            async let sent: Void = {
                for _ in 0..<oneWayCount { try await sessions[0].send(message) }
            }()
            var arriving = sessions[1].messages.makeAsyncIterator()
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
        try await TestSession.run(2) { nodes, sessions in
            let piece = [UInt8](repeating: 1, count: 256 << 10)
            for _ in 0..<rounds {
                let stream = try await sessions[0].openStream(named: "bulk", to: nodes[1].node.id)
                let start = seconds()
                async let written: Void = {
                    for _ in 0..<total / piece.count { try await stream.write(piece) }
                    stream.finish()
                }()
                var count = 0
                guard let arriving = await sessions[1].streams.first(where: { _ in true }) else {
                    fatalError("the session has ended before its stream arrived")
                }
                while let bytes = try await arriving.read(upTo: 256 << 10) { count += bytes.count }
                try await written
                precondition(count == total)
                figures.append(Double(total) / (seconds() - start) / 1e9)
            }
        }
        let folder = "\(directory)/tls"
        makeCertificate(in: folder)
        let plain = try (0..<rounds).map { _ in
            Double(total) / (try TLSStream.run(total: total, piece: 256 << 10, certificate: folder)) / 1e9
        }
        print(
            "A byte stream of 1 GiB: \(rounded(median(figures))) GB/s; over TLS 1.3 of OpenSSL \(rounded(median(plain))) GB/s\n"
        )
    }
}

enum Resources {
    static func run(rounds: Int) async throws {
        let size = 256 << 20
        let path = "\(directory)/large"
        let file = open(path, O_CREAT | O_WRONLY, 0o600)
        let block = (0..<1 << 20).map { _ in UInt8.random(in: .min ... .max) }
        for _ in 0..<size >> 20 { precondition(write(file, block, block.count) == block.count) }
        close(file)
        nonisolated(unsafe) var (together, apart) = ([Double](), [Double]())
        try await TestSession.run(5) { nodes, sessions in
            let others = nodes.dropFirst().map(\.node.id)
            let receivers = zip(nodes, sessions).dropFirst().map { member, session in
                Task {
                    for await invitation in session.resources {
                        for item in try await invitation.accept(into: member.inbox).result.delivered { unlink(item.path) }
                    }
                }
            }
            for _ in 0..<rounds {
                var start = seconds()
                for transfer in try await sessions[0].sendResource(at: path, to: others).values {
                    guard await transfer.result.outcome == .completed else { fatalError("a resource did not arrive") }
                }
                together.append(seconds() - start)
                start = seconds()
                for other in others {
                    for transfer in try await sessions[0].sendResource(at: path, to: [other]).values {
                        guard await transfer.result.outcome == .completed else { fatalError("a resource did not arrive") }
                    }
                }
                apart.append(seconds() - start)
            }
            for receiver in receivers { receiver.cancel() }
        }
        print("256 MiB to 4 members: at once \(rounded(median(together))) s, one after the other \(rounded(median(apart))) s\n")
    }
}

func rounded(_ value: Double) -> Double { (value * 100).rounded() / 100 }
