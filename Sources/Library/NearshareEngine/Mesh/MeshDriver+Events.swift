internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

// What the router tells, turned into what people see: transfers that move and end, invitations that come and go.
extension MeshDriver {
    func take(_ event: MeshEvent) {
        switch event {
        case .peerChanged(let peer):
            settings.log.debug("in the mesh: \(peer.name.shown) (\(peer.id))")
            messages.withLock { $0 }?.neighboursChanged()
            peerChanges.publish(peer.id)
            tellText(.peerChanged(peer.id))
        case .peerLost(let id):
            settings.log.debug("left the mesh: \(id)")
            messages.withLock { $0 }?.neighboursChanged()
            peerChanges.publish(id)
            tellText(.peerChanged(id))
        case .bundlePacket(let bytes, let peer):
            guard let packet = try? BundlePacket(decoding: bytes[...]) else { return }
            messages.withLock { $0 }?.take(packet, from: peer)
        case .clockSkewDetected(let id, let difference):
            settings.log.error(
                """
                the clock of \(id) and this one are \(difference.components.seconds) s apart, so neither hears the other in \
                the mesh; set both clocks
                """)
        case .pong, .verificationResponse: return
        case .publicMessage(let peer, let id, let text, _): tellText(.everybody(from: peer, id: id, text: text))
        case .read(let id, let peer): tellText(.read(id: id, by: peer))
        case .sessionEstablished(let peer):
            tellText(.peerChanged(peer.id))
            offerProven(by: peer)
        case .privateMessage(let peer, let id, let text):
            // How phones say that they added us to their favourites; nothing that a person typed.
            guard !text.hasPrefix("[FAVORITED]"), !text.hasPrefix("[UNFAVORITED]") else {
                return acknowledge(id, of: peer.id)
            }
            if !tellText(.toUs(from: peer, id: id, text: text)) { offerText(text, id: id, from: peer) }
        case .delivered(let id, let peer):
            acknowledged(id)
            tellText(.delivered(id: id, by: peer))
        case .undelivered(let id, let peer):
            undelivered(id)
            tellText(.undelivered(id: id, to: peer))
        case .fileOffered(let offer, let peer): invite(offer, from: peer)
        case .fragmentsReceived(let progress): moved(progress)
        case .fileReceived(let file): received(file)
        case .fileReceiveEnded(let id, let outcome): incomingEnded(id, outcome)
        case .fileOfferSent(let id): outgoing(id)?.transfer.enter(.waiting)
        case .fileSendStarted(let id, let fragments, _):
            outgoing(id)?.transfer.startFragments(of: fragments)
        case .fragmentsSent(let id, let sent, let total):
            guard let file = outgoing(id) else { return }
            file.transfer.moved(fragments: sent, of: total, size: file.size)
            if sent == total { file.transfer.enter(.finishing) }
        case .fileSendEnded(let id, let outcome):
            guard let file = files.withLock({ $0.outgoing.removeValue(forKey: id) }) else { return }
            let isExpired = file.isExpired && outcome == .cancelledLocally
            file.transfer.end(isExpired ? TransferResult(outcome: .expired) : result(of: outcome, for: file.peer))
        }
    }

    /// - Returns: whether the text was accepted; otherwise it is offered as a file is.
    @discardableResult
    private func tellText(_ text: MeshText) -> Bool {
        guard let receive = texts.withLock({ $0 }) else { return false }
        return receive(text)
    }

    /// Everything ends with the node.
    func abandonAll() {
        let (outgoing, texts, incoming, invitations) = files.withLock { files in
            defer { files = Files() }
            return (
                Array(files.outgoing.values), Array(files.texts.values), Array(files.incoming.values),
                Array(files.invitations.values)
            )
        }
        for transfer in outgoing.map(\.transfer) + texts.map(\.transfer) + incoming.map(\.transfer) {
            transfer.end(TransferResult(outcome: .interrupted))
        }
        for waiting in invitations { waiting.invitation?.end(.interrupted) }
    }

    private func outgoing(_ id: MeshFileKey) -> Outgoing? { files.withLock { $0.outgoing[id] } }

    private func result(of outcome: MeshFileOutcome, for peer: MeshPeer) -> TransferResult {
        let name = peer.name.shown
        return switch outcome {
        case .stored: TransferResult(outcome: .completed)
        case .sent: TransferResult(outcome: .completed, detail: "all was sent; \(name) does not confirm what arrived")
        case .refused(.declined): TransferResult(outcome: .declined(.declined))
        case .refused(.busy): TransferResult(outcome: .declined(.busy))
        case .refused(.tooLarge): TransferResult(outcome: .declined(.tooLarge))
        case .refused(.expired): TransferResult(outcome: .expired)
        case .cancelledLocally: TransferResult(outcome: .cancelled(by: .here))
        case .cancelledByPeer: TransferResult(outcome: .cancelled(by: .there))
        case .noResponse:
            TransferResult(
                outcome: .interrupted, detail: "\(name) does not answer in the mesh; they may be out of reach by now")
        case .unsupported:
            TransferResult(
                outcome: .failed(.refused, at: .there), detail: "\(name)'s app does not take private files; ask for an update")
        case .lost:
            TransferResult(
                outcome: .interrupted, detail: "too much got lost on the way to \(name); move closer, or send it again")
        }
    }

    // MARK: Texts

    private func acknowledged(_ messageID: String) {
        let transfer = files.withLock { files -> Transfer? in
            guard let id = files.texts.first(where: { $0.value.unacknowledged.contains(messageID) })?.key else { return nil }
            files.texts[id]!.unacknowledged.remove(messageID)
            guard files.texts[id]!.unacknowledged.isEmpty else { return nil }
            return files.texts.removeValue(forKey: id)?.transfer
        }
        guard let transfer else { return }
        transfer.moved(to: transfer.snapshot.total ?? 0, entries: 1)
        transfer.end(TransferResult(outcome: .completed))
    }

    private func undelivered(_ messageID: String) {
        let text = files.withLock { files -> OutgoingText? in
            guard let id = files.texts.first(where: { $0.value.unacknowledged.contains(messageID) })?.key else { return nil }
            return files.texts.removeValue(forKey: id)
        }
        guard let text else { return }
        text.transfer.end(result(of: .noResponse, for: text.peer))
    }

    /// Tells the sender of a text that it has been taken.
    func acknowledge(_ messageID: String, of peer: PeerID) {
        change { router, now in router.acknowledge(messageID, of: peer, now: now) }
    }

    /// A person decides about a text once, however often it comes, and its sender hears of it only once it has been taken.
    private func offerText(_ text: String, id: String, from peer: AuthenticatedPeer) {
        let key = OfferedText(id: id, sender: peer.id)
        switch files.withLock({ $0.offeredTexts.first { $0.key == key } }) {
        case (_, isTaken: true)?: return acknowledge(id, of: peer.id)
        case (_, isTaken: false)?: return
        case nil: break
        }
        let file = MeshFile(name: "message.txt", mediaType: ClaimedMediaType.text.text, content: Array(text.utf8)[...])
        let isOffered = offerUnasked(file, kind: .text, from: peer, resumeKey: settings.random(32)) { [weak self] in
            guard let self else { return }
            files.withLock { files in
                guard let index = files.offeredTexts.firstIndex(where: { $0.key == key }) else { return }
                files.offeredTexts[index].isTaken = true
            }
            acknowledge(id, of: peer.id)
        }
        guard isOffered else { return }
        files.withLock { files in
            files.offeredTexts.append((key, isTaken: false))
            if files.offeredTexts.count > Self.maximumOfferedTextCount { files.offeredTexts.removeFirst() }
        }
    }

    // MARK: Invitations

    private func invite(_ offer: MeshFileOffer, from proven: AuthenticatedPeer) {
        let id = MeshFileKey(offer.id, with: proven.id)
        let name = look { $0.peer(proven.id)?.name } ?? DisplayName(truncating: proven.id.hex)!
        guard let (peer, place) = guest(proven, name) else {
            return change { router, now in router.refuse(id, because: .declined, now: now) }
        }
        guard let place else { return change { router, now in router.refuse(id, because: .busy, now: now) } }
        let item = OfferedItem(
            kind: .file, name: offer.name, size: UInt64(offer.size), entryCount: 1,
            mediaType: ClaimedMediaType(offer.mediaType) ?? .unknown)
        let answering = Invitation.Answering(
            accept: { [weak self] transfer, sink, _ in self?.accept(offer, id, transfer, sink) },
            decline: { [weak self] reason in
                self?.declined(at: place)
                self?.change { router, now in
                    router.refuse(id, because: MeshFileControl.Refusal(reason), now: now)
                }
            })
        let invitation = makeInvitation(item, from: peer, resumeKey: offer.id.bytes, answering: answering)
        files.withLock { $0.invitations[id] = WaitingInvitation(invitation: invitation) }
        invitations?.yield(invitation)
    }

    /// Whoever may ask, and the place that counts against them when they ask in vain; no place when they asked too often, nil
    /// when they are not to be heard.
    private func guest(_ proven: AuthenticatedPeer, _ name: DisplayName) -> (Peer, String?)? {
        let trustStatus = settings.trustStatus(proven, name)
        guard invitations != nil, !trustStatus.isBlocked else { return nil }
        let peer = Peer(proven: proven, name: name, trustStatus: trustStatus, address: nil)
        // Keys cost nothing, and the mesh has no addresses: all strangers in it share one timeout.
        let place = trustStatus.isFriend ? proven.id.hex : "mesh"
        let isAllowed = trustStatus.isFriend || files.withLock { $0.limiter.allows(place, now: settings.clock()) }
        return (peer, isAllowed ? place : nil)
    }

    private func declined(at place: String) {
        files.withLock { $0.limiter.refused(place, now: settings.clock()) }
    }

    private func makeInvitation(
        _ item: OfferedItem, from peer: Peer, resumeKey: [UInt8], answering: Invitation.Answering
    ) -> Invitation {
        var progress = TransferProgress(id: settings.freshTransferID(), direction: .incoming, total: item.size, totalEntries: 1)
        progress.phase = .waiting
        let invitation = Invitation(
            peer: peer, offer: Offer(items: [item], itemCount: 1, entryCount: 1, totalSize: item.size), context: [],
            resumeKey: resumeKey, expiry: settings.clock() + Self.invitationTime,
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: transfers, answering: answering)
        // There is no link of their own whose code two people could compare.
        invitation.hasNoShortCode()
        return invitation
    }

    private func accept(_ offer: MeshFileOffer, _ id: MeshFileKey, _ transfer: Transfer, _ sink: any ResourceSink) {
        files.withLock { files in
            files.invitations[id] = nil
            files.incoming[id] = Incoming(
                transfer: transfer, sink: AcceptedSink(sink: sink), size: UInt64(offer.size))
        }
        transfer.startFragments(of: Int(offer.fragmentCount))
        transfer.onCancel { [weak self] in self?.change { router, now in router.cancelReceiving(id, now: now) } }
        change { router, now in router.accept(id, now: now) }
        // Withdrawn in this moment: the router knows nothing of it any more.
        let isExpected = look { $0.isReceiving(id) }
        if !isExpected { incomingEnded(id, .cancelledByPeer) }
    }

    private func moved(_ progress: MeshFragmentProgress) {
        guard let id = progress.file.map({ MeshFileKey($0, with: progress.sender) }),
            let file = files.withLock({ $0.incoming[id] })
        else { return }
        file.transfer.moved(fragments: progress.received, of: progress.total, size: file.size)
    }

    private func incomingEnded(_ id: MeshFileKey, _ outcome: MeshFileOutcome) {
        let (waiting, file) = files.withLock { files in
            (files.invitations.removeValue(forKey: id), files.incoming.removeValue(forKey: id))
        }
        let transferOutcome: TransferOutcome =
            switch outcome {
            case .cancelledLocally: .cancelled(by: .here)
            case .cancelledByPeer: .cancelled(by: .there)
            case .refused(.expired): .expired
            default: .interrupted
            }
        waiting?.invitation?.end(transferOutcome)
        guard let file else { return }
        file.sink.sink.discard()
        file.transfer.end(TransferResult(outcome: transferOutcome))
    }

    // MARK: Whole files

    private func received(_ received: MeshReceivedFile) {
        if received.wasAccepted {
            let id = MeshFileKey(received.id, with: received.sender)
            guard let file = files.withLock({ $0.incoming.removeValue(forKey: id) }) else { return }
            file.transfer.enter(.finishing)
            start { [self] in
                let result = await BlockingThread.run { Self.deliver(received.file, into: file.sink.sink) }
                // Told first: whoever waits for the transfer may end the node.
                change { router, now in
                    if result.outcome == .completed {
                        router.confirmStored(id, now: now)
                    } else {
                        router.refuse(id, because: .tooLarge, now: now)
                    }
                }
                file.transfer.end(result)
            }
            return
        }
        guard let proven = received.authenticatedSender else { return keepUntilProven(received) }
        offerUnasked(received.file, kind: .file, from: proven, resumeKey: received.id.bytes)
    }

    /// A file for everybody is signed, but only a session proves the key that people know its sender by.
    private func keepUntilProven(_ received: MeshReceivedFile) {
        let isKept = files.withLock { files in
            guard files.unproven.values.reduce(0, { $0 + $1.count }) < Self.maximumUnprovenCount else { return false }
            files.unproven[received.sender, default: []].append(received)
            return true
        }
        guard isKept, invitations != nil else { return }
        change { router, now in router.ensureSession(with: received.sender, now: now) }
        // There may be a session already.
        if let proven = look({ $0.authenticatedPeer(received.sender) }) { offerProven(by: proven) }
    }

    private func offerProven(by peer: AuthenticatedPeer) {
        let waiting = files.withLock { $0.unproven.removeValue(forKey: peer.id) } ?? []
        for file in waiting { offerUnasked(file.file, kind: .file, from: peer, resumeKey: file.id.bytes) }
    }

    /// Something that is here already, because its sender's app does not ask: held in memory until somebody wants it.
    /// - Parameter taken: told when it is where the person wants it.
    /// - Returns: whether anybody is asked.
    @discardableResult
    private func offerUnasked(
        _ file: MeshFile, kind: OfferedItem.Kind, from proven: AuthenticatedPeer, resumeKey: [UInt8],
        taken: @escaping @Sendable () -> Void = {}
    ) -> Bool {
        let name = look { $0.peer(proven.id)?.name } ?? DisplayName(truncating: proven.id.hex)!
        guard let (peer, place) = guest(proven, name), let place else { return false }
        let size = file.content.count
        let isKept = files.withLock { files in
            guard files.undecidedByteCount + size <= Self.maximumUndecidedByteCount else { return false }
            files.undecidedByteCount += size
            return true
        }
        guard isKept else {
            settings.log.info("a file in the mesh was dropped: too many wait for an answer")
            return false
        }
        let claimed = (file.name ?? "").utf8.prefix(ClaimedFileName.maximumByteCount)
        let item = OfferedItem(
            kind: kind, name: ClaimedFileName(bytes: Array(claimed))!, size: UInt64(size), entryCount: 1,
            mediaType: file.mediaType.flatMap { ClaimedMediaType($0) } ?? .unknown)
        let answering = Invitation.Answering(
            accept: { [weak self] transfer, sink, _ in
                self?.decided(size)
                let sink = AcceptedSink(sink: sink)
                self?.start {
                    let result = await BlockingThread.run { Self.deliver(file, into: sink.sink) }
                    // Told first: whoever waits for the transfer may end the node.
                    if result.outcome == .completed { taken() }
                    transfer.end(result)
                }
            },
            decline: { [weak self] _ in
                self?.decided(size)
                self?.declined(at: place)
            })
        invitations?.yield(makeInvitation(item, from: peer, resumeKey: resumeKey, answering: answering))
        return true
    }

    private func decided(_ byteCount: Int) {
        files.withLock { $0.undecidedByteCount -= byteCount }
    }

    private static func deliver(_ file: MeshFile, into sink: any ResourceSink) -> TransferResult {
        do throws(StorageError) {
            _ = try sink.resumePoint()
            try sink.resume(at: .start)
            let claimed = (file.name ?? "").utf8.prefix(ClaimedFileName.maximumByteCount)
            let header = EntryHeader(
                item: 0, kind: .file, path: [ClaimedFileName(bytes: Array(claimed))!], size: UInt64(file.content.count),
                modified: nil, permissions: nil)
            var digest = EntriesDigest()
            digest.append(header)
            try sink.begin(header, at: 0, entriesDigest: digest.bytes)
            try write(file.content, to: sink)
            try sink.endEntry()
            return TransferResult(outcome: .completed, delivered: try sink.finish())
        } catch {
            sink.discard()
            return TransferResult(outcome: .failed(CancelReason(error), at: .here), detail: error.description)
        }
    }

    private static func write(_ content: ArraySlice<UInt8>, to sink: any ResourceSink) throws(StorageError) {
        var failure: StorageError?
        content.withUnsafeBytes { bytes in
            do throws(StorageError) { try sink.write(bytes) } catch { failure = error }
        }
        if let failure { throw failure }
    }

    /// As long as a nearshare peer waits; what came unasked may be decided about longer.
    private static let invitationTime = Duration.seconds(60)
    private static let maximumUnprovenCount = 4
    private static let maximumOfferedTextCount = 1_024
    private static let maximumUndecidedByteCount = 12 << 20
}

extension MeshFileControl.Refusal {
    init(_ reason: DeclineReason) {
        switch reason {
        case .declined, .notAllowed, .identityChanged, .takesNothing: self = .declined
        case .expired: self = .expired
        case .busy: self = .busy
        case .tooLarge, .noSpace: self = .tooLarge
        }
    }
}
