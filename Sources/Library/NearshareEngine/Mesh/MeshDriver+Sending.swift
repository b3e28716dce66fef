internal import NearshareBase
internal import NearshareDirect
package import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

extension MeshDriver {
    /// Sends something to somebody in the mesh: a file of at most 5 MiB, or a text. The handle tells how it goes.
    ///
    /// The peer is asked first where it runs nearshare. Phones get it unasked, and confirm little: a transfer to one is
    /// completed when all of it was sent.
    /// - Parameter timeout: what nobody has taken after that is withdrawn, and has expired.
    /// - Throws: ``NodeError/unavailable(_:)`` for what the mesh can't carry, ``NodeError/blocked(_:)``.
    package func send(
        _ source: any ResourceSource, to peer: MeshPeer, timeout: Duration = .seconds(60)
    ) throws(NodeError) -> Transfer {
        guard source.offer.itemCount == 1, let item = source.offer.items.first, item.kind != .folder else {
            throw .unavailable(
                "the mesh carries one file at a time, and no folders; send them directly, or as an archive of at most 5 MiB")
        }
        let progress = TransferProgress(
            id: settings.freshTransferID(), direction: .outgoing, total: source.offer.totalSize, totalEntries: 1)
        let transfer = Transfer(progress: progress, clock: settings.clock)
        transfers.add(transfer)
        if let size = item.size, size > peer.software.contentLimit {
            transfer.end(Self.result(of: MeshSendError.fileTooLarge(limit: peer.software.contentLimit)))
            return transfer
        }
        expire(transfer, after: timeout)
        start { [self] in
            let content = await BlockingThread.run { Result { try Self.readAll(source) } }
            do {
                let bytes = try content.get()
                if item.kind == .text {
                    try sendText(String(decoding: bytes, as: UTF8.self), as: transfer, to: peer)
                } else {
                    try sendFile(bytes, item, as: transfer, to: peer)
                }
            } catch {
                transfer.end(Self.result(of: error))
            }
        }
        return transfer
    }

    /// Ends what nobody has taken in time. It goes on without end once it was taken.
    private func expire(_ transfer: Transfer, after timeout: Duration) {
        start { [self] in
            let isOver = await withTaskGroup(of: Bool.self) { group in
                group.addTask {
                    for await progress in transfer.progress where ![.connecting, .waiting].contains(progress.phase) { break }
                    return false
                }
                group.addTask {
                    _ = await self.stopping.value
                    return false
                }
                group.addTask {
                    try? await Task.sleep(for: timeout)
                    return !Task.isCancelled
                }
                defer { group.cancelAll() }
                return await group.next() ?? false
            }
            guard isOver else { return }
            let file = files.withLock { files -> MeshFileKey? in
                files.texts[transfer.id] = nil
                guard let id = files.outgoing.first(where: { $0.value.transfer === transfer })?.key else { return nil }
                files.outgoing[id]!.isExpired = true
                return id
            }
            guard let file else { return transfer.end(TransferResult(outcome: .expired)) }
            change { router, now in router.cancelSending(file, now: now) }
        }
    }

    private static func result(of error: any Error) -> TransferResult {
        let outcome: TransferOutcome =
            if case MeshSendError.fileTooLarge = error { .declined(.tooLarge) } else { .failed(.sourceUnreadable, at: .here) }
        return TransferResult(outcome: outcome, detail: String(describing: error))
    }

    /// How long a file of so many bytes takes to a peer at least: so many fragments, and the pause between them. nil for one that is
    /// too large to be sent.
    package func estimate(byteCount: UInt64, to peer: MeshPeer) -> Duration? {
        guard byteCount <= peer.software.contentLimit else { return nil }
        let content = [UInt8](repeating: 0, count: min(Int(clamping: byteCount), MeshFile.maximumContentByteCount))
        let file = MeshFile(name: "", mediaType: "", content: content[...])
        return look { try? $0.plan(file, to: peer.id).estimate }
    }

    private func sendFile(_ bytes: [UInt8], _ item: OfferedItem, as transfer: Transfer, to peer: MeshPeer) throws {
        let file = MeshFile(
            name: String(decoding: item.name.bytes, as: UTF8.self), mediaType: item.mediaType.text, content: bytes[...])
        let size = UInt64(bytes.count)
        // Known before the first event about it can come.
        try files.withLock { files in
            let id = try change { router, now in try router.sendFile(file, to: peer.id, now: now) }
            // The router is done with the same file, but its end has not been told yet.
            guard files.outgoing[id] == nil else {
                change { router, now in router.cancelSending(id, now: now) }
                throw MeshSendError.alreadyInProgress
            }
            files.outgoing[id] = Outgoing(transfer: transfer, peer: peer, size: size)
            transfer.onCancel { [weak self] in self?.change { router, now in router.cancelSending(id, now: now) } }
        }
    }

    private func sendText(_ text: String, as transfer: Transfer, to peer: MeshPeer) throws {
        let parts = Self.split(text, limit: MeshPrivateMessage.maximumTextByteCount)
        let named = parts.map { (id: messageID(), text: $0) }
        files.withLock {
            $0.texts[transfer.id] = OutgoingText(transfer: transfer, peer: peer, unacknowledged: Set(named.map(\.id)))
        }
        transfer.onCancel { [weak self] in
            self?.files.withLock { $0.texts[transfer.id] = nil }
            transfer.end(TransferResult(outcome: .cancelled(by: .here)))
        }
        try change { (router, now) throws(MeshSendError) in
            for part in named { try router.sendPrivateMessage(part.text, id: part.id, to: peer.id, now: now) }
        }
        transfer.enter(.waiting)
    }

    /// Cut between characters, so that each part can be read.
    static func split(_ text: String, limit: Int) -> [String] {
        var parts: [String] = []
        var part = ""
        for character in text {
            if part.utf8.count + character.utf8.count > limit, !part.isEmpty {
                parts.append(part)
                part = ""
            }
            // One character of more bytes than a message holds is no text that anybody could read.
            if character.utf8.count <= limit { part.append(character) }
        }
        return part.isEmpty ? parts : parts + [part]
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

    /// An upper-case UUID, as phones write them.
    private func messageID() -> String {
        let digits = Array(Hex.encode(settings.random(16)).uppercased())
        return [0..<8, 8..<12, 12..<16, 16..<20, 20..<32].map { String(digits[$0]) }.joined(separator: "-")
    }
}
