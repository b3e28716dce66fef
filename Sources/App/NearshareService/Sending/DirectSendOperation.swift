internal import Nearshare

/// Sends something to one peer over direct connections: over another one when the link breaks, and in a hotspot where both users
/// want one.
struct DirectSendOperation: Sendable {
    private typealias Attempt = DirectSendState.Attempt

    let machine: LocalMachine
    let source: SendSource
    /// The content of the source that this receiver reads.
    let content: any ResourceSource
    let node: Node
    let resolver: PeerResolver
    let follower: OutgoingTransferFollower
    /// Timeout of the receiver's answer.
    let timeout: Duration
    /// Whether another send of the same content continues where this one broke off.
    let canResume: Bool
    /// Time for a new connection after the link broke, since the last byte that arrived.
    let retryTime: Duration
    /// nil for a transfer that stays on the medium on which the peer was found.
    let hotspot: HotspotRequester?
    /// Whether another target has selected the receiver, which is then reported. Who is at an address is known only when the key is proven.
    let isRepeated: @Sendable (PeerID, DisplayName?) -> Bool

    private var reporter: any Reporter { follower.reporter }
    private var running: RunningTransfers { follower.running }

    /// Sends; when the link breaks, looks for the same peer again on all media of the transport, and continues where it
    /// stopped.
    func run(to first: PeerDestination) async throws {
        // nil once the ends have decided.
        var requester = hotspot
        var destination = first
        var state = DirectSendState(canResume: canResume, retryTime: retryTime)
        // The trust as the first attempt has reported it: only that one asks a receiver at an address for its name.
        var trustStatus: TrustStatus?
        var mismatched = MismatchedAddresses(resolver, on: node)
        var mismatch: CommandFailure?
        while true {
            // Each device is used once.
            let prepared = try await requester?.prepare(for: destination, reporter)
            let attempt = await self.attempt(to: destination, isAgain: state.receiver != nil, reportedAs: trustStatus, prepared)
            await prepared?.stop()
            trustStatus = attempt.trustStatus ?? trustStatus
            requester = prepared != nil && attempt.isHotspotUndecided ? requester?.withConsent : nil
            // Another peer has answered, or none: the announcement may be false.
            let mayBeElsewhere = attempt.isBroken && !attempt.isEndedInHandshake || !attempt.mismatchedAddresses.isEmpty
            if let failure = attempt.failure, mayBeElsewhere, state.receiver == nil, attempt.receiver == nil,
                !running.isCancelled
            {
                if mismatch == nil, !attempt.mismatchedAddresses.isEmpty { mismatch = failure }
                if let found = await mismatched.search(for: destination, without: attempt.mismatchedAddresses) {
                    destination = found
                    continue
                }
                if let mismatch { throw mismatch }
            }
            switch state.step(after: attempt, isCancelled: running.isCancelled, now: SystemClock.monotonic()) {
            case .delivered: return
            case .failed(let failure): throw failure
            case .openAgain(let delay, let failure, let isFirst):
                if isFirst { reporter.report(.warning("\(failure.message); trying again")) }
                try await Task.sleep(for: delay)
            case .reconnect(let receiver, let delay, let since, let isNewLoss):
                let reconnection = state.reconnection
                let known = machine.name(of: receiver, claiming: first.name)
                let name = known?.shown ?? receiver.peerID.hex
                if isNewLoss {
                    if attempt.foundNoSlot, let failure = attempt.failure { reporter.report(.warning(failure.message)) }
                    let timeLeft = reconnection.timeLeft(SystemClock.monotonic())
                    reporter.report(
                        .reconnecting(receiver.peerID, name: name, timeLeft: timeLeft, isBusy: attempt.foundNoSlot))
                }
                try await running.reconnecting(.init(label: name, since: since)) {
                    try await Task.sleep(for: delay)
                    let found = await resolver.resolveAgain(
                        receiver.peerID, on: node, avoiding: reconnection.failedAddresses,
                        timeout: min(reconnection.timeLeft(SystemClock.monotonic()), Reconnection.searchTime))
                    // A peer that is not announced may be back at its address.
                    destination = found ?? PeerDestination(addresses: first.addresses, id: receiver.peerID, name: known)
                    destination.fingerprint = receiver
                }
            }
        }
    }

    /// - Parameters:
    ///   - isAgain: whether a connection to the peer broke before; another key at an address is no reason to end then.
    ///   - trustStatus: that of an earlier attempt.
    private func attempt(
        to destination: PeerDestination, isAgain: Bool = false, reportedAs trustStatus: TrustStatus?,
        _ hotspot: PreparedHotspot? = nil
    ) async -> Attempt {
        let mismatched = Monitor(Set<LinkAddress>())
        do {
            return try await node.withConnection(to: destination) { address in
                mismatched.withLock { _ = $0.insert(address) }
            } body: { connection in
                let peer = connection.proven
                let name = self.machine.name(of: peer.fingerprint, claiming: connection.destination.name)
                if self.isRepeated(peer.id, name) {
                    return Attempt(addresses: [connection.address], receiver: peer.fingerprint)
                }
                return await self.attempt(over: connection, reportedAs: trustStatus, hotspot)
            }
        } catch {
            let isBroken =
                switch error as? NodeError {
                case .identityMismatch: isAgain
                case let error: error?.isTransient ?? false
                }
            return Attempt(
                addresses: destination.addresses, mismatchedAddresses: mismatched.withLock { $0 },
                failure: blockedFailure(error, of: destination) ?? CommandFailure(error, connectingTo: destination),
                isBroken: isBroken,
                isEndedInHandshake: (error as? NodeError)?.isLoss ?? false, isHotspotUndecided: hotspot != nil)
        }
    }

    /// The failure of a connection to a blocked peer, under the name by which the user knows it; nil for another failure.
    private func blockedFailure(_ error: any Error, of destination: PeerDestination) -> CommandFailure? {
        guard case .blocked? = error as? NodeError, let id = destination.id, let name = destination.name else { return nil }
        return CommandFailure(
            ControlFailure.blocked((try? machine.trust.read())?.shownName(claiming: id, named: name) ?? name, id))
    }

    private func attempt(
        over connection: Connection, reportedAs trustStatus: TrustStatus?, _ hotspot: PreparedHotspot?
    ) async -> Attempt {
        var attempt = Attempt(
            addresses: [connection.address], receiver: connection.proven.fingerprint, trustStatus: trustStatus)
        do throws(CommandFailure) {
            try await send(over: connection, &attempt, hotspot)
        } catch {
            attempt.failure = error
            attempt.isBroken = error.status == .peerGone && !connection.isClosedByPeer
            attempt.foundNoSlot = connection.foundNoSlot
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
        let next = await self.attempt(in: path, beside: connection, reportedAs: attempt.trustStatus)
        connection.hotspot.end(next.failure == nil ? .done : .failed)
        let wasActive = await hotspot.stop()
        reporter.report(
            .hotspot(
                .ended(
                    hotspot.plan, with: connection.proven.id, because: wasActive ? nil : .failed,
                    wasActive ? "the hotspot is over" : nil)))
        guard let failure = next.failure, next.isBroken, !running.isCancelled, connection.end == nil else { return next }
        reporter.report(.warning("\(failure.message); going on over Bluetooth"))
        return await self.attempt(over: connection, reportedAs: attempt.trustStatus, nil)
    }

    /// Sends in a hotspot, beside the link over which it was agreed on.
    private func attempt(
        in path: PreparedHotspot.Path, beside connection: Connection, reportedAs trustStatus: TrustStatus?
    ) async -> Attempt {
        let peer = connection.proven
        var destination = PeerDestination(
            addresses: [LinkAddress(host: path.host, port: path.port)], id: peer.id, name: connection.destination.name)
        // No other key has anything to do there (N18).
        destination.fingerprint = peer.fingerprint
        var next = Attempt(addresses: destination.addresses)
        for number in 1...Self.hotspotConnectionCount {
            next = await attempt(to: destination, reportedAs: trustStatus)
            guard next.receiver == nil, next.isBroken, number < Self.hotspotConnectionCount, !running.isCancelled else { break }
            // Timed: both devices have just joined, and the first packets may be lost.
            guard (try? await Task.sleep(for: .seconds(1))) != nil else { break }
        }
        // A link that breaks there is no reason to look for another peer.
        next.receiver = peer.fingerprint
        return next
    }

    /// Connections that are tried in a hotspot.
    private static let hotspotConnectionCount = 3

    private func send(
        over connection: Connection, _ attempt: inout Attempt, _ hotspot: PreparedHotspot?
    ) async throws(CommandFailure) {
        let peer = connection.proven
        let destination = connection.destination
        let known = machine.name(of: peer.fingerprint, claiming: destination.name)
        // The next search finds it there, whatever others announce. Without the record it takes longer at most.
        try? RecentPeers.recordAddress(connection.address, of: peer.id, in: machine.state)
        // Otherwise the user has named this very key.
        if destination.fingerprint == nil, !destination.isIDGiven {
            try NameClash.refuseSend(
                to: peer.fingerprint, connection.trustStatus, claiming: destination.name, in: try? machine.trust.read())
        }
        let trustStatus: TrustStatus
        if let reported = attempt.trustStatus {
            trustStatus = reported
        } else {
            trustStatus = await self.trustStatus(over: connection)
            attempt.trustStatus = trustStatus
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
                await follower.follow(transfer, to: name)
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
        // The link has found no slot, or has given way to another one: the user was not asked, or has not answered.
        if connection.foundNoSlot || result.outcome == .declined(.busy), let end, case .connectionLost = end {
            result = TransferResult(outcome: .interrupted, detail: end.description(naming: name))
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
            follower.report(result, of: transfer, to: peer.id, name: name, content: source.label, canResume: canResume)
            throw failure
        }
        follower.report(result, of: transfer, to: peer.id, name: name, content: source.label, canResume: canResume)
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

    /// The trust in the receiver's key and in its name: that of a receiver of which the user has given the address is the one that
    /// it claims on the link. Warns where that is the name of another known peer (K2).
    private func trustStatus(over connection: Connection) async -> TrustStatus {
        let destination = connection.destination
        guard destination.name == nil, destination.fingerprint == nil,
            let name: DisplayName = await withTimeout(Self.nameTimeout, { try? await connection.peerName }) ?? nil,
            let trust = try? machine.trust.read()
        else { return connection.trustStatus }
        let peer = connection.proven
        let trustStatus = trust.trustStatus(of: peer, claiming: name)
        if case .nameClash(let owner) = trustStatus {
            reporter.report(.warning(NameClash.sentence(about: name, peer.id, ownedBy: owner, in: trust)))
        }
        return trustStatus
    }

    /// Timeout of the name of a receiver. It follows the handshake at once.
    private static let nameTimeout = Duration.seconds(1)

    /// The reason why the link has ended; nil when none is known within a second. A transfer on it ends a moment earlier.
    private func end(of connection: Connection) async -> NodeError? {
        await withTimeout(.seconds(1)) { try? await connection.ending } ?? connection.end
    }

    /// Reports the short code while the receiver's user looks at it: an answer that comes at once is not a user's. Later for a
    /// peer that is verified here: its user is shown a code only if this machine is not verified there.
    private func reportDigits(
        of connection: Connection, whileAsking transfer: Transfer, _ trustStatus: TrustStatus
    ) async {
        let delay: Duration = trustStatus.isVerified ? .seconds(1) : .milliseconds(500)
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
}
