internal import Glibc
internal import Nearshare
internal import Synchronization

/// One send to one or several peers, from looking for them to the last outcome.
final class Sending: Sendable {
    enum Target: Sendable {
        case text(String)
        case peer(NearbyPeer)
    }

    private struct State {
        var running: [(label: String, transfer: Transfer)] = []
    }

    private let machine: LocalMachine
    private let source: NamedSource
    private let voice: SendVoice
    private let patience: Duration
    let interface: String?
    private let resumes: Bool
    private let state = Mutex(State())

    /// How long a name is looked for.
    private static let lookTime = Duration.seconds(5)

    init(
        machine: LocalMachine, source: NamedSource, voice: SendVoice, patience: Duration, interface: String?, resumes: Bool
    ) {
        self.machine = machine
        self.source = source
        self.voice = voice
        self.patience = patience
        self.interface = interface
        self.resumes = resumes
    }

    /// The person wants to stop: both ends end it, and what has arrived is kept for another try.
    func interrupt() {
        let running = state.withLock { $0.running }
        for (_, transfer) in running { transfer.cancel() }
        // Nothing to end in order: looking for somebody, or picking them from the list.
        if running.isEmpty {
            RawMode.end()
            exit(ExitStatus.interrupted.rawValue)
        }
    }

    func run(to targets: [Target], on node: Node) async throws {
        try await withThrowingTaskGroup(of: Void.self) { drawing in
            defer { drawing.cancelAll() }
            if !voice.isQuiet { drawing.addTask { await drawProgress { self.state.withLock { $0.running } } } }
            let failures = await withTaskGroup(of: CommandFailure?.self) { group in
                for (target, source) in zip(targets, source.sources) {
                    group.addTask { await self.send(source, to: target, on: node) }
                }
                var failures: [CommandFailure] = []
                for await failure in group { if let failure { failures.append(failure) } }
                return failures
            }
            guard let first = failures.first else { return }
            if targets.count == 1 { throw first }
            for failure in failures { Console.complain(failure.message) }
            let all = failures.count == targets.count
            throw CommandFailure(all ? first.status : .partly, "\(failures.count) of \(targets.count) did not get it")
        }
    }

    private func send(_ source: any ResourceSource, to target: Target, on node: Node) async -> CommandFailure? {
        // Others who share a stream must not wait for one who is gone.
        defer { (source as? StreamSource.Seat)?.leave() }
        do {
            let destination = try await locate(target, on: node)
            try await node.withConnection(to: destination) { connection in
                try await self.send(source, over: connection)
            }
            return nil
        } catch {
            return CommandFailure(error)
        }
    }

    private func locate(_ target: Target, on node: Node) async throws -> PeerDestination {
        switch target {
        case .peer(let peer): return peer.destination
        case .text(let text):
            if let address = Address.parse(text) { return PeerDestination(addresses: [address]) }
            voice.say("looking for \(TerminalText.escaped(text))…")
            voice.emit("looking", ["peer": .text(text)])
            let peer = try await node.find(resolveGivenName(text), timeout: Self.lookTime, interface: interface)
            remember(peer)
            voice.emit("found", ["peer": .text(peer.id.hex), "name": .text(peer.name.claimed)])
            return peer.destination
        }
    }

    /// A name that the local person has given stands for the key it was given to.
    private func resolveGivenName(_ text: String) -> String {
        guard let book = try? machine.trust.read() else { return text }
        let given = book.entries.filter { $0.value.givenName?.claimed.lowercased() == text.lowercased() }
        return given.count == 1 ? given.first!.key.peerID.hex : text
    }

    private func remember(_ peer: NearbyPeer) {
        // Only for completing names; nothing depends on it.
        try? RecentPeers.note(
            [RecentPeers.Entry(id: peer.id, name: peer.name, lastSeen: SystemClock.wall())], in: machine.state)
    }

    private func send(_ content: any ResourceSource, over connection: Connection) async throws {
        let standing = connection.standing
        if case .nameClash(let known) = standing {
            let name = connection.destination.name?.shown ?? "that peer"
            throw CommandFailure(
                .notTrusted,
                "\(name) answers with another key than before (known as \(known.peerID), now \(connection.proven.id)); "
                    + "if this is a new machine of theirs, `nearshare peers forget \(known.peerID)` and verify it anew")
        }
        let transfer = connection.send(content, resumeKey: resumeKey(of: content.offer), patience: patience)
        let shownName = connection.destination.name?.shown ?? connection.address.description
        voice.emit(
            "inviting",
            [
                "transfer": .text(transfer.id.hex), "peer": .text(connection.proven.id.hex), "standing": .text(standing.word),
                "address": .text(connection.address.description), "via": .text("direct"),
            ])
        voice.say("inviting \(shownName) (\(InvitationText.standing(standing)))…")
        let label = "\(source.label) → \(shownName)"
        state.withLock { $0.running.append((label, transfer)) }
        defer { state.withLock { state in state.running.removeAll { $0.transfer === transfer } } }
        await withTaskGroup(of: Void.self) { group in
            if standing == .new || standing == .known(.seen, isFriend: false) {
                group.addTask { await self.tellCode(connection) }
            }
            await follow(transfer)
            group.cancelAll()
        }
        let result = await transfer.result
        voice.emit(
            "finished",
            [
                "transfer": .text(transfer.id.hex), "outcome": .text(result.outcome.word), "detail": JSONValue(result.detail),
                "peer": .text(connection.proven.id.hex),
            ])
        guard result.outcome == .completed else {
            let why = connection.end.flatMap { result.outcome == .interrupted ? $0.description : nil }
            throw CommandFailure(result.outcome.status, result.detail ?? why ?? result.outcome.sentence(shownName))
        }
        let progress = transfer.snapshot
        let resumed = progress.resumed > 0 ? ", \(progress.resumed.asByteCount) of it had been there" : ""
        voice.say("\(label): done, \(progress.done.asByteCount)\(resumed)")
        if let name = try? await connection.peerName {
            try? machine.trust.change { $0.dealtWith(connection.proven, called: name, at: SystemClock.wall()) }
        }
    }

    private func tellCode(_ connection: Connection) async {
        guard let code = try? await connection.shortCode else { return }
        voice.emit("code", ["peer": .text(connection.proven.id.hex), "code": .text(code.digits)])
        voice.say("short code \(code): the other screen should show the same")
    }

    private func follow(_ transfer: Transfer) async {
        var last = TransferProgress.Phase.connecting
        for await progress in transfer.progress {
            let id: [String: JSONValue] = ["transfer": .text(transfer.id.hex)]
            if progress.phase != last {
                switch progress.phase {
                case .waiting: voice.emit("waiting", id)
                case .comparing: voice.emit("accepted", id)
                case .moving where progress.resumed > 0:
                    voice.emit("resumed", id.merging(["offset": .number(progress.resumed)]) { $1 })
                default: break
                }
                last = progress.phase
            }
            if progress.phase == .moving { voice.emit("progress", JSONEvents.progress(progress)) }
        }
    }

    /// The same for the same names sent again, so that the receiver finds what it kept; a fresh one finds nothing.
    private func resumeKey(of offer: Offer) -> [UInt8] {
        guard resumes, source.canResume else { return LocalMachine.randomBytes(32) }
        return ResumeKey.of(offer)
    }
}
