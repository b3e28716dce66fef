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
    private let outcomes = Mutex(TargetOutcomes())

    /// - Parameters:
    ///   - timeout: for the receiver's answer.
    ///   - resumes: continues where an earlier send of the same content broke off.
    ///   - retryTime: for a new connection after the link broke, since the last byte that arrived.
    ///   - transport: nil for the best one that there is.
    ///   - unsealed: nil to send no file that relays can read.
    ///   - pin: gives the PIN of a LocalSend device that requires one; nil where no user can be asked.
    ///   - hotspot: moves a transfer over Bluetooth to a Wi-Fi network that both ends make for it; nil for none.
    ///   - searchLimit: for the search for a receiver that is not found at once; nil for the usual times.
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
        resolver = PeerResolver(
            machine: machine, reporter: recorder, transport: transport, needsDirectPath: hotspot != nil,
            exceedsMesh: source.exceedsMesh, searchLimit: searchLimit)
    }

    private var reporter: any Reporter { recorder }

    /// Cancels the running transfers at both ends. What has arrived is kept for another try.
    /// - Returns: false when none runs, so that there is nothing to wait for.
    package func cancel() -> Bool { running.cancelAll() }

    /// The positions of the targets that have received everything.
    package var reachedTargets: [Int] { outcomes.withLock(\.reached) }

    /// The positions of the targets to which nothing was sent because of their key: another try would end in the same way.
    package var distrustedTargets: [Int] { outcomes.withLock(\.distrusted) }

    /// - Throws: ``CommandFailure`` when a receiver did not get it.
    package func run(to targets: [Target], on node: Node) async throws {
        recorder.setReceiverCount(targets.count)
        try await withThrowingTaskGroup(of: Void.self) { progress in
            defer { progress.cancelAll() }
            progress.addTask { await self.reporter.showProgress(of: self.running) }
            let failures = await withTaskGroup(of: CommandFailure?.self) { group in
                for (position, (target, source)) in source.sources(for: targets).enumerated() {
                    group.addTask {
                        let failure = await self.send(source, to: target, at: position, on: node)
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
                isTotal ? first.status : .partly, "\(failures.count) of \(receiverCount) receivers did not get it")
        }
    }

    /// - Parameter position: of the target. A receiver that another one has selected gets nothing a second time.
    private func send(
        _ source: any ResourceSource, to target: Target, at position: Int, on node: Node
    ) async -> CommandFailure? {
        // The other receivers of a shared stream must not wait for one that has ended.
        defer { source.cancel() }
        var progress = NodeProgress()
        do {
            while true {
                do {
                    let found = try await destination(of: target, on: node)
                    if isRepeated(found, at: position) { return nil }
                    switch found {
                    case .direct(let destination) where destination.isLocalSend:
                        try await sendToDevice(source, to: destination, on: node)
                    case .direct(let destination): try await sendDirectly(source, to: destination, on: node)
                    case .mesh(let mesh, let peer):
                        if peer.software == .nearshare { try requireMesh(to: peer.name) }
                        try await sendThroughMesh(source, to: peer, isIDGiven: target.isKey(of: peer.id, peer.name), mesh)
                    case .everyone(let mesh): try await sendToEveryone(source, mesh)
                    case .node(let contact):
                        if contact.software == .nearshare { try requireMesh(to: contact.name) }
                        if !target.isKey(of: contact.id, contact.name) { try contact.refuseNameClash() }
                        try await sendThroughNode(to: contact, &progress)
                    }
                    return nil
                } catch let error as NodeSendClient.NodeEnded where progress.canGoOn && !running.isCancelled {
                    progress.attemptCount += 1
                    reporter.report(.notice("\(error.description); going on without it"))
                }
            }
        } catch let error as NodeSendClient.NodeEnded {
            return failed(target, CommandFailure(.peerGone, "\(error.description) before it was sent; send it again"))
        } catch {
            return failed(target, CommandFailure(error))
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

    private func failed(_ target: Target, _ failure: CommandFailure) -> CommandFailure {
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

    // MARK: Directly

    /// The end of one try.
    private struct Attempt: Sendable {
        /// The addresses that were tried.
        var addresses: [LinkAddress]
        /// nil when no connection was established.
        var peer: AuthenticatedPeer?
        /// Bytes of content that the receiver has.
        var byteCount: UInt64 = 0
        /// nil when everything was delivered.
        var failure: CommandFailure?
        /// Another connection may get further.
        var isBroken = false
        /// The link has ended before the receiver had proven its key, as where it has too many links.
        var isEndedInHandshake = false
        /// The receiver's address in the hotspot in which the transfer goes on; nil for none.
        var path: PreparedHotspot.Path?
        /// The link broke before the two ends had decided about a hotspot.
        var isHotspotUndecided = false
    }

    /// Sends; when the link breaks, looks for the same peer again on all media of the transport, and continues where it
    /// stopped.
    private func sendDirectly(_ source: any ResourceSource, to first: PeerDestination, on node: Node) async throws {
        // nil once the ends have decided.
        var requester = hotspot
        var destination = first
        var reconnection = Reconnection(timeout: retryTime)
        // The tries before the first handshake has succeeded.
        var opening = Reconnection(timeout: retryTime)
        // The failure of the first broken link, thrown when no other try gets further.
        var linkFailure: CommandFailure?
        var peer: AuthenticatedPeer?
        var brokenSince: MonotonicInstant?
        // Bytes of content that the receiver has.
        var byteCount: UInt64 = 0
        while true {
            // Each device is used once.
            let prepared = try await requester?.prepare(for: destination, reporter)
            let attempt = await attempt(source, to: destination, isAgain: peer != nil, prepared, on: node)
            await prepared?.stop()
            requester = prepared != nil && attempt.isHotspotUndecided ? requester?.withConsent : nil
            guard let failure = attempt.failure else { return }
            let isFirstEnd = opening.failedAddresses.isEmpty
            if peer == nil, attempt.isEndedInHandshake, !running.isCancelled,
                let delay = opening.delay(
                    afterFailureAt: attempt.addresses, byteCount: 0, now: SystemClock.monotonic())
            {
                if isFirstEnd { reporter.report(.warning("\(failure.message); trying again")) }
                try await Task.sleep(for: delay)
                continue
            }
            // A try that has moved nothing, such as one that the receiver refuses while it still holds the broken link, is no
            // second loss.
            let isNewLoss = brokenSince == nil || attempt.byteCount > byteCount
            byteCount = max(byteCount, attempt.byteCount)
            if isNewLoss { brokenSince = SystemClock.monotonic() }
            if let proven = attempt.peer {
                peer = proven
                if attempt.isBroken { linkFailure = failure }
            }
            // After a transfer has begun, a peer that cannot be reached is a broken link as well.
            let canRetry = attempt.isBroken && linkFailure != nil && canResume && !running.isCancelled
            let now = SystemClock.monotonic()
            guard canRetry, let peer, let brokenSince,
                let delay = reconnection.delay(
                    afterFailureAt: attempt.addresses, byteCount: attempt.byteCount, now: now)
                // An answer of the peer counts more than the break before it.
            else { throw attempt.isBroken || attempt.peer == nil ? linkFailure ?? failure : failure }
            let name = machine.name(of: peer.fingerprint, claiming: first.name)?.shown ?? peer.id.hex
            if isNewLoss {
                reporter.report(
                    .reconnecting(peer.id, name: name, timeLeft: reconnection.timeLeft(now)))
            }
            try await running.reconnecting(.init(label: name, since: brokenSince)) {
                try await Task.sleep(for: delay)
                let found = await resolver.resolveAgain(
                    peer.id, on: node, avoiding: reconnection.failedAddresses,
                    timeout: min(reconnection.timeLeft(SystemClock.monotonic()), Reconnection.searchTime))
                // A peer that is not announced may be back at its address.
                destination = found ?? PeerDestination(addresses: first.addresses, id: peer.id, name: first.name)
                destination.fingerprint = peer.fingerprint
            }
        }
    }

    /// - Parameter isAgain: whether a connection to the peer broke before; another key at an address is no reason to end then.
    private func attempt(
        _ source: any ResourceSource, to destination: PeerDestination, isAgain: Bool = false,
        _ hotspot: PreparedHotspot? = nil, on node: Node
    ) async -> Attempt {
        do {
            return try await node.withConnection(to: destination) { connection in
                await self.attempt(source, over: connection, hotspot, on: node)
            }
        } catch {
            let isBroken =
                switch error as? NodeError {
                case .identityMismatch: isAgain
                case let error: error?.isTransient ?? false
                }
            return Attempt(
                addresses: destination.addresses,
                failure: blockedFailure(error, of: destination) ?? Self.failure(error, to: destination), isBroken: isBroken,
                isEndedInHandshake: (error as? NodeError)?.isLoss ?? false, isHotspotUndecided: hotspot != nil)
        }
    }

    /// The failure of a connection to a blocked peer, under the name by which the user knows it; nil for another failure.
    private func blockedFailure(_ error: any Error, of destination: PeerDestination) -> CommandFailure? {
        guard case .blocked? = error as? NodeError, let id = destination.id, let name = destination.name else { return nil }
        return CommandFailure(
            ControlFailure.blocked((try? machine.trust.read())?.shownName(claiming: id, named: name) ?? name, id))
    }

    /// The failure of a connection, with advice for the other machine whose port does not answer.
    static func failure(_ error: any Error, to destination: PeerDestination) -> CommandFailure {
        var failure = CommandFailure(error)
        guard let address = destination.addresses.last, address.medium == .network else { return failure }
        switch error as? NodeError {
        case .unreachable, .timedOut:
            guard let name = destination.name else {
                failure.message +=
                    "; check the address, that `nearshare receive` runs there, that port \(address.port) is the one it shows, and that "
                    + "no firewall drops it (`sudo nearshare doctor` there)"
                return failure
            }
            failure.message =
                "found \(name.quoted), but \(failure.message); a firewall there may drop it: `sudo nearshare doctor` on that "
                + "machine says so"
            // Any peer can announce another port under that name, and have the user open it.
            if address.port == Node.defaultPort {
                failure.message += ", and `sudo ufw allow \(address.port)/tcp` or its like opens the port"
            }
        default: break
        }
        return failure
    }

    private func attempt(
        _ content: any ResourceSource, over connection: Connection, _ hotspot: PreparedHotspot?, on node: Node
    ) async -> Attempt {
        var attempt = Attempt(addresses: [connection.address], peer: connection.proven)
        do throws(CommandFailure) {
            try await send(content, over: connection, &attempt, hotspot)
        } catch {
            attempt.failure = error
            attempt.isBroken = error.status == .peerGone && !connection.isClosedByPeer
        }
        guard let hotspot, let path = attempt.path else {
            attempt.isHotspotUndecided = hotspot != nil && [nil, .linkLost].contains(connection.hotspot.endReason)
            return attempt
        }
        reporter.report(
            .hotspot(
                HotspotStep(
                    .active, with: connection.proven.id, network: path.network, interface: hotspot.plan.interface,
                    "going on over the hotspot \(path.network)")))
        let next = await self.attempt(content, in: path, beside: connection, on: node)
        connection.hotspot.end(next.failure == nil ? .done : .failed)
        let wasActive = await hotspot.stop()
        reporter.report(
            .hotspot(
                .ended(
                    hotspot.plan, with: connection.proven.id, because: wasActive ? nil : .failed,
                    wasActive ? "the hotspot is over" : nil)))
        guard let failure = next.failure, next.isBroken, !running.isCancelled, connection.end == nil else { return next }
        reporter.report(.warning("\(failure.message); going on over Bluetooth"))
        return await self.attempt(content, over: connection, nil, on: node)
    }

    /// Sends in a hotspot, beside the link over which it was agreed on.
    private func attempt(
        _ content: any ResourceSource, in path: PreparedHotspot.Path, beside connection: Connection, on node: Node
    ) async -> Attempt {
        let peer = connection.proven
        var destination = PeerDestination(
            addresses: [LinkAddress(host: path.host, port: path.port)], id: peer.id, name: connection.destination.name)
        // No other key has anything to do there (N18).
        destination.fingerprint = peer.fingerprint
        var next = Attempt(addresses: destination.addresses)
        for number in 1...Self.hotspotConnectionCount {
            next = await attempt(content, to: destination, on: node)
            guard next.peer == nil, next.isBroken, number < Self.hotspotConnectionCount, !running.isCancelled else { break }
            // Timed: both devices have just joined, and the first packets may be lost.
            guard (try? await Task.sleep(for: .seconds(1))) != nil else { break }
        }
        // A link that breaks there is no reason to look for another peer.
        next.peer = peer
        return next
    }

    /// Connections that are tried in a hotspot.
    private static let hotspotConnectionCount = 3

    private func send(
        _ content: any ResourceSource, over connection: Connection, _ attempt: inout Attempt, _ hotspot: PreparedHotspot?
    ) async throws(CommandFailure) {
        let trustStatus = connection.trustStatus
        let peer = connection.proven
        let destination = connection.destination
        let known = machine.name(of: peer.fingerprint, claiming: destination.name)
        // The next search finds it there, whatever others announce. Without the record it takes longer at most.
        try? RecentPeers.recordAddress(connection.address, of: peer.id, in: machine.state)
        // Otherwise the user has named this very key.
        if destination.fingerprint == nil, !destination.isIDGiven {
            try refuseOtherPeer(peer.fingerprint, trustStatus, claiming: destination.name)
        }
        let transfer = connection.send(
            content, resumeKey: resumeKey(of: content.offer), timeout: timeout, rateLimit: source.rateLimit)
        let name = known?.shown ?? connection.address.description
        let trust = TrustRecorder(machine: machine, reporter: reporter)
        if let warning = trust.downgradeWarning(of: peer, to: connection.version, name: name) {
            reporter.report(.warning(warning))
        }
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: transfer.id, peer: peer.id, receiver: known?.claimed ?? connection.address.description,
                    name: known?.quoted ?? TerminalText.quoted(name), trustStatus: trustStatus,
                    path: .direct(connection.address))))
        let moved = Promise<PreparedHotspot.Path>()
        var result = await running.following(transfer, label: TransferLabel(source.label, to: name)) {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.reportDigits(of: connection, whileAsking: transfer, trustStatus) }
                if let hotspot {
                    group.addTask { [reporter] in
                        guard let path = await hotspot.agree(over: connection, for: transfer, with: name, reporter) else {
                            return
                        }
                        moved.fulfil(path)
                        connection.suspend(transfer)
                    }
                }
                await follow(transfer, to: name)
                group.cancelAll()
            }
            return await transfer.result
        }
        attempt.byteCount = transfer.snapshot.done
        // Before the first byte there is nothing that another try would continue.
        let canResume = canResume && attempt.byteCount > 0
        if let path = moved.current, result.outcome == .interrupted, !running.isCancelled {
            attempt.path = path
            return
        }
        let mayBeClosed = [.interrupted, .declined(.busy)].contains(result.outcome)
        let end = mayBeClosed ? await self.end(of: connection) : nil
        // The link has given way to another one: the user was not asked, or has not answered.
        if result.outcome == .declined(.busy), let end, case .connectionLost = end {
            result = TransferResult(outcome: .interrupted, detail: end.description)
        }
        // Another try would end in the same way.
        if let end, !end.isTransient {
            var failure = CommandFailure(end)
            switch end {
            case .refused:
                failure.message = end.description(naming: name)
                result = TransferResult(outcome: .declined(.acceptsNothing))
            // This node is stopping: the receiver keeps what it has.
            case .unavailable: break
            default: result = TransferResult(outcome: .failed(.refused, at: .local))
            }
            report(result, of: transfer, to: peer.id, name: name, content: source.label, canResume: canResume)
            throw failure
        }
        report(result, of: transfer, to: peer.id, name: name, content: source.label, canResume: canResume)
        // A receiver that has taken a part has accepted, and knows this machine from then on as well.
        if result.isStored || attempt.byteCount > 0, let name = try? await connection.peerName {
            try? machine.trust.recordContact(
                with: peer, named: name, version: connection.version, at: SystemClock.wall())
        }
        guard result.outcome == .completed else {
            // A link that broke has no reason but that.
            let reason = connection.isClosedByPeer ? end?.description(naming: name) : nil
            throw CommandFailure(
                ExitStatus(result),
                result.detail ?? reason
                    ?? result.outcome.sentence(
                        name, canResume: canResume, content: source.label, entryCount: content.offer.entryCount))
        }
    }

    /// The reason why the link has ended; nil when none is known within a second. A transfer on it ends a moment earlier.
    private func end(of connection: Connection) async -> NodeError? {
        await withTimeout(.seconds(1)) { try? await connection.ending } ?? connection.end
    }

    /// Reports the short code while the receiver's user looks at it: an answer that comes at once is not a user's. Later for a
    /// peer that is verified here: its user is shown a code only if this machine is not verified there.
    private func reportDigits(
        of connection: Connection, whileAsking transfer: Transfer, _ trustStatus: TrustStatus
    ) async {
        let delay: Duration = trustStatus.isVerified ? .seconds(3) : .milliseconds(500)
        guard (try? await Task.sleep(for: delay)) != nil, transfer.snapshot.phase == .waiting,
            let digits = try? await connection.authenticationDigits, let claimed = try? await connection.peerName,
            // The answer may have come meanwhile.
            transfer.snapshot.phase == .waiting, !Task.isCancelled
        else { return }
        let peer = connection.proven
        reporter.report(
            .authenticationDigits(
                peer.id, machine.name(of: peer.fingerprint, claiming: claimed), digits, isKnown: trustStatus.isKnown))
    }

    /// A key for resuming: the same content sent again has the same, so that the receiver finds what it kept; a random one
    /// finds nothing.
    private func resumeKey(of offer: Offer) -> [UInt8] {
        guard canResume else { return LocalMachine.randomBytes(32) }
        return ResumeKey.derive(from: offer)
    }

    // MARK: With LocalSend

    private func sendToDevice(_ content: any ResourceSource, to destination: PeerDestination, on node: Node) async throws {
        let target: LocalSendTarget
        do {
            target = try await node.localSendTarget(destination)
        } catch {
            throw Self.failure(error, to: destination)
        }
        let peer = target.peer
        let known = machine.name(of: peer.fingerprint, claiming: target.name)
        let name = known.shown
        let trust = try machine.trust.read()
        let trustStatus = trust.trustStatus(of: peer.fingerprint, claiming: target.name)
        // The name by which the user has chosen it, too: the device says another one only now (F16).
        for claimed in [target.name, destination.name].compactMap(\.self) {
            guard case .nameClash(let other) = trust.trustStatus(of: peer.fingerprint, claiming: claimed) else { continue }
            throw CommandFailure(
                .notTrusted,
                "nothing was sent: \(claimed.shown) has another certificate than the device that you know by that name (\(other.peerID), now "
                    + "\(peer.id)); if it is a new device, or LocalSend was installed again, `nearshare peers forget "
                    + "\(other.peerID)`; otherwise another device uses the name")
        }
        if trustStatus.isBlocked { throw NodeError.blocked(name) }
        let content = content.offer.totalSize == nil ? try await spool(content) : content
        let transfer = try node.send(content, to: target, timeout: timeout, rateLimit: source.rateLimit) { [pin] wasWrong in
            await pin?.ask(name, wasWrong)
        }
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: transfer.id, peer: peer.id, receiver: known.claimed, name: known.quoted, trustStatus: trustStatus,
                    path: .localSend(target.address, certificate: target.foreign.certificate ?? []))))
        let result = await finish(transfer, of: content, to: name)
        if result.outcome == .completed, let certificate = target.foreign.certificate {
            _ = try? machine.trust.update {
                $0.recordDevice(peer.fingerprint, certificate: certificate, named: target.name, at: SystemClock.wall())
            }
        }
        try conclude(result, of: transfer, content, to: peer.id, name: name, isDevice: true)
    }

    /// Reads standard input to its end: LocalSend needs to know the size beforehand.
    private func spool(_ stream: any ResourceSource) async throws -> any ResourceSource {
        reporter.report(.notice("reading standard input to its end first: LocalSend needs to know the size beforehand"))
        var generator = SystemRandomNumberGenerator()
        let reading = Transfer(
            progress: TransferProgress(
                id: TransferID(using: &generator), direction: .outgoing, total: nil, totalEntries: 1),
            clock: SystemClock.monotonic)
        reading.onCancel { stream.cancel() }
        let path = machine.state.path
        let read: Result<SpooledSource, StorageError> = try await running.reading(reading) {
            try await BlockingThread.run {
                do throws(StorageError) {
                    return .success(
                        try SpooledSource(try stream.makeReader(), in: path) { reading.recordProgress(to: $0, of: nil) })
                } catch {
                    return .failure(error)
                }
            }
        }
        do throws(StorageError) {
            return try read.get()
        } catch  where running.isCancelled {
            throw CommandFailure.silent(.interrupted)
        } catch {
            throw CommandFailure(
                error.code == .overLimit || error.code == .noSpace ? .noSpace : .failure,
                "standard input was not sent: \(error), and LocalSend needs to know the size beforehand; save it as a file, and send that"
            )
        }
    }

    // MARK: Through the mesh

    private func sendThroughMesh(
        _ content: any ResourceSource, to peer: MeshPeer, isIDGiven: Bool, _ mesh: MeshDriver
    ) async throws {
        let known = machine.name(of: peer.fingerprint, claiming: peer.name)
        let name = known.shown
        let trustStatus = try machine.trust.read().trustStatus(of: peer.fingerprint, claiming: peer.name)
        if !isIDGiven { try refuseOtherPeer(peer.fingerprint, trustStatus, claiming: peer.name) }
        if trustStatus.isBlocked { throw NodeError.blocked(name) }
        for part in try source.parts?() ?? [content] {
            if try await send(part, to: peer, named: known, trustStatus, isEncrypted: true, mesh) { continue }
            guard await unsealed?.ask(name) == true else { throw UnsealedConfirmation.refusal(of: name) }
            _ = try await send(part, to: peer, named: known, trustStatus, isEncrypted: false, mesh)
        }
    }

    /// - Returns: false where the app of the peer takes no sealed files, and the user can be asked.
    private func send(
        _ part: any ResourceSource, to peer: MeshPeer, named known: DisplayName, _ trustStatus: TrustStatus, isEncrypted: Bool,
        _ mesh: MeshDriver
    ) async throws -> Bool {
        let name = known.shown
        let transfer = try mesh.send(part, to: peer, isEncrypted: isEncrypted, timeout: timeout)
        let estimate = part.offer.totalSize.flatMap { mesh.estimate(byteCount: $0, to: peer) } ?? .zero
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: transfer.id, peer: peer.id, receiver: known.claimed, name: known.quoted, trustStatus: trustStatus,
                    path: .mesh(isNeighbour: peer.isDirect, estimate: estimate), isEncrypted: isEncrypted,
                    part: source.parts == nil ? nil : (OfferText.summary(part.offer), part.offer.totalSize))))
        let result = MeshAdvice.completed(
            await finish(transfer, of: part, to: name), to: peer.software == .nearshare ? .nearshare : .phone)
        if isEncrypted, unsealed != nil, result.outcome == UnsealedConfirmation.occasion { return false }
        let shown = isEncrypted ? UnsealedConfirmation.withAdvice(result, for: name) : result
        try conclude(shown, of: transfer, part, to: peer.id, name: name)
        return true
    }

    private func sendToEveryone(_ content: any ResourceSource, _ mesh: MeshDriver) async throws {
        guard let everyone = Contact.everyone else { return }
        for part in try source.parts?() ?? [content] {
            let transfer = try mesh.send(part, to: nil, timeout: timeout)
            let notice = part.offer.totalSize.flatMap { MeshAdvice.forFileToEveryone(byteCount: $0, among: mesh.peers) }
            if let notice { reporter.report(.notice(notice)) }
            reporter.report(
                .inviting(
                    OutgoingInvitation(
                        transfer: transfer.id, peer: everyone.id, receiver: everyone.name.claimed, name: everyone.name.shown,
                        trustStatus: .new, path: .node)))
            let result = MeshAdvice.completed(await finish(transfer, of: part, to: everyone.name.shown), to: nil)
            try conclude(result, of: transfer, part, to: everyone.id, name: everyone.name.shown)
        }
    }

    private func finish(_ transfer: Transfer, of part: any ResourceSource, to name: String) async -> TransferResult {
        await running.following(transfer, label: TransferLabel(OfferText.summary(part.offer), to: name)) {
            await follow(transfer, to: name)
            return await transfer.result
        }
    }

    /// Ends a transfer through the mesh or to a LocalSend device, neither of which is resumed.
    private func conclude(
        _ result: TransferResult, of transfer: Transfer, _ part: any ResourceSource, to peer: PeerID, name: String,
        isDevice: Bool = false
    ) throws(CommandFailure) {
        report(
            result, of: transfer, to: peer, name: name, content: OfferText.summary(part.offer), canResume: false,
            isDevice: isDevice)
        guard result.outcome == .completed else {
            throw CommandFailure(
                ExitStatus(result),
                result.detail ?? result.outcome.sentence(name, canResume: false, content: OfferText.summary(part.offer)))
        }
    }

    // MARK: Through the node

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

    /// - Parameter receiver: escaped.
    private func follow(_ transfer: Transfer, to receiver: String) async {
        var last = TransferProgress.Phase.connecting
        var isPartReported = false
        var reported: UInt64 = 0
        for await progress in transfer.progress {
            if progress.phase != last {
                switch progress.phase {
                case .waiting: reporter.report(.waitingForAnswer(transfer.id))
                case .comparing: reporter.report(.acceptedByReceiver(transfer.id))
                case .moving where progress.resumed > 0: reporter.report(.resumed(transfer.id, offset: progress.resumed))
                default: break
                }
                last = progress.phase
            }
            if let part = progress.part, !isPartReported {
                isPartReported = true
                reporter.report(.partAccepted(transfer.id, part, by: receiver))
            }
            if progress.isReported(after: reported) {
                reported = progress.done
                reporter.report(.progress(progress))
            }
        }
    }

    private func report(
        _ result: TransferResult, of transfer: Transfer, to peer: PeerID, name: String, content: String, canResume: Bool,
        isDevice: Bool = false
    ) {
        let progress = transfer.snapshot
        reporter.report(
            .sent(
                SendResult(
                    transfer: transfer.id, peer: peer, outcome: result.outcome, detail: result.detail,
                    label: TransferLabel(content, to: name).text, content: content,
                    byteCount: progress.done, resumedByteCount: progress.resumed, canResume: canResume,
                    changedNames: result.changedNames, compared: result.compared, part: progress.part,
                    receiver: name, missing: result.missing, isConfirmed: result.isConfirmed, isDevice: isDevice)))
    }

    /// Stops a send to a peer that answers to the name of another known one (K2).
    private func refuseOtherPeer(
        _ fingerprint: Fingerprint, _ trustStatus: TrustStatus, claiming name: DisplayName?
    ) throws(CommandFailure) {
        let trust = try? machine.trust.read()
        let owner: Fingerprint? =
            if case .nameClash(let owner) = trustStatus {
                owner
            } else {
                name.flatMap { trust?.otherOwner(of: $0, claimedBy: fingerprint) }
            }
        guard let owner else { return }
        let known = name.map { trust?.name(of: fingerprint, claiming: $0) ?? $0 }
        throw CommandFailure(.notTrusted, NameClash.refusal(of: known, fingerprint.peerID, ownedBy: owner))
    }
}
