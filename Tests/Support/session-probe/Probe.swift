internal import Dispatch
internal import FoundationEssentials
internal import Glibc
internal import Nearshare

enum Probe {
    static func main() async {
        do {
            let arguments = CommandLine.arguments.dropFirst()
            let option = arguments.firstIndex(of: "--application")
            try await run(
                inboxPath: arguments.first ?? "Inbox", findsOthers: arguments.contains("--discovery"),
                application: option.map { CommandLine.arguments[$0 + 1] })
        } catch {
            say("error", ["text": "\(error)"])
            exit(1)
        }
    }

    private static func run(inboxPath: String, findsOthers: Bool, application: String?) async throws {
        let machine = try LocalMachine(identity: application.map { .application($0) } ?? .user)
        let inbox = try machine.inbox(inboxPath)
        let service: ServiceType = if application == nil { .nearshare } else { try ServiceType("session-probe") }
        try await withNode(machine.nodeSettings(discovery: findsOthers ? machine.discovery() : nil)) { node in
            let listener = try node.listen(as: service)
            say("ready", ["port": "\(listener.port)", "id": node.id.hex])
            var settings = SessionSettings()
            settings.trust = .anyKey
            let sessions = try listener.sessions(InvitationPolicy { _ in true }, settings: settings)
            let (inputs, continuation) = AsyncStream.makeStream(of: Input.self)
            await withTaskGroup(of: Void.self) { [settings] group in
                group.addTask {
                    for await session in sessions {
                        continuation.yield(.joined(session))
                    }
                }
                group.addTask {
                    for await line in lines() { continuation.yield(.line(line)) }
                    continuation.finish()
                }
                var session: Session?
                var isFollowed = false
                for await input in inputs {
                    switch input {
                    case .joined(let joined): session = joined
                    case .line(["begin"]): session = try? node.startSession(settings)
                    case .line(let words) where words.first == "join" && words.count == 3:
                        do {
                            session = try node.join(
                                words[1], for: ServiceType("session-probe"), admission: .secret(words[2]), settings: settings)
                        } catch {
                            say("failed", ["command": "join", "text": "\(error)"])
                        }
                    case .line(["memory"]): say("memory", ["peak": peakMemory()])
                    case .line(["leave"]): continuation.finish()
                    case .line(let words):
                        guard let session else {
                            say("failed", ["command": words.joined(separator: " "), "error": "there is no session"])
                            continue
                        }
                        group.addTask { await obey(words, session, machine) }
                    }
                    guard let session, !isFollowed else { continue }
                    isFollowed = true
                    group.addTask { await tell(session) }
                    group.addTask { await take(session, into: inbox) }
                    group.addTask { await read(session) }
                    group.addTask { await hear(session) }
                }
                await session?.leave()
                group.cancelAll()
            }
        }
        say("bye")
    }

    // MARK: Commands

    private enum Input: Sendable {
        case line([String])
        case joined(Session)
    }

    /// Waiting for a line blocks, so it has its own thread.
    private static func lines() -> AsyncStream<[String]> {
        AsyncStream { continuation in
            DispatchQueue(label: "standard input").async {
                while let line = readLine() { continuation.yield(line.split(separator: " ").map(String.init)) }
                continuation.finish()
            }
        }
    }

    private static func obey(_ words: [String], _ session: Session, _ machine: LocalMachine) async {
        do {
            switch words.first {
            case "invite":
                let address = LinkAddress(host: words[1], port: UInt16(words[2])!)
                let id = try await session.invite(PeerDestination(addresses: [address], id: nil, name: nil))
                say("invited", ["id": id.hex])
            case "send":
                let member = PeerID(hex: words[2])!
                let transfers = try await session.sendResource(
                    FileSource(paths: [words[1]], detector: machine.detector), to: [member],
                    resumeKey: LocalMachine.randomBytes(32))
                let result = await transfers[member]!.result
                say("sent", ["outcome": "\(result.outcome)"])
            case "message":
                try await session.send(SessionMessage(bytes: Array(words[1].utf8)))
                say("messaged", ["text": words[1]])
            case "stream":
                let stream = try await session.openStream(named: words[1], to: PeerID(hex: words[3])!)
                let chunk = [UInt8](repeating: 7, count: 64 << 10)
                for _ in 0..<Int(words[2])! * 16 { try await stream.write(chunk) }
                stream.finish()
                _ = try await stream.read()
                say("streamed", ["name": words[1]])
            default: say("error", ["text": "unknown command"])
            }
        } catch {
            say("failed", ["command": words[0], "text": "\(error)"])
        }
    }

    // MARK: Events

    private static func tell(_ session: Session) async {
        say("session", ["id": session.id.hex])
        for await change in session.changes {
            switch change {
            case .joined(let member): say("joined", ["id": member.id.hex])
            case .slow(let id): say("slow", ["id": id.hex])
            case .metadata(let id, _): say("metadata", ["id": id.hex])
            case .restarted(let id, let lost): say("restarted", ["id": id.hex, "lost": "\(lost)"])
            case .left(let id, let lost): say("left", ["id": id.hex, "lost": "\(lost)"])
            case .state(let id, .connected(let relay)):
                say("state", ["id": id.hex, "state": "connected", "via": relay?.hex ?? ""])
            case .state(let id, let state): say("state", ["id": id.hex, "state": "\(state)", "via": ""])
            }
        }
    }

    private static func take(_ session: Session, into inbox: Inbox) async {
        for await invitation in session.resources {
            do {
                let sink = try inbox.makeSink(
                    for: invitation.offer, from: invitation.peer.fingerprint, resumeKey: invitation.resumeKey,
                    clock: { SystemClock.monotonic() })
                let result = await invitation.accept(into: sink).result
                say("received", ["outcome": "\(result.outcome)", "path": result.delivered.first?.path ?? ""])
            } catch {
                say("failed", ["command": "receive", "text": "\(error)"])
            }
        }
    }

    private static func hear(_ session: Session) async {
        for await received in session.messages {
            say("message", ["text": String(decoding: received.message.bytes, as: UTF8.self), "from": received.sender.hex])
        }
    }

    private static func read(_ session: Session) async {
        await withDiscardingTaskGroup { group in
            for await incoming in session.streams {
                group.addTask {
                    let name = incoming.name
                    let rate = name.hasPrefix("slow-") ? Int(name.dropFirst(5)) : nil
                    var count = 0
                    do {
                        let start = ContinuousClock.now
                        while let bytes = try await incoming.read() {
                            count += bytes.count
                            if let rate {
                                try await Task.sleep(
                                    until: start + .microseconds(count * 1_000_000 / (rate << 20)), clock: .continuous)
                            }
                        }
                        incoming.finish()
                        say("read", ["name": name, "count": "\(count)"])
                    } catch {
                        say("failed", ["command": "read", "text": "\(error)"])
                    }
                }
            }
        }
    }

    /// The peak memory of this process, in KiB.
    private static func peakMemory() -> String {
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("VmHWM:") } ?? ""
        return line.split(separator: " ").dropFirst().first.map(String.init) ?? ""
    }

    /// Each line in one write, as other tasks also print.
    private static func say(_ event: String, _ fields: [String: String] = [:]) {
        var fields = fields
        fields["event"] = event
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        let line = Array(try! encoder.encode(fields)) + [UInt8(ascii: "\n")]
        _ = line.withUnsafeBytes { write(1, $0.baseAddress, $0.count) }
    }
}
