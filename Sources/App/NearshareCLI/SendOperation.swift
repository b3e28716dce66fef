internal import Glibc
internal import Nearshare
internal import NearshareMesh
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// One send to one or several peers, from looking for them to the last outcome.
final class SendOperation: Sendable {
    enum Target: Sendable {
        case text(String)
        case peer(NearbyPeer)
    }

    private struct State {
        var running: [(label: String, transfer: Transfer)] = []
        var isInterrupted = false
    }

    private let machine: LocalMachine
    private let source: NamedSource
    private let voice: SendVoice
    private let timeout: Duration
    private let resumes: Bool
    private let via: Way?
    private let state = Mutex(State())

    /// After the first, of one send.
    private static let maximumRetryCount = 3

    /// - Parameter via: nil for the best way there is.
    init(
        machine: LocalMachine, source: NamedSource, voice: SendVoice, timeout: Duration, resumes: Bool,
        via: Way?
    ) {
        self.machine = machine
        self.source = source
        self.voice = voice
        self.timeout = timeout
        self.resumes = resumes
        self.via = via
    }

    /// Where peers are looked for.
    var media: Set<LinkAddress.Medium> {
        switch via {
        case .lan, .mesh: [.network]
        case .bluetooth: [.bluetooth]
        case nil: [.network, .bluetooth]
        }
    }

    /// The person wants to stop: both ends end it, and what has arrived is kept for another try.
    func interrupt() {
        let running = state.withLock { state in
            state.isInterrupted = true
            return state.running
        }
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
        defer { (source as? StreamSource.Reader)?.cancel() }
        do {
            switch try await locate(target, on: node) {
            case .direct(let destination): try await sendDirectly(source, to: destination, on: node)
            case .mesh(let mesh, let peer): try await send(source, to: peer, through: mesh)
            case .node(let person): try await sendThroughNode(to: person)
            }
            return nil
        } catch {
            return CommandFailure(error)
        }
    }

    /// Sends; and when the link breaks, looks for the same peer anew on all media, and goes on where it stopped.
    private func sendDirectly(_ source: any ResourceSource, to first: PeerDestination, on node: Node) async throws {
        var destination = first
        var retryCount = 0
        // What is told when no other try gets further.
        var broken: CommandFailure?
        while true {
            do {
                return try await node.withConnection(to: destination) { connection in
                    try await self.send(source, over: connection)
                }
            } catch {
                let failure = CommandFailure(error)
                // Nobody there any more is no answer either, once something has begun.
                let isBroken =
                    failure.status == .peerGone || (retryCount > 0 && error is NodeError && failure.status != .declined)
                let canRetry = isBroken && via != .lan && resumes && self.source.canResume && !isInterrupted
                guard canRetry, retryCount < Self.maximumRetryCount, let id = destination.id, await node.opensRadio() else {
                    throw broken ?? failure
                }
                retryCount += 1
                if failure.status == .peerGone { broken = failure }
                voice.say("the link broke; looking for another way…")
                voice.emit("looking", ["peer": .text(id.hex)])
                guard
                    let again = try? await node.find(
                        id.hex, timeout: PeerResolver.radioLookTime, on: media)
                else { throw broken ?? failure }
                destination = again.destination
            }
        }
    }

    private var isInterrupted: Bool { state.withLock { $0.isInterrupted } }

    private func locate(_ target: Target, on node: Node) async throws -> PeerResolver.Destination {
        switch target {
        case .peer(let peer): .direct(peer.destination)
        case .text(let text):
            try await PeerResolver(machine: machine, voice: voice, via: via).locate(text, on: node)
        }
    }

    /// A known name with another key is a loud stop (K2).
    private func refuseStranger(_ trustStatus: TrustStatus, _ name: String, _ id: PeerID) throws {
        guard case .nameClash(let known) = trustStatus else { return }
        throw CommandFailure(
            .notTrusted,
            "\(name) answers with another key than before (known as \(known.peerID), now \(id)); "
                + "if this is a new machine of theirs, `nearshare peers forget \(known.peerID)` and verify it anew")
    }

    // MARK: Through the mesh

    private func send(_ content: any ResourceSource, to peer: MeshPeer, through mesh: MeshDriver) async throws {
        let name = peer.name.shown
        let trustStatus = try machine.trust.read().trustStatus(of: peer.fingerprint, claiming: peer.name)
        try refuseStranger(trustStatus, name, peer.id)
        if trustStatus.isBlocked { throw NodeError.blocked(name) }
        for part in try self.source.parts?() ?? [content] {
            let transfer = try mesh.send(part, to: peer, timeout: timeout)
            let time = part.offer.totalSize.flatMap { mesh.estimate(byteCount: $0, to: peer) } ?? .zero
            voice.emit(
                "inviting",
                [
                    "transfer": .text(transfer.id.hex), "peer": .text(peer.id.hex), "standing": .text(trustStatus.label),
                    "via": .text(Way.mesh.rawValue), "estimate": .number(UInt64(time.components.seconds)),
                ])
            let how = peer.isDirect ? "as frames to a neighbour" : "through others"
            let duration = time >= .seconds(2) ? ", \(time.asClock) at least" : ""
            voice.say("sending to \(name) (\(InvitationText.trustStatus(trustStatus))) in the mesh, \(how)\(duration)")
            let label = "\(InvitationText.summary(part.offer)) → \(name)"
            let result = await follow(transfer, label)
            voice.emit("finished", finished(transfer, result, peer.id))
            guard result.outcome == .completed else {
                throw CommandFailure(result.outcome.status, result.detail ?? result.outcome.sentence(name))
            }
            let remark = result.detail.map { "; \($0)" } ?? ""
            voice.say("\(label): done, \(transfer.snapshot.done.asByteCount)\(remark)")
        }
    }

    // MARK: Through the node

    private func sendThroughNode(to person: Person) async throws {
        let courier = NodeSendClient(voice: voice, timeout: timeout)
        let sent: Void? = try await askRunningNode(of: machine) { door in
            switch source.carried {
            case .files(let paths): for path in paths { try await courier.send(path, to: person, through: door) }
            case .text(let text): try await courier.say(text, to: person, through: door)
            case .stream:
                throw CommandFailure(
                    .usage, "standard input can't go through the mesh while a node runs here; save it as a file and send that")
            }
        }
        if sent == nil { throw CommandFailure(.failure, "the node of this machine has just ended; send it again") }
    }

    private func follow(_ transfer: Transfer, _ label: String) async -> TransferResult {
        state.withLock { $0.running.append((label, transfer)) }
        defer { state.withLock { state in state.running.removeAll { $0.transfer === transfer } } }
        await follow(transfer)
        return await transfer.result
    }

    private func finished(_ transfer: Transfer, _ result: TransferResult, _ peer: PeerID) -> [String: JSONValue] {
        [
            "transfer": .text(transfer.id.hex), "outcome": .text(result.outcome.word), "detail": JSONValue(result.detail),
            "peer": .text(peer.hex),
        ]
    }

    // MARK: Directly

    private func send(_ content: any ResourceSource, over connection: Connection) async throws {
        let trustStatus = connection.trustStatus
        try refuseStranger(trustStatus, connection.destination.name?.shown ?? "that peer", connection.proven.id)
        let transfer = connection.send(content, resumeKey: resumeKey(of: content.offer), timeout: timeout)
        let shownName = connection.destination.name?.shown ?? connection.address.description
        voice.emit(
            "inviting",
            [
                "transfer": .text(transfer.id.hex), "peer": .text(connection.proven.id.hex),
                "standing": .text(trustStatus.label),
                "address": .text(connection.address.description), "via": .text(Way(connection.address.medium).rawValue),
            ])
        voice.say("inviting \(shownName) (\(InvitationText.trustStatus(trustStatus)))…")
        let label = "\(source.label) → \(shownName)"
        state.withLock { $0.running.append((label, transfer)) }
        defer { state.withLock { state in state.running.removeAll { $0.transfer === transfer } } }
        await withTaskGroup(of: Void.self) { group in
            if trustStatus == .new || trustStatus == .known(.seen, isFriend: false) {
                group.addTask { await self.tellCode(connection) }
            }
            await follow(transfer)
            group.cancelAll()
        }
        let result = await transfer.result
        voice.emit("finished", finished(transfer, result, connection.proven.id))
        guard result.outcome == .completed else {
            let end = result.outcome == .interrupted ? await self.end(of: connection) : nil
            // Not a broken link, which trying again would mend.
            if case .refused? = end { throw CommandFailure(end!) }
            throw CommandFailure(result.outcome.status, result.detail ?? end?.description ?? result.outcome.sentence(shownName))
        }
        let progress = transfer.snapshot
        let resumed = progress.resumed > 0 ? ", \(progress.resumed.asByteCount) of it had been there" : ""
        voice.say("\(label): done, \(progress.done.asByteCount)\(resumed)")
        if let name = try? await connection.peerName {
            try? machine.trust.update { $0.recordContact(with: connection.proven, named: name, at: SystemClock.wall()) }
        }
    }

    /// Why the link has ended; nil when that can't be told soon. A transfer on it hears of the end a moment earlier.
    private func end(of connection: Connection) async -> NodeError? {
        await withTaskGroup(of: NodeError?.self) { group in
            group.addTask { try? await connection.ending }
            group.addTask {
                try? await Task.sleep(for: .seconds(1))
                return connection.end
            }
            defer { group.cancelAll() }
            return await group.next() ?? nil
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
