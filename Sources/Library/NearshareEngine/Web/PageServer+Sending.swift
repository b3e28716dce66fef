internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareWeb

/// The part of the server that gives content to browsers.
extension PageServer {
    // MARK: Requests of browsers

    /// Passes the request of a browser to the program.
    func ask(_ id: PageMachine.OfferID, _ code: ShortAuthenticationDigits, from host: String) {
        let settings = node.settings
        guard let content, let peer = peer(of: id, code, at: host),
            let prompt = node.promptLimiter.admit(peer, on: .link(LinkAddress(host: host, port: port)))
        else { return end(id, .notAsked) }
        var progress = TransferProgress(
            id: settings.freshTransferID(), direction: .outgoing, total: content.totalSize,
            totalEntries: UInt64(content.sources.count))
        progress.phase = .waiting
        let transfer = Transfer(progress: progress, clock: settings.clock)
        let isOver = Promise<Bool>()
        let request = PageRequest(peer, code, transfer) { [weak self] isAccepted in
            isOver.fulfil(true)
            if isAccepted {
                prompt.release()
                self?.accept(id, transfer)
            } else {
                self?.endRequest(id, .declined, .declined(.declined))
            }
        }
        let isWaiting = state.withLock { state in
            guard state.machine.isWaiting(id), !state.isStopping else { return false }
            state.requests[id] = OpenRequest(
                transfer: transfer, request: request, unencryptedDownload: request.unencryptedDownload, isOver: isOver)
            return true
        }
        // Cancelled meanwhile, on another connection, or this node stops: the program is not asked.
        guard isWaiting else {
            prompt.release()
            return transfer.end(TransferResult(outcome: .interrupted))
        }
        requestContinuation.yield(request)
        startTimeout(unless: isOver) { [weak self] in self?.endRequest(id, .expired, .expired) }
    }

    /// Ends a request that the program has not accepted.
    func endRequest(_ id: PageMachine.OfferID, _ outcome: PageMachine.Outcome, _ result: TransferOutcome) {
        guard let open = state.update({ $0.requests.removeValue(forKey: id) }) else { return }
        open.isOver.fulfil(true)
        end(id, outcome)
        open.request?.end(result)
        open.transfer.end(TransferResult(outcome: result))
    }

    private func accept(_ id: PageMachine.OfferID, _ transfer: Transfer) {
        guard let content else { return }
        let download = PageDownload(content, transfer: transfer, clock: node.settings.clock)
        let failure: TransferOutcome? = state.update { state in
            let open = state.requests.removeValue(forKey: id)
            guard !state.isStopping else { return .interrupted }
            guard state.machine.accept(id) != .over else { return .cancelled(by: .remote) }
            state.downloads[id] = download
            state.unencryptedDownloads[id] = open?.unencryptedDownload
            return nil
        }
        if let failure {
            end(id, .cancelled)
            return transfer.end(TransferResult(outcome: failure))
        }
        node.transferProgress.add(transfer)
        transfer.enter(.moving)
        transfer.onCancel { [weak self] in
            self?.endDownload(id, TransferResult(outcome: .cancelled(by: .local)))
        }
        node.start { [weak self, node] in
            await firstResult(
                of: { _ = await transfer.result },
                {
                    while !Task.isCancelled {
                        let remaining = download.silenceDeadline - node.settings.clock()
                        guard remaining > .zero else { return }
                        try? await Task.sleep(for: remaining)
                    }
                })
            // No effect on a transfer that has ended.
            self?.endDownload(id, TransferResult(outcome: .interrupted))
        }
    }

    /// Ends a transfer. No effect on one that has ended, and on offers.
    func endDownload(_ id: PageMachine.OfferID, _ result: TransferResult) {
        endRequest(id, .cancelled, result.outcome)
        let removed = state.update { state in
            state.unencryptedDownloads[id] = nil
            return state.downloads.removeValue(forKey: id)
        }
        guard let download = removed else { return }
        download.end()
        let outcome: PageMachine.Outcome =
            switch result.outcome {
            case .completed: .stored
            case .cancelled: .cancelled
            case .interrupted: .expired
            case .declined, .expired, .failed: .failed
            }
        end(id, outcome)
        download.transfer.end(result)
    }

    /// Records that a browser has an item whole.
    func recordReceipt(of item: UInt32, in id: PageMachine.OfferID, isLast: Bool) {
        state.withLock { $0.downloads[id] }?.recordReceipt(of: item)
        if isLast { endDownload(id, TransferResult(outcome: .completed)) }
    }

    // MARK: Content

    /// Reads a chunk that a browser fetches.
    func read(_ fetch: PageFetch) -> HTTPResponse {
        guard let download = state.withLock({ $0.downloads[fetch.offer] }) else { return HTTPResponse(.conflict) }
        do throws(StorageError) {
            guard let chunk = try download.chunk(fetch.index, of: fetch.item) else { return HTTPResponse(.conflict) }
            state.withLock { $0.machine.recordFetch(fetch, isLast: chunk.isLast) }
            return fetch.response(chunk.content, isLast: chunk.isLast)
        } catch {
            endDownload(
                fetch.offer,
                TransferResult(outcome: .failed(TransferFailure(error), at: .local), detail: error.description))
            return HTTPResponse(.conflict)
        }
    }

    /// Sends an item, or a part of it, without encryption. The connection ends behind it: a client that closes its own end
    /// afterwards has received all bytes, unless its machine has not acknowledged them: then it closed that end before them.
    func send(_ unencrypted: UnencryptedPageDownload, over connection: PageConnection) {
        let link = connection.link
        defer { link.close() }
        let head = unencrypted.head.head(length: UInt64(unencrypted.bytes.count), closes: true)
        let (found, isUnencrypted) = state.withLock {
            ($0.downloads[unencrypted.offer], $0.unencryptedDownloads[unencrypted.offer])
        }
        isUnencrypted?.fulfil(true)
        guard let download = found,
            connection.send(head), download.write(unencrypted.bytes, of: unencrypted.item, to: connection)
        else { return }
        link.finishWriting()
        // The end of the stream, which is behind the content, may be unacknowledged still.
        guard connection.awaitEnd(), link.unacknowledgedByteCount ?? 0 <= 1 else { return }
        let reaction = state.update { $0.machine.recordUnencryptedBytes(unencrypted.bytes, of: unencrypted) }
        if let reaction { perform(reaction, from: link.remote.host) }
    }
}
