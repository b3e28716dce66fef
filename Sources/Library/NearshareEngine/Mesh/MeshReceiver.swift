internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Receives files and texts of peers in the mesh: offers them as invitations, and delivers those that are accepted.
final class MeshReceiver: Sendable {
    private let settings: NodeSettings
    private let router: RouterDriver
    private let tasks: OwnedTasks
    /// The node's tasks: the user can decide about content that was received before the node has left the mesh.
    private let nodeTasks: OwnedTasks
    private let transfers: TransferProgressManager
    private let promptLimiter: SharedPromptLimiter
    /// nil for a node that accepts no offers.
    private let invitations: AsyncQueue<Invitation>?
    private let incoming = Mutex(IncomingMeshTransfers())
    private let undecided = Mutex(UndecidedContent())
    private let dropReports: ReportLimiter

    init(
        _ settings: NodeSettings, router: RouterDriver, tasks: OwnedTasks, nodeTasks: OwnedTasks,
        transfers: TransferProgressManager, promptLimiter: SharedPromptLimiter,
        invitations: AsyncQueue<Invitation>?
    ) {
        (self.settings, self.router, self.tasks, self.transfers) = (settings, router, tasks, transfers)
        self.nodeTasks = nodeTasks
        (self.promptLimiter, self.invitations) = (promptLimiter, invitations)
        dropReports = ReportLimiter(interval: .seconds(60), clock: settings.clock)
    }

    // MARK: Texts

    /// Sends a receipt for a text.
    func acknowledge(_ messageID: String, of peer: PeerID) {
        router.update { router, now in router.acknowledge(messageID, of: peer, now: now) }
    }

    /// Offers a text to the user once, however often it is received. Its sender gets a receipt when it was accepted.
    func offerText(_ text: String, id: String, from peer: AuthenticatedPeer) {
        let key = IncomingMeshTransfers.TextKey(id: id, sender: peer.id)
        switch incoming.withLock({ $0.isAccepted(key) }) {
        case true?: return acknowledge(id, of: peer.id)
        case false?: return
        case nil: break
        }
        let file = MeshFile(name: "message.txt", mediaType: ClaimedMediaType.text.text, content: Array(text.utf8)[...])
        let isOffered = offerReceived(file, kind: .text, from: peer, resumeKey: settings.random(32)) { [weak self] in
            guard let self else { return }
            incoming.withLock { $0.recordAcceptance(key) }
            acknowledge(id, of: peer.id)
        }
        if isOffered { incoming.withLock { $0.recordOffer(key) } }
    }

    // MARK: Invitations

    func invite(_ offer: MeshFileOffer, from authenticated: AuthenticatedPeer) {
        let key = MeshFileKey(offer.id, with: authenticated.id)
        guard let peer = inviter(authenticated) else {
            return router.update { router, now in router.decline(key, because: .acceptsNothing, now: now) }
        }
        guard let prompt = promptLimiter.admit(peer, on: .mesh(linkSource(of: peer.id))) else {
            return router.update { router, now in router.decline(key, because: .busy, now: now) }
        }
        let item = OfferedItem(
            kind: .file, name: offer.name, size: UInt64(offer.size), entryCount: 1,
            mediaType: ClaimedMediaType(offer.mediaType) ?? .unknown)
        let answering = Invitation.Answering(
            accept: { [weak self] transfer, sink, _, _ in
                self?.accept(offer, key, isFromFriend: peer.trustStatus.isFriend, as: transfer, into: sink)
            },
            decline: { [weak self] reason in
                self?.router.update { router, now in
                    router.decline(key, because: MeshFileControl.DeclineReason(reason), now: now)
                }
            }, prompt: prompt)
        let invitation = makeInvitation(
            item, from: peer, resumeKey: offer.id.bytes, timeout: Self.invitationTimeout, answering: answering)
        incoming.withLock { $0.insert(invitation, key) }
        invitations?.enqueue(invitation)
    }

    /// - Parameter isSignatureProven: false for what another peer could have signed in this one's name.
    /// - Returns: nil for a blocked peer, and on a node that accepts no offers.
    private func inviter(_ authenticated: AuthenticatedPeer, isSignatureProven: Bool = true) -> Peer? {
        let name = router.read { $0.peer(authenticated.id)?.name } ?? Self.placeholderName(of: authenticated.id)
        let status = settings.trustStatus(authenticated, name)
        guard invitations != nil, !status.isBlocked else { return nil }
        return Peer(
            proven: authenticated, name: name, trustStatus: isSignatureProven ? status : .new, address: nil, version: nil)
    }

    /// The source of the link over which a peer is reached, for which its prompts and undecided content count: identities in the
    /// mesh are free, links to this node are not. nil where it is not known.
    private func linkSource(of id: PeerID) -> MeshLinkSource? { router.read { $0.linkShare(of: id)?.source } }

    /// The id in place of the name of a peer that has not announced one.
    private static func placeholderName(of id: PeerID) -> DisplayName {
        // Safe: 16 hexadecimal digits are a valid name.
        DisplayName(truncating: id.hex)!
    }

    private func makeInvitation(
        _ item: OfferedItem, from peer: Peer, resumeKey: [UInt8], isForEveryone: Bool = false, timeout: Duration? = nil,
        answering: Invitation.Answering
    ) -> Invitation {
        var progress = TransferProgress(id: settings.freshTransferID(), direction: .incoming, total: item.size, totalEntries: 1)
        progress.phase = .waiting
        let invitation = Invitation(
            peer: peer, offer: Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: item.size), context: [],
            resumeKey: resumeKey, isForEveryone: isForEveryone, expiry: timeout.map { settings.clock() + $0 },
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: transfers, answering: answering)
        // The mesh has no link between the two peers alone, whose authentication string they could compare.
        invitation.finishWithoutShortCode()
        return invitation
    }

    private func accept(
        _ offer: MeshFileOffer, _ key: MeshFileKey, isFromFriend: Bool, as transfer: Transfer, into sink: any ResourceSink
    ) {
        incoming.withLock { incoming in
            incoming.accept(
                IncomingMeshTransfers.File(
                    transfer: transfer, sink: SingleThreaded(sink), size: UInt64(offer.size)), key)
        }
        transfer.startFragments(of: Int(offer.fragmentCount))
        transfer.onCancel { [weak self] in self?.router.update { router, now in router.cancelReceiving(key, now: now) } }
        router.update { router, now in router.accept(key, isFromFriend: isFromFriend, now: now) }
        // The sender may have withdrawn it meanwhile.
        if !router.read({ $0.isReceiving(key) }) { endReceiving(key, .cancelledByPeer) }
    }

    func handle(_ progress: MeshFragmentProgress) {
        guard let key = progress.file.map({ MeshFileKey($0, with: progress.sender) }),
            let file = incoming.withLock({ $0[key] })
        else { return }
        file.transfer.recordProgress(fragments: progress.received, of: progress.total, size: file.size)
    }

    func endReceiving(_ key: MeshFileKey, _ outcome: MeshFileOutcome) {
        let (invitation, file) = incoming.withLock { $0.remove(key) }
        let transferOutcome: TransferOutcome =
            switch outcome {
            case .cancelledLocally: .cancelled(by: .local)
            case .cancelledByPeer: .cancelled(by: .remote)
            case .declined(.expired): .expired
            default: .interrupted
            }
        invitation?.end(outcome == .declined(.busy) ? .declined(.busy) : transferOutcome)
        guard let file else { return }
        file.sink.value.discard()
        let detail: String? =
            switch outcome {
            case .lost: "not all of it has arrived over the mesh; it has to be sent again"
            case .declined(.busy): "files of others took its place in the mesh; it has to be sent again"
            default: nil
            }
        file.transfer.end(TransferResult(outcome: transferOutcome, detail: detail))
    }

    // MARK: Complete files

    func handle(_ received: MeshReceivedFile) {
        if received.wasAccepted {
            deliverAccepted(received)
        } else if let sender = received.authenticatedSender {
            offerReceived(received.file, kind: .file, from: sender, resumeKey: received.id.bytes)
        } else {
            keepUntilAuthenticated(received)
        }
    }

    private func deliverAccepted(_ received: MeshReceivedFile) {
        let key = MeshFileKey(received.id, with: received.sender)
        guard let file = incoming.withLock({ $0.removeFile(key) }) else { return }
        file.transfer.enter(.finishing)
        let isStarted = tasks.start { [self] in
            let result = await Self.deliver(received.file, into: file.sink)
            // Confirmed before the transfer ends: the program may stop the node as soon as it ends.
            router.update { router, now in
                if result.outcome == .completed {
                    router.confirmStored(key, now: now)
                } else {
                    router.decline(key, because: .tooLarge, now: now)
                }
            }
            file.transfer.end(result)
        }
        if !isStarted { file.transfer.end(TransferResult(outcome: .interrupted)) }
    }

    /// Keeps a signed public file until a session authenticates the sender's key, by which users know the sender.
    private func keepUntilAuthenticated(_ received: MeshReceivedFile) {
        guard invitations != nil else { return }
        // A session may exist already.
        let sender = router.read { $0.authenticatedPeer(received.sender) }
        if let sender, inviter(sender) == nil { return }
        incoming.withLock { $0.keepUnauthenticated(received) }
        router.update { router, now in router.ensureSession(with: received.sender, now: now) }
        if let sender { offerAuthenticated(by: sender) }
    }

    /// Offers the public files of a peer that has proven its id in a session. The peer says there which key it signs with; what
    /// another key has signed is forged (K14). Older apps say nothing: after a while, their files are offered as those of a new
    /// peer.
    func offerAuthenticated(by peer: AuthenticatedPeer) {
        offerKept(by: peer, unproven: false)
        guard incoming.withLock({ $0.unauthenticatedSenders.contains(peer.id) }) else { return }
        tasks.start { [self] in
            guard await !tasks.stopping.isFulfilled(within: Self.statementTimeout) else { return }
            offerKept(by: peer, unproven: true)
        }
    }

    /// Offers the kept files of peers whose state has changed.
    func offerAuthenticated(by ids: Set<PeerID>) {
        for id in incoming.withLock({ $0.unauthenticatedSenders }) where ids.contains(id) {
            if let peer = router.read({ $0.authenticatedPeer(id) }) { offerKept(by: peer, unproven: false) }
        }
    }

    /// - Parameter unproven: whether files are offered whose signing key the peer has not stated.
    private func offerKept(by peer: AuthenticatedPeer, unproven: Bool) {
        for file in incoming.withLock({ $0.removeUnauthenticated(from: peer.id) }) {
            switch router.read({ router in file.signingKey.map { router.status(of: $0, of: peer.id) } ?? .unknown }) {
            case .proven:
                offerReceived(
                    file.file, kind: .file, from: peer, resumeKey: file.id.bytes, isForEveryone: file.isForEveryone)
            case .forged: settings.log.warning("mesh: a file in the name of \(peer.id) is forged, and was dropped")
            case .unknown where unproven:
                offerReceived(
                    file.file, kind: .file, from: peer, isSignatureProven: false, resumeKey: file.id.bytes,
                    isForEveryone: file.isForEveryone)
            case .unknown: incoming.withLock { $0.keepUnauthenticated(file) }
            }
        }
    }

    /// Offers content that has been received already, because the sender's app does not ask first. It stays in memory until the
    /// user decides; that of a peer that the user does not know ends after a while.
    /// - Parameter onDelivery: called when the content is in its final place.
    /// - Returns: whether the user is asked.
    @discardableResult
    private func offerReceived(
        _ file: MeshFile, kind: OfferedItem.Kind, from authenticated: AuthenticatedPeer, isSignatureProven: Bool = true,
        resumeKey: [UInt8], isForEveryone: Bool = false, onDelivery: @escaping @Sendable () -> Void = {}
    ) -> Bool {
        guard let peer = inviter(authenticated, isSignatureProven: isSignatureProven) else { return false }
        let source = linkSource(of: peer.id)
        guard let prompt = promptLimiter.admit(peer, on: .mesh(source)) else { return false }
        let origin = UndecidedContent.Origin(peer: peer.id, link: source, isKnown: peer.trustStatus.isKnown)
        guard let (content, dropped) = undecided.withLock({ $0.insert(file, from: origin) }) else {
            reportDrop(of: peer.id)
            return false
        }
        for other in dropped {
            reportDrop(of: other.origin.peer)
            other.invitation?.object?.end(.declined(.busy))
        }
        let item = OfferedItem(
            kind: kind, name: file.claimedName, size: UInt64(file.content.count), entryCount: 1,
            mediaType: file.mediaType.flatMap { ClaimedMediaType($0) } ?? .unknown)
        let id = content.id
        let answering = Invitation.Answering(
            accept: { [weak self] transfer, sink, _, _ in
                self?.accept(id, transfer, SingleThreaded(sink), onDelivery: onDelivery)
            },
            decline: { [weak self] _ in _ = self?.undecided.withLock { $0.remove(id) } }, prompt: prompt)
        let timeout = origin.isKnown ? nil : settings.undecidedContentTimeout
        let invitation = makeInvitation(
            item, from: peer, resumeKey: resumeKey, isForEveryone: isForEveryone, timeout: timeout, answering: answering)
        undecided.withLock { $0.setInvitation(invitation, of: id) }
        invitations?.enqueue(invitation)
        let isStarted = nodeTasks.start { [weak self] in
            guard let outcome = await self?.awaitEnd(of: content, within: timeout) else { return }
            self?.drop(content, outcome)
        }
        if !isStarted { drop(content, .interrupted) }
        return isStarted
    }

    /// Waits until content is no longer kept.
    /// - Returns: nil where it was accepted, declined or dropped.
    private func awaitEnd(of content: UndecidedContent.Content, within timeout: Duration?) async -> TransferOutcome? {
        let isStopping = { @Sendable [nodeTasks] in
            await firstResult(
                of: {
                    _ = await content.isRemoved.value
                    return false
                },
                {
                    _ = await nodeTasks.stopping.value
                    return true
                })
        }
        guard let timeout else { return await isStopping() ? .interrupted : nil }
        return switch await withTimeout(timeout, isStopping) {
        case true?: .interrupted
        case false?: nil
        case nil: .expired
        }
    }

    /// Ends the invitation for content, unless it was answered.
    private func drop(_ content: UndecidedContent.Content, _ outcome: TransferOutcome) {
        undecided.withLock { $0.remove(content.id) }?.invitation?.object?.end(outcome)
    }

    /// Delivers content that was received without an offer.
    private func accept(
        _ id: UndecidedContent.ID, _ transfer: Transfer, _ sink: SingleThreaded<any ResourceSink>,
        onDelivery: @escaping @Sendable () -> Void
    ) {
        guard let content = undecided.withLock({ $0.remove(id) }) else {
            sink.value.discard()
            return transfer.end(TransferResult(outcome: .expired))
        }
        let isStarted = nodeTasks.start {
            let result = await Self.deliver(content.file, into: sink)
            // Confirmed before the transfer ends: the program may stop the node as soon as it ends.
            if result.outcome == .completed { onDelivery() }
            transfer.end(result)
        }
        if !isStarted { transfer.end(TransferResult(outcome: .interrupted)) }
    }

    private func reportDrop(of sender: PeerID) {
        guard dropReports.admit() else { return }
        settings.log.warning(
            "too much that was sent without asking awaits an answer: a file or text of \(sender) was dropped, and more may be")
    }

    /// Stores a file on a thread of its own.
    private static func deliver(
        _ file: MeshFile, into sink: SingleThreaded<any ResourceSink>
    ) async -> TransferResult {
        do {
            return try await BlockingThread.run { deliver(file, into: sink.value) }
        } catch {
            sink.value.discard()
            return TransferResult(outcome: .failed(.storageFailed, at: .local), detail: error.description)
        }
    }

    private static func deliver(_ file: MeshFile, into sink: any ResourceSink) -> TransferResult {
        do throws(StorageError) {
            _ = try sink.resumePoint()
            try sink.resume(at: .start)
            let header = EntryHeader(
                item: 0, kind: .file, path: [file.claimedName], size: UInt64(file.content.count), modified: nil,
                permissions: nil)
            var digest = EntriesDigest()
            digest.append(header)
            try sink.begin(header, at: 0, entriesDigest: digest.bytes)
            try sink.write(file.content)
            try sink.endEntry()
            let delivered = try sink.finish()
            return TransferResult(outcome: .completed, delivered: delivered, changedNames: sink.changedNames)
        } catch {
            sink.discard()
            return TransferResult(outcome: .failed(TransferFailure(error), at: .local), detail: error.description)
        }
    }

    // MARK: End

    /// Declines the offers that are not answered yet: this node leaves.
    func declineOpenOffers() {
        for key in incoming.withLock({ $0.openOffers }) {
            router.update { router, now in router.decline(key, because: .declined, now: now) }
        }
    }

    /// Interrupts all transfers, and ends all invitations.
    func interruptAll() {
        let incoming = incoming.withLock { incoming in
            defer { incoming = IncomingMeshTransfers() }
            return incoming
        }
        for transfer in incoming.transfers { transfer.end(TransferResult(outcome: .interrupted)) }
        for invitation in incoming.openInvitations { invitation.end(.interrupted) }
    }

    /// Time after the beginning of a session in which an app that states its signing key does so.
    private static let statementTimeout = Duration.seconds(5)
    /// Time in which a nearshare sender expects an answer.
    private static let invitationTimeout = Duration.seconds(60)
}

extension MeshFileControl.DeclineReason {
    init(_ reason: DeclineReason) {
        switch reason {
        case .declined, .identityChanged, .singleFileOnly: self = .declined
        case .acceptsNothing: self = .acceptsNothing
        case .notAllowed: self = .notAllowed
        case .busy: self = .busy
        case .tooLarge, .noSpace: self = .tooLarge
        }
    }
}
