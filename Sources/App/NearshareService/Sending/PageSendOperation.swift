package import Nearshare
internal import Synchronization

/// Sends something to the browsers that open a page, each of which the user accepts once.
package final class PageSendOperation: Sendable {
    private let machine: LocalMachine
    private let source: SendSource
    private let reporter: any Reporter
    private let acceptsAll: Bool
    private let endsAfterFirst: Bool
    private let prompts: PromptQueue?
    private let running = RunningTransfers()
    private let state = Mutex(State())

    private struct State {
        var accepted = AcceptedBrowsers()
        var blocked = ForeignBlockList()
        var hasCompleted = false
    }

    /// - Parameters:
    ///   - acceptsAll: sends to each browser that has the page's key, without a question.
    ///   - endsAfterFirst: ends when the first browser has everything, and no other one receives.
    ///   - display: asks the user; nil only where all are accepted.
    package init(
        machine: LocalMachine, source: SendSource, reporter: any Reporter, acceptsAll: Bool, endsAfterFirst: Bool,
        display: (any PromptDisplay)?
    ) {
        self.machine = machine
        self.source = source
        self.reporter = SendRecorder(reporter: reporter, history: TransferLog(of: .sent, in: machine.state), source: source)
        (self.acceptsAll, self.endsAfterFirst) = (acceptsAll, endsAfterFirst)
        prompts = display.map { [running] in PromptQueue($0, running: running) }
    }

    /// The contents for the page: each file, each folder as an archive, or all of many as one archive.
    package func contents() throws -> [any ResourceSource] {
        // One source for all browsers.
        let whole = source.sources(for: [()]).map(\.source)
        guard case .files(let paths) = source.content, let parts = source.parts else { return whole }
        guard paths.count <= PageServer.maximumItemCount else {
            return try whole.map { try ZipSource(of: $0, named: Self.archiveName("nearshare")) }
        }
        return try parts().map { part in
            guard let item = part.offer.items.first, item.kind == .folder else { return part }
            return try ZipSource(of: part, named: Self.archiveName(String(decoding: item.name.bytes, as: UTF8.self)))
        }
    }

    private static func archiveName(_ name: String) throws(CommandFailure) -> ClaimedFileName {
        guard let archive = ClaimedFileName("\(name).zip") else {
            throw CommandFailure(.usage, "the name \(TerminalText.quoted(name)) is too long for an archive; rename the folder")
        }
        return archive
    }

    /// Serves until the node shuts down.
    /// - Throws: ``CommandFailure`` when it ends before a browser has everything.
    package func serve(_ page: PageServer, on node: Node) async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.prompts?.run() }
            group.addTask { await self.reporter.showProgress(of: self.running) }
            await withDiscardingTaskGroup { browsers in
                for await request in page.requests {
                    browsers.addTask {
                        await self.answer(request)
                        if self.endsAfterFirst, self.state.withLock({ $0.hasCompleted }), self.running.current.isEmpty {
                            node.beginShutdown()
                        }
                    }
                }
            }
            group.cancelAll()
        }
    }

    /// Ends the transfers at both ends, and the page.
    package func interrupt(_ node: Node) {
        running.cancelAll()
        prompts?.close()
        node.beginShutdown()
    }

    private func answer(_ request: PageRequest) async {
        let peer = request.peer
        let name = peer.name.shown
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: request.transfer.id, peer: peer.id, receiver: peer.name.claimed,
                    name: peer.name.quoted(of: peer.id),
                    trustStatus: peer.trustStatus, path: .page(LinkAddress(host: peer.address?.host ?? "", port: 0)))))
        reporter.report(.authenticationDigits(peer.id, peer.name, request.shortCode))
        // A stream is read once.
        guard source.canResume || !state.withLock({ $0.accepted.hasAcceptedAny }) else {
            request.decline()
            return report(await request.transfer.result, of: request, to: name)
        }
        guard !state.withLock({ $0.blocked.contains(peer) }) else {
            request.decline()
            return report(await request.transfer.result, of: request, to: name)
        }
        let number = running.reserveNumber()
        let isAccepted = await isAccepted(request, number: number)
        let isServed = state.withLock { state in
            // Another browser may have been accepted while the question was open.
            guard isAccepted, source.canResume || !state.accepted.hasAcceptedAny else { return false }
            state.accepted.accept(peer.fingerprint, now: SystemClock.monotonic())
            return true
        }
        if isServed {
            request.accept()
            reporter.report(.acceptedByReceiver(request.transfer.id))
        } else {
            request.decline()
        }
        async let _ = reportUnencryptedDownload(of: request, to: name)
        let label = TransferLabel(source.label, to: name)
        let result = await running.following(request.transfer, label: label, number: number) {
            prompts?.updateRunning()
            for await progress in request.transfer.progress where progress.phase == .moving {
                reporter.report(.progress(progress))
            }
            return await request.transfer.result
        }
        prompts?.updateRunning()
        state.withLock { state in
            if result.outcome == .completed { state.hasCompleted = true }
            if case .cancelled(by: .local) = result.outcome { state.accepted.revoke(peer.fingerprint) }
        }
        report(result, of: request, to: name)
    }

    /// Reports the browser's own download, which its user has chosen: the sender decides as well what others may read.
    private func reportUnencryptedDownload(of request: PageRequest, to name: String) async {
        guard await request.isDownloadedUnencrypted() else { return }
        reporter.report(
            .warning("\(source.label) → \(name): downloaded without encryption; others on this network can read it"))
    }

    private func isAccepted(_ request: PageRequest, number: Int) async -> Bool {
        let now = SystemClock.monotonic()
        if acceptsAll || state.withLock({ $0.accepted.contains(request.peer.fingerprint, now: now) }) { return true }
        guard let prompts else { return false }
        let name = request.peer.name.quoted(of: request.peer.id)
        let subject =
            "through the page for browsers, \(request.peer.id.hex): \(name) asks for \(source.label)\n"
            + "  short code \(request.shortCode): its screen should show the same\n"
        let answer = await prompts.ask(
            Question("send it?", about: name, subject: subject), number: number, until: { await request.ended })
        switch answer {
        case .yes: return true
        case .block:
            state.withLock { $0.blocked.insert(request.peer) }
            return false
        // A browser gets nothing without an answer. `always` and `part` are not offered by this question.
        case .no, .ended, .unwatched, .closed, .always, .part: return false
        }
    }

    private func report(_ result: TransferResult, of request: PageRequest, to name: String) {
        let progress = request.transfer.snapshot
        // The user, who has declined at this end, needs no sentence about a peer that has.
        if case .declined = result.outcome { reporter.report(.notice("\(source.label) → \(name): declined")) }
        reporter.report(
            .sent(
                SendResult(
                    transfer: request.transfer.id, peer: request.peer.id, outcome: result.outcome, detail: result.detail,
                    label: "\(source.label) → \(name)", content: source.label, byteCount: progress.done,
                    canResume: false, receiver: name)))
        if let failure = result.detail { reporter.report(.warning("\(source.label) → \(name): \(failure)")) }
    }
}
