import Glibc
import Nearshare

/// How sessions of many members form: nodes of one process over loopback, invited by the first one after the other.
enum Forming {
    static func run() async throws {
        raiseDescriptorLimit()
        print("### Forming a session\n")
        print("| members | bytes on loopback | time | CPU of all | links | bytes in the 2 s after |")
        print("|---|---|---|---|---|---|")
        for count in [8, 16, 32, 64] { try await form(count, [], folder: "\(directory)/forming") }
        print("\nGoals: 1 MB of gossip for 16 members, 8 MB for 64, and 5 s. The bytes are those of all packets, with headers,")
        print("handshakes and acknowledgements of TCP, and of whatever else uses the loopback interface meanwhile.\n")
    }

    private static func form(_ count: Int, _ earlier: [(node: Node, listener: Listener)], folder: String) async throws {
        mkdir(folder, 0o700)
        let machine = try LocalMachine(identity: .ephemeral, environment: ["HOME": folder])
        var limits = NodeLimits()
        // All members share one address.
        (limits.links, limits.linksPerAddress) = (256, 256)
        try await machine.run(
            as: DisplayName(truncating: "node \(earlier.count)"), interface: "lo", findsOthers: false, limits: limits
        ) { node in
            let all = earlier + [(node, try node.listen())]
            guard all.count == count else { return try await form(count, all, folder: folder) }
            try await gather(all)
        }
    }

    private static func gather(_ nodes: [(node: Node, listener: Listener)]) async throws {
        var settings = SessionSettings()
        settings.trust = .anyKey
        settings.memberLimit = nodes.count
        let (start, bytes) = (Stopwatch(), loopbackByteCount())
        let first = try nodes[0].node.startSession(settings)
        var sessions = [first]
        for (_, listener) in nodes.dropFirst() {
            async let joined = listener.sessionInvitations.first { _ in true }?.accept(settings)
            _ = try await first.invite(
                PeerDestination(addresses: [(host: "127.0.0.1", port: listener.port)]))
            sessions.append(try await joined!)
        }
        while !sessions.allSatisfy({ isFormed($0, of: nodes.count) }) { try await Task.sleep(for: .milliseconds(10)) }
        let (cost, formed) = (start.cost, loopbackByteCount())
        try await Task.sleep(for: .seconds(2))
        let links = sessions.reduce(0) { sum, session in
            sum + session.members.count { $0.state == .connected(via: nil) }
        }
        print(
            "| \(nodes.count) | \(rounded(Double(formed - bytes) / 1e6)) MB | \(rounded(cost.wall)) s "
                + "| \(rounded(cost.processor)) s | \(links / 2) | \(rounded(Double(loopbackByteCount() - formed) / 1e6)) MB |")
        for session in sessions { await session.leave(waiting: .zero) }
    }

    static func isFormed(_ session: Session, of count: Int) -> Bool {
        let members = session.members
        return members.count == count - 1 && members.allSatisfy(\.state.isConnected)
    }

    /// The bytes that the loopback interface has received.
    private static func loopbackByteCount() -> Int {
        guard let file = fopen("/proc/net/dev", "r") else { return 0 }
        defer { fclose(file) }
        var line = [CChar](repeating: 0, count: 1024)
        while fgets(&line, 1024, file) != nil {
            let words = String(decoding: line.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
                .split(whereSeparator: \.isWhitespace)
            if words.first == "lo:", words.count > 1 { return Int(words[1]) ?? 0 }
        }
        return 0
    }

    /// 64 members hold several hundred links.
    private static func raiseDescriptorLimit() {
        var limit = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
        limit.rlim_cur = limit.rlim_max
        setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }
}
