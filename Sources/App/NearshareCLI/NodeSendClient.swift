internal import Glibc
internal import Nearshare
internal import NearshareService

/// Sends through the node that runs on this machine: two processes with one key in the mesh would take each other's answers.
struct NodeSendClient: Sendable {
    let voice: SendVoice
    /// How long a text may take, and a file until it is accepted.
    let timeout: Duration

    func send(_ path: String, to person: Person, through door: any NodeClient) async throws {
        try refuseStranger(person)
        let events = try await door.events()
        let request = ControlRequest.sendFile(
            path: try AbsolutePath.of(path), to: person.id, timeout: timeout.inSeconds)
        let id = try await door.order(request)
        let name = person.name.shown
        voice.emit(
            "inviting",
            [
                "transfer": .text(id), "peer": .text(person.id.hex), "standing": .text(person.trustStatus),
                "via": .text(Way.mesh.rawValue),
            ])
        voice.say("sending to \(name) in the mesh, through the node of this machine")
        var remark: String?
        for await case .transfer(let line) in events where line.id == id {
            guard let outcome = line.outcome else {
                if let detail = line.detail, remark == nil { voice.say("\(TerminalText.escaped(line.name)): \(detail)") }
                remark = line.detail
                voice.emit(
                    "progress", ["transfer": .text(id), "done": .number(line.done), "total": JSONValue(line.total)])
                continue
            }
            voice.emit(
                "finished",
                [
                    "transfer": .text(id), "outcome": .text(outcome), "detail": JSONValue(line.detail),
                    "peer": .text(person.id.hex),
                ])
            let status = ExitStatus(outcome: outcome)
            guard status == .ok else { throw CommandFailure(status, line.detail ?? "\(name): \(outcome)") }
            return voice.say("\(TerminalText.escaped(line.name)) → \(name): done, \(line.done.asByteCount)")
        }
        throw CommandFailure(.peerGone, "the node of this machine has ended in the middle; send it again")
    }

    func say(_ text: String, to person: Person, through door: any NodeClient) async throws {
        try refuseStranger(person)
        let events = try await door.events()
        let id = try await door.order(.say(text, in: .peer(person.id)))
        let name = person.name.shown
        let isDelivered = try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                for await case .marked(id, _, let mark, let reason) in events where mark >= .delivered {
                    guard mark != .failed else { throw CommandFailure(.failure, "not sent: \(reason ?? "no reason is known")") }
                    return true
                }
                return false
            }
            group.addTask {
                try await Task.sleep(for: timeout)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
        guard isDelivered else {
            throw CommandFailure(.timedOut, "\(name) has not got it yet; the node keeps it, and delivers it when it can")
        }
        voice.say("message → \(name): delivered")
    }

    /// A known name with another key is a loud stop (K2).
    private func refuseStranger(_ person: Person) throws {
        guard person.takesAnothersName else { return }
        throw CommandFailure(
            .notTrusted,
            "\(person.name.shown) is known here with another key than \(person.id); `nearshare peers verify` compares the code")
    }
}

extension ExitStatus {
    /// By the words of ``TransferLine/outcome``.
    init(outcome: String) {
        self =
            switch outcome {
            case "completed": .ok
            case "declined", "cancelled": .declined
            case "expired": .timedOut
            case "interrupted": .peerGone
            default: .failure
            }
    }
}

/// Where a file is, for a process with another working directory.
enum AbsolutePath {
    static func of(_ path: String) throws -> String {
        guard let resolved = realpath(path, nil) else {
            throw CommandFailure(.failure, "\(TerminalText.escaped(path)): \(String(cString: strerror(errno)))")
        }
        defer { free(resolved) }
        return String(cString: resolved)
    }
}
