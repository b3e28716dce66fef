internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Sends the files and texts of this node through the mesh.
final class MeshSender: Sendable {
    private let settings: NodeSettings
    private let router: RouterDriver
    private let tasks: OwnedTasks
    private let transfers: TransferProgressManager
    /// The transfers that the router has accepted and that have not ended.
    let outgoing = Mutex(OutgoingMeshTransfers())

    init(_ settings: NodeSettings, router: RouterDriver, tasks: OwnedTasks, transfers: TransferProgressManager) {
        (self.settings, self.router, self.tasks, self.transfers) = (settings, router, tasks, transfers)
    }

    // MARK: Sending

    /// The only file of an offer.
    static func singleFile(of offer: Offer) throws(NodeError) -> OfferedItem {
        guard offer.itemCount == 1, let item = offer.items.first, item.kind != .folder else {
            throw .unavailable("the mesh carries single files only; make an archive, of at most 5 MiB")
        }
        return item
    }

    /// Starts a transfer; see ``MeshDriver/send(_:to:isEncrypted:timeout:)``.
    func send(
        _ source: any ResourceSource, to peer: MeshPeer?, isEncrypted: Bool, timeout: Duration
    ) throws(NodeError) -> Transfer {
        let item = try Self.singleFile(of: source.offer)
        let progress = TransferProgress(
            id: settings.freshTransferID(), direction: .outgoing, total: source.offer.totalSize, totalEntries: 1)
        let transfer = Transfer(progress: progress, clock: settings.clock)
        transfers.add(transfer)
        let limit = peer?.contentLimit ?? MeshFile.maximumContentByteCount
        if let size = item.size, size > limit {
            transfer.end(Self.result(of: MeshSendError.fileTooLarge(limit: limit)))
            return transfer
        }
        expire(transfer, after: timeout)
        let isStarted = tasks.start { [self] in
            do {
                let bytes = try await BlockingThread.run { Result { try Self.readAll(source) } }.get()
                if item.kind == .text, let peer {
                    try sendText(String(decoding: bytes, as: UTF8.self), as: transfer, to: peer)
                } else {
                    try sendFile(bytes, item, as: transfer, to: peer, isEncrypted: isEncrypted)
                }
            } catch {
                transfer.end(Self.result(of: error))
            }
        }
        if !isStarted { transfer.end(TransferResult(outcome: .interrupted)) }
        return transfer
    }

    /// Withdraws a transfer that was not accepted in time. An accepted one has no time limit.
    private func expire(_ transfer: Transfer, after timeout: Duration) {
        tasks.start { [self] in
            let isExpired = await firstResult(
                of: {
                    for await progress in transfer.progress where ![.connecting, .waiting].contains(progress.phase) { break }
                    return false
                },
                {
                    _ = await self.tasks.stopping.value
                    return false
                },
                {
                    try? await Task.sleep(for: timeout)
                    return !Task.isCancelled
                })
            guard isExpired else { return }
            let key = outgoing.withLock { outgoing in
                let key = outgoing.expire(transfer)
                // With the lock held: content that is still being read is not sent later.
                if key == nil { transfer.end(TransferResult(outcome: .expired)) }
                return key
            }
            if let key { router.update { router, now in router.cancelSending(key, isExpired: true, now: now) } }
        }
    }

    private static func result(of error: any Error) -> TransferResult {
        let outcome: TransferOutcome =
            switch error {
            case let error as MeshSendError: Self.outcome(of: error)
            case is MessengerError: .failed(.refused, at: .local)
            case let error as StorageError: .failed(error.code == .changed ? .sourceChanged : .sourceUnreadable, at: .local)
            // The kernel refused a thread for reading.
            default: .failed(.sourceUnreadable, at: .local)
            }
        return TransferResult(outcome: outcome, detail: String(describing: error))
    }

    private static func outcome(of error: MeshSendError) -> TransferOutcome {
        switch error {
        case .fileTooLarge, .textTooLong: .failed(.tooLarge, at: .local)
        // The receiver has left, or does not confirm what it was sent before.
        case .unknownPeer, .queueFull: .interrupted
        case .emptyFile, .sealedFilesSupported, .alreadyInProgress, .malformed: .failed(.refused, at: .local)
        }
    }

    /// The shortest possible duration of a file transfer; see ``MeshDriver/estimate(byteCount:to:)``.
    func estimate(byteCount: UInt64, to peer: MeshPeer) -> Duration? {
        guard byteCount <= peer.contentLimit else { return nil }
        let content = [UInt8](repeating: 0, count: min(Int(clamping: byteCount), MeshFile.maximumContentByteCount))
        let file = MeshFile(name: "", mediaType: "", content: content[...])
        return router.read { try? $0.plan(file, to: peer.id).estimate }
    }

    private func sendFile(
        _ bytes: [UInt8], _ item: OfferedItem, as transfer: Transfer, to peer: MeshPeer?, isEncrypted: Bool
    ) throws {
        let file = MeshFile(
            name: String(decoding: item.name.bytes, as: UTF8.self), mediaType: item.mediaType.text, content: bytes[...])
        let size = UInt64(bytes.count)
        // One lock over both steps, so that the file is known when its first event is handled.
        try outgoing.withLock { outgoing in
            // Reading took longer than the time limit.
            guard !transfer.hasEnded else { return }
            let key = try router.update { router, now in
                try router.sendFile(file, to: peer?.id, isSealed: isEncrypted, now: now)
            }
            // An earlier transfer of the file has ended in the router, but its event was not handled yet.
            guard outgoing[key] == nil else {
                router.update { router, now in router.cancelSending(key, now: now) }
                throw MeshSendError.alreadyInProgress
            }
            outgoing.insert(
                OutgoingMeshTransfers.File(transfer: transfer, receiver: peer?.name.shown ?? "everyone", size: size), key)
            transfer.onCancel { [weak self] in self?.router.update { router, now in router.cancelSending(key, now: now) } }
        }
    }

    private func sendText(_ text: String, as transfer: Transfer, to peer: MeshPeer) throws {
        guard ChatContent.isFavorite(text) == nil else { throw MessengerError.reservedText }
        let parts = text.split(maximumByteCount: MeshPrivateMessage.maximumTextByteCount)
        let messages = parts.map { MeshPrivateMessage(id: DerivedMessageID.uuid(from: settings.random(16)), text: $0) }
        // One lock over both steps, so that the text is known when its first receipt is handled.
        let isInTime = try outgoing.withLock { outgoing in
            // Reading took longer than the time limit.
            guard !transfer.hasEnded else { return false }
            try router.update { (router, now) throws(MeshSendError) in
                try router.sendPrivateMessages(messages, to: peer.id, now: now)
            }
            outgoing.insert(
                OutgoingMeshTransfers.Text(
                    transfer: transfer, receiver: peer.id, receiverName: peer.name.shown,
                    unacknowledgedIDs: Set(messages.map(\.id))))
            return true
        }
        guard isInTime else { return }
        transfer.onCancel { [weak self] in
            self?.outgoing.withLock { $0.removeText(of: transfer) }
            transfer.end(TransferResult(outcome: .cancelled(by: .local)))
        }
        transfer.enter(.waiting)
    }

    private static func readAll(_ source: any ResourceSource) throws -> [UInt8] {
        let reader = try source.makeReader()
        guard try reader.nextEntry() != nil else { return [] }
        var bytes: [UInt8] = []
        let limit = MeshFile.maximumContentByteCount
        let block = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { block.deallocate() }
        while true {
            let count = try reader.read(into: block)
            guard count > 0 else { return bytes }
            guard bytes.count + count <= limit else { throw MeshSendError.fileTooLarge(limit: limit) }
            bytes += block[..<count]
        }
    }

    // MARK: Events of files

    /// Records that the receiver was asked to accept a file.
    func recordOffer(of key: MeshFileKey) { file(key)?.transfer.enter(.waiting) }

    /// Records that the transmission of a file has started.
    func recordStart(of key: MeshFileKey, fragmentCount: Int) { file(key)?.transfer.startFragments(of: fragmentCount) }

    func recordProgress(of key: MeshFileKey, sent: Int, of total: Int) {
        guard let file = file(key) else { return }
        file.transfer.recordProgress(fragments: sent, of: total, size: file.size)
        if sent == total { file.transfer.enter(.finishing) }
    }

    func endFile(_ key: MeshFileKey, _ outcome: MeshFileOutcome) {
        guard let file = outgoing.withLock({ $0.removeFile(key) }) else { return }
        let isExpired = file.isExpired && outcome == .cancelledLocally
        let result =
            if isExpired {
                TransferResult(outcome: .expired)
            } else if outcome == .receiverLost, router.isStopping {
                // The links to the receiver end with this node.
                TransferResult(outcome: .interrupted, detail: Self.stoppedText)
            } else if outcome == .sent, key.peer == nil {
                TransferResult(outcome: .completed)
            } else {
                Self.result(of: outcome, for: file.receiver)
            }
        file.transfer.end(result)
    }

    private func file(_ key: MeshFileKey) -> OutgoingMeshTransfers.File? { outgoing.withLock { $0[key] } }

    // MARK: Events of texts

    /// Completes a text with the last receipt of its messages.
    func recordReceipt(_ messageID: String, from peer: PeerID) {
        guard let transfer = outgoing.withLock({ $0.recordReceipt(messageID, from: peer) })?.transfer else { return }
        transfer.recordProgress(to: transfer.snapshot.total ?? 0, entries: 1)
        transfer.end(TransferResult(outcome: .completed))
    }

    /// Ends a text of which a message is not sent again.
    func failText(withMessage id: String) {
        guard let text = outgoing.withLock({ $0.removeText(withMessage: id) }) else { return }
        text.transfer.end(Self.result(of: .noResponse, for: text.receiverName))
    }

    // MARK: End

    /// Interrupts all transfers.
    func interruptAll() {
        let outgoing = outgoing.withLock { outgoing in
            defer { outgoing = OutgoingMeshTransfers() }
            return outgoing
        }
        for transfer in outgoing.transfers {
            transfer.end(TransferResult(outcome: .interrupted, detail: Self.stoppedText))
        }
    }

    private static let stoppedText = "the node of this machine was stopped before all of it was sent; send it again"

    private static func completedWithoutConfirmation(by name: String) -> TransferResult {
        var result = TransferResult(outcome: .completed, detail: "\(name) does not confirm files")
        result.isConfirmed = false
        return result
    }

    private static func result(of outcome: MeshFileOutcome, for name: String) -> TransferResult {
        switch outcome {
        case .stored: TransferResult(outcome: .completed)
        case .sent: completedWithoutConfirmation(by: name)
        case .declined(.declined): TransferResult(outcome: .declined(.declined))
        case .declined(.busy): TransferResult(outcome: .declined(.busy))
        case .declined(.tooLarge): TransferResult(outcome: .declined(.tooLarge))
        case .declined(.expired): TransferResult(outcome: .expired)
        case .declined(.notAllowed): TransferResult(outcome: .declined(.notAllowed))
        case .declined(.acceptsNothing): TransferResult(outcome: .declined(.acceptsNothing))
        case .cancelledLocally: TransferResult(outcome: .cancelled(by: .local))
        case .cancelledByPeer: TransferResult(outcome: .cancelled(by: .remote))
        case .noResponse:
            TransferResult(outcome: .interrupted, detail: "no response from \(name) in the mesh; they may be out of reach")
        case .unsupported:
            TransferResult(
                outcome: .failed(.refused, at: .remote),
                detail: "\(name)'s app does not accept private files; ask for an update"
            )
        case .receiverLost:
            TransferResult(
                outcome: .interrupted,
                detail: "\(name) went out of reach before all of it was sent, or was restarted; send it again")
        case .tooLarge(let limit): Self.result(of: MeshSendError.fileTooLarge(limit: limit))
        case .lost:
            TransferResult(
                outcome: .interrupted, detail: "too many fragments to \(name) were lost; move closer, or send it again")
        }
    }
}
