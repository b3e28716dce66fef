package import Nearshare
internal import NearshareMesh
internal import Synchronization

/// Sends something to one or several peers, from looking for them to the last outcome.
package final class SendOperation: Sendable {
    package enum Target: Sendable {
        case text(String)
        case peer(NearbyPeer)
        /// Everyone in the mesh.
        case everyone

        /// Whether the user has given an id or a fingerprint, or the peer's name with the tag of its key.
        func isKey(of id: PeerID, _ name: DisplayName) -> Bool {
            guard case .text(let text) = self else { return false }
            return PeerID(hex: text) != nil || Fingerprint(hex: text) != nil || TaggedName(text)?.matches(name, id) == true
        }
    }

    private let machine: LocalMachine
    private let source: SendSource
    private let recorder: SendRecorder
    private let timeout: Duration
    /// Whether another send of the same content continues where this one broke off.
    private let canResume: Bool
    private let retryTime: Duration
    private let unsealed: UnsealedConfirmation?
    private let pin: PINPrompt?
    private let hotspot: HotspotRequester?
    private let resolver: PeerResolver
    private let running = RunningTransfers()
    private let follower: OutgoingTransferFollower
    private let outcomes = Mutex(TargetOutcomes())
    /// The targets whose end is not reported, by position.
    private let openTargets = Mutex<[Int: Target]>([:])

    /// - Parameters:
    ///   - timeout: for the receiver's answer.
    ///   - resumes: continues where an earlier send of the same content broke off.
    ///   - retryTime: for a new connection after the link broke, since the last byte that arrived.
    ///   - transport: nil for the best one that there is.
    ///   - unsealed: nil to send no file that relays can read.
    ///   - pin: gives the PIN of a LocalSend device that requires one; nil where there is neither a PIN nor a user to ask.
    ///   - hotspot: moves a transfer over Bluetooth to a Wi-Fi network that both ends make for it; nil for none.
    ///   - searchLimit: time of the search for a receiver that is not found at once; nil for the usual times.
    package init(
        machine: LocalMachine, source: SendSource, reporter: any Reporter, timeout: Duration, resumes: Bool,
        retryTime: Duration? = nil, transport: Transport?, unsealed: UnsealedConfirmation? = nil,
        pin: PINPrompt? = nil, hotspot: HotspotRequester? = nil, searchLimit: Duration? = nil
    ) {
        self.hotspot = hotspot
        self.unsealed = unsealed
        self.pin = pin
        self.machine = machine
        self.source = source
        recorder = SendRecorder(reporter: reporter, history: TransferLog(of: .sent, in: machine.state), source: source)
        self.timeout = timeout
        canResume = resumes && source.canResume
        self.retryTime = retryTime ?? Reconnection.defaultTimeout
        follower = OutgoingTransferFollower(reporter: recorder, running: running)
        resolver = PeerResolver(
            machine: machine, reporter: recorder, transport: transport, needsDirectPath: hotspot != nil,
            exceedsMesh: source.exceedsMesh, searchLimit: searchLimit)
    }

    private var reporter: any Reporter { recorder }

    /// Cancels the running transfers at both ends. What has arrived is kept for another try.
    /// - Returns: false when none runs, so that there is nothing to wait for.
    package func cancel() -> Bool { running.cancelAll() }

    /// Reports the interruption as the failure of each target that has not ended, for a process that exits without waiting.
    package func reportInterruption() {
        let open = openTargets.withLock { $0 }
        for (position, target) in open.sorted(by: { $0.key < $1.key }) {
            _ = failed(target, at: position, CommandFailure(.interrupted, "interrupted"))
        }
    }

    /// The positions of the targets that have received everything.
    package var reachedTargets: [Int] { outcomes.withLock(\.reached) }

    /// The positions of the targets to which nothing was sent because of their key: another try would end in the same way.
    package var distrustedTargets: [Int] { outcomes.withLock(\.distrusted) }

    /// - Throws: ``CommandFailure`` when a receiver did not get it.
    package func run(to targets: [Target], on node: Node) async throws {
        recorder.setReceiverCount(targets.count)
        openTargets.withLock { $0 = Dictionary(uniqueKeysWithValues: targets.enumerated().map { ($0.offset, $0.element) }) }
        try await withThrowingTaskGroup(of: Void.self) { progress in
            defer { progress.cancelAll() }
            progress.addTask { await self.reporter.showProgress(of: self.running) }
            let failures = await withTaskGroup(of: CommandFailure?.self) { group in
                for (position, (target, content)) in source.sources(for: targets).enumerated() {
                    group.addTask {
                        let failure = await self.send(content, to: target, at: position, on: node)
                        self.openTargets.withLock { $0[position] = nil }
                        self.outcomes.withLock { $0.record(failure, at: position) }
                        // With one receiver, the failure ends the command.
                        if let failure, targets.count > 1 { self.report(failure, of: target) }
                        return failure
                    }
                }
                var failures: [CommandFailure] = []
                for await failure in group { if let failure { failures.append(failure) } }
                return failures
            }
            guard let first = failures.first else { return }
            if targets.count == 1 { throw first }
            let receiverCount = targets.count - outcomes.withLock(\.repeatedCount)
            let isTotal = failures.count == receiverCount
            throw CommandFailure(
                isTotal ? outcomes.withLock(\.failureStatus) ?? first.status : .partly,
                "\(failures.count) of \(receiverCount) receivers did not get it")
        }
    }

    /// - Parameter position: of the target. A receiver that another one has selected gets nothing a second time.
    private func send(
        _ content: any ResourceSource, to target: Target, at position: Int, on node: Node
    ) async -> CommandFailure? {
        // The other receivers of a shared stream must not wait for one that has ended.
        defer { content.cancel() }
        var progress = NodeProgress()
        do {
            while true {
                do {
                    let found = try await destination(of: target, on: node)
                    if isRepeated(found, at: position) { return nil }
                    switch found {
                    case .direct(let destination) where destination.isLocalSend:
                        try await deviceSend(at: position, on: node).send(content, to: destination)
                    case .direct(let destination):
                        try await directSend(of: content, at: position, on: node).run(to: destination)
                    case .mesh(let mesh, let peer):
                        if peer.software == .nearshare { try requireMesh(to: peer.name) }
                        try await meshSend(mesh).send(content, to: peer, isIDGiven: target.isKey(of: peer.id, peer.name))
                    case .everyone(let mesh): try await meshSend(mesh).sendToEveryone(content)
                    case .node(let contact):
                        if contact.software == .nearshare { try requireMesh(to: contact.name) }
                        if !target.isKey(of: contact.id, contact.name) {
                            try contact.refuseNameClash(in: try? machine.trust.read())
                        }
                        try await sendThroughNode(to: contact, &progress)
                    }
                    return nil
                } catch let error as NodeSendClient.NodeEnded where progress.canGoOn && !running.isCancelled {
                    progress.attemptCount += 1
                    reporter.report(.notice("\(error.description); going on without it"))
                }
            }
        } catch let error as NodeSendClient.NodeEnded {
            return failed(
                target, at: position, CommandFailure(.peerGone, "\(error.description) before it was sent; send it again"))
        } catch {
            return failed(target, at: position, CommandFailure(error))
        }
    }

    /// Whether another target has selected a receiver before, which is reported.
    private func isRepeated(_ found: PeerResolver.Destination, at position: Int) -> Bool {
        let receiver: (id: PeerID, name: DisplayName?)? =
            switch found {
            case .direct(let peer): peer.id.map { ($0, peer.name) }
            case .mesh(_, let peer): (peer.id, peer.name)
            case .node(let contact): (contact.id, contact.name)
            case .everyone: nil
            }
        // The peer at an address is not known before it is connected.
        guard let (id, name) = receiver else { return false }
        return isRepeated(id, name, at: position)
    }

    private func isRepeated(_ id: PeerID, _ name: DisplayName?, at position: Int) -> Bool {
        let isRepeated = outcomes.withLock { !$0.claim(id, at: position) }
        if isRepeated { reporter.report(.notice("\(name?.shown ?? id.hex) is named more than once, and gets it once")) }
        return isRepeated
    }

    /// Refuses what the mesh does not carry to a peer that was not found directly: its machine may have left the network a moment ago,
    /// and be known in the mesh still. Phones have no other path, and with `--via mesh` the user has chosen this one.
    private func requireMesh(to name: DisplayName) throws(CommandFailure) {
        guard source.exceedsMesh, resolver.transport == nil else { return }
        throw CommandFailure(
            .peerNotFound,
            "\(name.shown) was not found on the network, without which only single files of up to 5 MiB are sent; is "
                + "`nearshare receive` running there, on the same network? "
                + "`nearshare doctor` looks for causes")
    }

    /// Reports a failure, unless the end of the target is reported already.
    private func failed(_ target: Target, at position: Int, _ failure: CommandFailure) -> CommandFailure {
        guard openTargets.withLock({ $0.removeValue(forKey: position) }) != nil else { return failure }
        let receiver =
            switch target {
            case .text(let text): text
            case .peer(let peer): peer.name.claimed
            case .everyone: "everyone"
            }
        reporter.report(.failed(receiver: receiver, failure))
        return failure
    }

    /// The state of a send through the node of this machine, which may end at any time.
    private struct NodeProgress: Sendable {
        /// The files that the receiver has.
        var fileCount = 0
        var attemptCount = 0

        /// Whether another way can be tried. It would send all files again.
        var canGoOn: Bool { fileCount == 0 && attemptCount < 3 }
    }

    private func destination(of target: Target, on node: Node) async throws -> PeerResolver.Destination {
        switch target {
        case .peer(let peer): .direct(peer.destination)
        case .text(let text): try await resolver.resolve(text, on: node)
        case .everyone: try await resolver.resolveEveryone(on: node)
        }
    }

    // MARK: The paths

    private func directSend(of content: any ResourceSource, at position: Int, on node: Node) -> DirectSendOperation {
        var follower = self.follower
        // The receiver has everything: no interruption is its failure from then on.
        follower.onCompletion = { self.openTargets.withLock { $0[position] = nil } }
        return DirectSendOperation(
            machine: machine, source: source, content: content, node: node, resolver: resolver, follower: follower,
            timeout: timeout, canResume: canResume, retryTime: retryTime, hotspot: hotspot
        ) { self.isRepeated($0, $1, at: position) }
    }

    private func deviceSend(at position: Int, on node: Node) -> DeviceSendOperation {
        DeviceSendOperation(
            machine: machine, node: node, follower: follower, timeout: timeout, rateLimit: source.rateLimit, pin: pin
        ) { self.isRepeated($0, $1, at: position) }
    }

    private func meshSend(_ mesh: MeshDriver) -> MeshSendOperation {
        MeshSendOperation(
            machine: machine, mesh: mesh, source: source, follower: follower, timeout: timeout, unsealed: unsealed)
    }

    private func sendThroughNode(to contact: Contact, _ progress: inout NodeProgress) async throws {
        let hasNode = try await withRunningNode(of: machine) { client in
            let sender = NodeSendClient(client: client, reporter: reporter, running: running, timeout: timeout)
            switch source.content {
            case .files(let paths):
                for path in paths {
                    guard path.isUTF8 else {
                        throw CommandFailure(
                            .failure,
                            "the node of this machine sends only files whose path is UTF-8; rename \(TerminalText.escaped(path.text))"
                        )
                    }
                    try await sender.sendFile(
                        path.text, to: contact, isPart: paths.count > 1, confirmingUnsealed: unsealed)
                    progress.fileCount += 1
                }
            case .text(let text): try await sender.sendText(text, to: contact)
            case .stream:
                throw CommandFailure(
                    .usage,
                    "standard input cannot go through the mesh while a node runs on this machine; save it as a file and send that"
                )
            }
        }
        guard hasNode else { throw NodeSendClient.NodeEnded() }
    }

    // MARK: Reports

    /// Reports the failure of one of several receivers at once.
    private func report(_ failure: CommandFailure, of target: Target) {
        // The end of each cancelled transfer is reported already.
        guard !running.isCancelled else { return }
        let name =
            switch target {
            case .text(let text): TerminalText.escaped(text)
            case .peer(let peer): peer.name.shown
            case .everyone: "everyone"
            }
        reporter.report(.warning(failure.message.contains(name) ? failure.message : "\(name): \(failure.message)"))
    }
}
