internal import Glibc
internal import Nearshare

/// Sends through the node that runs on this machine: two processes with one key in the mesh would receive each other's answers.
struct NodeSendClient: Sendable {
    /// The node has ended before the outcome was known.
    struct NodeEnded: Error, CustomStringConvertible {
        var description: String { "the node of this machine has ended" }
    }

    let client: any NodeClient
    let reporter: any Reporter
    /// Lists the files that the node sends, so that they are shown and can be cancelled like those of this process.
    let running: RunningTransfers
    /// Timeout of the delivery of a text, and of the receiver's answer to a file.
    let timeout: Duration

    /// - Parameters:
    ///   - isPart: whether it is one of several files of the send.
    ///   - confirm: asks the user whether all relays may read the file, for a receiver whose app takes no other files.
    func sendFile(
        _ path: String, to contact: Contact, isPart: Bool = false, confirmingUnsealed confirm: UnsealedConfirmation? = nil
    ) async throws {
        if try await sendFile(path, to: contact, isPart: isPart, isEncrypted: true, isLast: confirm == nil) { return }
        guard await confirm?.ask(contact.name.shown) == true else { throw UnsealedConfirmation.refusal(of: contact.name.shown) }
        _ = try await sendFile(path, to: contact, isPart: isPart, isEncrypted: false, isLast: true)
    }

    /// - Parameter isLast: whether no other attempt follows, so that an app that takes no sealed files is a failure.
    /// - Returns: false for such an app, when another attempt follows.
    private func sendFile(
        _ path: String, to contact: Contact, isPart: Bool, isEncrypted: Bool, isLast: Bool
    ) async throws -> Bool {
        let name = contact.name.shown
        let absolute = try ResolvedPath.of(path)
        let events: AsyncStream<ControlEvent>
        let id: TransferID
        do throws(ControlFailure) {
            events = try await client.events()
            id = try await client.sendFile(absolute, to: contact.id, isEncrypted: isEncrypted, timeout: timeout)
        } catch {
            switch error.kind {
            case .gone: throw NodeEnded()
            // A peer in range has left since it was found; any other was known, but never in range.
            case .peerNotFound where contact.id != .broadcast:
                throw CommandFailure(
                    contact.isNear ? .peerGone : .peerNotFound,
                    "\(name) is \(contact.isNear ? "no longer" : "not") nearby, and files are not kept for later; send it again when "
                        + "`nearshare receive` runs there")
            default: throw error
            }
        }
        let content = NameText.shown(absolute.pathComponents.last ?? absolute)
        reporter.report(
            .inviting(
                OutgoingInvitation(
                    transfer: id, peer: contact.id, receiver: contact.name.claimed, name: contact.name.quoted,
                    trustStatus: contact.trustStatus, path: .node, isEncrypted: isEncrypted, part: isPart ? (content, nil) : nil
                )))
        let label = TransferLabel(content, to: name)
        let transfer = Transfer(
            progress: TransferProgress(id: id, direction: .outgoing, total: nil, totalEntries: 1), clock: SystemClock.monotonic)
        let isCancelled = Promise<Void>()
        transfer.onCancel { isCancelled.fulfil() }
        let end = await withTaskGroup(of: Void.self) { group in
            group.addTask { if await isCancelled.value != nil { try? await client.cancelTransfer(.transfer(id)) } }
            defer { group.cancelAll() }
            return await running.following(transfer, label: label) { await follow(transfer, events) }
        }
        guard let end, let outcome = end.outcome else { throw NodeEnded() }
        if !isLast, outcome == UnsealedConfirmation.missingEncryption { return false }
        let isRefused = isEncrypted && outcome == UnsealedConfirmation.missingEncryption
        let detail = isRefused ? UnsealedConfirmation.advice(for: name) : end.detail
        reporter.report(
            .sent(
                SendResult(
                    transfer: id, peer: contact.id, outcome: outcome, detail: detail, label: label.text, content: content,
                    byteCount: end.done, canResume: false, receiver: name, isConfirmed: end.isConfirmed ?? true)))
        guard outcome == .completed else {
            let status = running.isCancelled ? ExitStatus(outcome) : ExitStatus(atNode: outcome)
            throw CommandFailure(status, detail ?? outcome.sentence(name, canResume: false))
        }
        return true
    }

    /// Records in `transfer` what the node reports about the transfer that it carries.
    /// - Returns: the last report; nil when the node has ended before it.
    private func follow(_ transfer: Transfer, _ events: AsyncStream<ControlEvent>) async -> TransferStatus? {
        var hasReportedDetail = false
        for await case .transfer(let status) in events where status.id == .transfer(transfer.id) {
            if let outcome = status.outcome {
                transfer.end(TransferResult(outcome: outcome, detail: status.detail))
                return status
            }
            if let detail = status.detail, !hasReportedDetail {
                reporter.report(.notice("\(NameText.shown(status.name)): \(detail)"))
            }
            hasReportedDetail = status.detail != nil
            if status.isWaitingForAnswer == true { transfer.enter(.waiting) }
            transfer.recordProgress(to: status.done, of: status.total)
            reporter.report(.nodeProgress(transfer.id, done: status.done, total: status.total))
        }
        transfer.end(TransferResult(outcome: .interrupted))
        return nil
    }

    func sendText(_ text: String, to contact: Contact) async throws {
        let events = try await client.events()
        let id = try await client.sendLine(text, in: .peer(contact.id))
        if !contact.isNear {
            reporter.report(
                .notice(
                    "\(contact.name.shown) is away; waiting for \(timeout.asLargestUnit). After that, the node keeps the message, and "
                        + "delivers it when it can"))
        }
        let answer = await withTimeout(timeout) { () -> CommandFailure? in
            for await case .chatMessageChanged(id, _, let status, let reason) in events where status >= .delivered {
                guard status == .failed else { return nil }
                return CommandFailure(.failure, "could not be sent: \(reason ?? "unknown reason")")
            }
            return Self.notDelivered(to: contact)
        }
        try Task.checkCancellation()
        let failure = answer ?? Self.notDelivered(to: contact)
        let outcome: TransferOutcome =
            switch failure?.status {
            case nil: .completed
            case .timedOut?: .expired
            default: .failed(.refused, at: .local)
            }
        reporter.report(
            .sent(
                SendResult(
                    peer: contact.id, outcome: outcome, detail: failure?.message,
                    label: TransferLabel("message", to: contact.name.shown).text,
                    content: "message", byteCount: UInt64(text.utf8.count), receiver: contact.name.shown,
                    receiverName: contact.name, message: id)))
        if let failure { throw failure }
    }

    private static func notDelivered(to contact: Contact) -> CommandFailure {
        CommandFailure(.timedOut, "not delivered to \(contact.name.shown) yet; the node keeps it, and delivers it when it can")
    }
}

extension ExitStatus {
    /// The exit code for a transfer of the node, which the user of this process has not cancelled.
    init(atNode outcome: TransferOutcome) {
        if case .cancelled = outcome { self = .declined } else { self.init(outcome) }
    }
}
