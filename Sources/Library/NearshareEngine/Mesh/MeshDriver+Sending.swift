internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

// Files and texts of this node.
extension MeshDriver {
    /// Sends a file of at most 5 MiB, or a text, to a peer of the mesh, or to everyone.
    ///
    /// A nearshare peer is asked first. Phones receive it without being asked, and confirm little: a transfer to a phone is
    /// complete when all of it was sent.
    /// - Parameters:
    ///   - peer: nil for everyone.
    ///   - isSealed: false for a file that may be readable by all relays, for an app that takes no other; see
    ///     ``MeshRouter/sendFile(_:to:isSealed:now:)``.
    ///   - timeout: an offer that is not accepted within this time is withdrawn, and has expired.
    /// - Throws: ``NodeError/unavailable(_:)`` for a folder or several items.
    package func send(
        _ source: any ResourceSource, to peer: MeshPeer?, isSealed: Bool = true, timeout: Duration = .seconds(60)
    ) throws(NodeError) -> Transfer {
        guard source.offer.itemCount == 1, let item = source.offer.items.first, item.kind != .folder else {
            throw .unavailable(
                "the mesh carries single files only; send directly, or send an archive of at most 5 MiB")
        }
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
        let isStarted = start { [self] in
            do {
                let bytes = try await BlockingThread.run { Result { try Self.readAll(source) } }.get()
                if item.kind == .text, let peer {
                    try sendText(String(decoding: bytes, as: UTF8.self), as: transfer, to: peer)
                } else {
                    try sendFile(bytes, item, as: transfer, to: peer, isSealed: isSealed)
                }
            } catch {
                transfer.end(Self.result(of: error))
            }
        }
        if !isStarted { transfer.end(TransferResult(outcome: .interrupted)) }
        return transfer
    }

    /// Waits until there is a neighbour to which something for everyone can be sent.
    /// - Returns: false at the timeout.
    package func awaitNeighbour(timeout: Duration) async -> Bool {
        let changes = peerChanges.subscribe()
        let isLinked: @Sendable () -> Bool = { self.peers.contains(where: \.isDirect) }
        if isLinked() { return true }
        let isFound = await withTimeout(timeout) {
            for await _ in changes where isLinked() { return true }
            return false
        }
        return isFound ?? false
    }

    /// Withdraws a transfer that was not accepted in time. An accepted one has no time limit.
    private func expire(_ transfer: Transfer, after timeout: Duration) {
        start { [self] in
            let isExpired = await firstResult(
                of: {
                    for await progress in transfer.progress where ![.connecting, .waiting].contains(progress.phase) { break }
                    return false
                },
                {
                    _ = await self.stopping.value
                    return false
                },
                {
                    try? await Task.sleep(for: timeout)
                    return !Task.isCancelled
                })
            guard isExpired else { return }
            guard let key = outgoing.withLock({ $0.expire(transfer) }) else {
                return transfer.end(TransferResult(outcome: .expired))
            }
            update { router, now in router.cancelSending(key, isExpired: true, now: now) }
        }
    }

    private static func result(of error: any Error) -> TransferResult {
        let outcome: TransferOutcome =
            if case MeshSendError.fileTooLarge = error { .declined(.tooLarge) } else { .failed(.sourceUnreadable, at: .local) }
        return TransferResult(outcome: outcome, detail: String(describing: error))
    }

    /// The shortest possible duration of a file transfer to a peer, by the number and pacing of its fragments; nil for a file
    /// that is too large.
    package func estimate(byteCount: UInt64, to peer: MeshPeer) -> Duration? {
        guard byteCount <= peer.contentLimit else { return nil }
        let content = [UInt8](repeating: 0, count: min(Int(clamping: byteCount), MeshFile.maximumContentByteCount))
        let file = MeshFile(name: "", mediaType: "", content: content[...])
        return read { try? $0.plan(file, to: peer.id).estimate }
    }

    private func sendFile(
        _ bytes: [UInt8], _ item: OfferedItem, as transfer: Transfer, to peer: MeshPeer?, isSealed: Bool
    ) throws {
        let file = MeshFile(
            name: String(decoding: item.name.bytes, as: UTF8.self), mediaType: item.mediaType.text, content: bytes[...])
        let size = UInt64(bytes.count)
        // One lock over both steps, so that the file is known when its first event is handled.
        try outgoing.withLock { outgoing in
            let key = try update { router, now in
                try router.sendFile(file, to: peer?.id, isSealed: isSealed, now: now)
            }
            // An earlier transfer of the file has ended in the router, but its event was not handled yet.
            guard outgoing[key] == nil else {
                update { router, now in router.cancelSending(key, now: now) }
                throw MeshSendError.alreadyInProgress
            }
            outgoing.insert(
                OutgoingMeshTransfers.File(transfer: transfer, receiver: peer?.name.shown ?? "everyone", size: size), key)
            transfer.onCancel { [weak self] in self?.update { router, now in router.cancelSending(key, now: now) } }
        }
    }

    private func sendText(_ text: String, as transfer: Transfer, to peer: MeshPeer) throws {
        let parts = text.split(maximumByteCount: MeshPrivateMessage.maximumTextByteCount)
        let messages = parts.map { (id: DerivedMessageID.uuid(settings.random(16)), text: $0) }
        outgoing.withLock {
            $0.insert(
                OutgoingMeshTransfers.Text(
                    transfer: transfer, receiver: peer.id, receiverName: peer.name.shown,
                    unacknowledged: Set(messages.map(\.id))))
        }
        transfer.onCancel { [weak self] in
            self?.outgoing.withLock { $0.removeText(of: transfer) }
            transfer.end(TransferResult(outcome: .cancelled(by: .local)))
        }
        try update { (router, now) throws(MeshSendError) in
            for message in messages { try router.sendPrivateMessage(message.text, id: message.id, to: peer.id, now: now) }
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
}
