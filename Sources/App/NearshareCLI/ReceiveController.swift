internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareTerminal
internal import Synchronization

/// Answers invitations by policy or by asking, follows what was accepted, and tells of all of it.
final class ReceiveController: Sendable {
    private struct State {
        var running: [(label: String, transfer: Transfer)] = []
        var status = ExitStatus.ok
    }

    private let machine: LocalMachine
    private let place: ReceivingPlace
    private let policy: Configuration.Accept
    private let quota: PeerQuota
    private let voice: DeskVoice
    private let endsAfterFirst: Bool
    private let questions: PromptQueue?
    private let log: Logger
    private let state = Mutex(State())

    /// How often the spool is looked through for what the inbox did not take.
    private static let spoolInterval = Duration.seconds(5)

    init(
        machine: LocalMachine, place: ReceivingPlace, policy: Configuration.Accept, quota: PeerQuota, voice: DeskVoice,
        endsAfterFirst: Bool, terminal: TerminalDevice?, log: Logger
    ) {
        self.machine = machine
        self.place = place
        self.policy = policy
        self.quota = quota
        self.voice = voice
        self.endsAfterFirst = endsAfterFirst
        questions = policy == .ask ? terminal.map { PromptQueue($0) } : nil
        self.log = log
    }

    /// Serves until the node shuts down, or the first transfer is complete where that was asked for.
    func serve(_ receiving: Listener, on node: Node) async throws {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.questions?.run() }
            if self.voice.drawsProgress { group.addTask { await drawProgress { self.state.withLock { $0.running } } } }
            group.addTask { await self.deliverSpooled() }
            group.addTask { await self.compareCodes(receiving.comparisons) }
            await withDiscardingTaskGroup { answers in
                for await invitation in receiving.invitations {
                    answers.addTask {
                        let ends = await self.answer(invitation)
                        if ends, self.endsAfterFirst { node.beginShutdown() }
                    }
                }
            }
            group.cancelAll()
        }
        let status = state.withLock { $0.status }
        if status != .ok, endsAfterFirst { throw CommandFailure(status, "") }
    }

    /// The person wants to stop: what waits is declined, what runs is cancelled at both ends.
    func interrupt(_ node: Node) {
        for (_, transfer) in state.withLock({ $0.running }) { transfer.cancel() }
        questions?.close()
        node.beginShutdown()
    }

    private func deliverSpooled() async {
        guard case .inbox(let inbox) = place else { return }
        while !Task.isCancelled {
            for item in inbox.deliverPending() {
                if let place = item.stagedPath {
                    attempt { try ReceiveHistory(in: machine.state).recordMove(from: place, to: item.path) }
                }
                tell(item, of: nil)
            }
            try? await Task.sleep(for: Self.spoolInterval)
        }
    }

    private func compareCodes(_ comparisons: AsyncStream<VerificationRequest>) async {
        await withDiscardingTaskGroup { group in
            for await comparison in comparisons {
                group.addTask { await self.answer(comparison) }
            }
        }
    }

    /// Somebody wants the codes compared: only a person can say whether they are the same.
    private func answer(_ comparison: VerificationRequest) async {
        let peer = comparison.peer
        guard let questions else {
            voice.complain("\(peer.name.shown) wants to compare the short code, but nobody can be asked here")
            return comparison.answer(isSame: false)
        }
        let text =
            "\(peer.name.shown) (\(InvitationText.trustStatus(peer.trustStatus)), \(peer.id.hex)) wants to compare the short code:\n"
            + "\n    \(comparison.shortCode)\n\n"
        let name = peer.name.shown
        let answer = await questions.ask(
            text, "is it the same on \(name)'s screen?", about: name,
            until: {
                // Their no ends the question; after their yes only their going does.
                if await comparison.isSameThere == false { return .declined(.declined) }
                return await comparison.ended
            })
        switch answer {
        case .yes:
            comparison.answer(isSame: true)
            if await !isSaidThere(comparison) {
                voice.complain("\(name) is not verified: both have to say that the codes are the same")
            }
        case .no:
            comparison.answer(isSame: false)
            deny(peer)
            voice.say("\(name) is not verified: the codes were not the same")
        case .block:
            comparison.answer(isSame: false)
            deny(peer)
            block(peer)
        case .over(.declined): voice.complain("\(name) says that the codes are not the same: not verified")
        case .over: voice.say("\(name) does not ask any more; nothing was compared")
        }
    }

    /// The person here has said yes; the key is verified when the one there does.
    private func isSaidThere(_ comparison: VerificationRequest) async -> Bool {
        let peer = comparison.peer
        let name = peer.name.shown
        voice.say("waiting for \(name) to say so as well…")
        switch await comparison.isSameThere {
        case true?:
            attempt {
                try machine.trust.update { $0.recordVerification(of: peer.proven, named: peer.name, at: SystemClock.wall()) }
                voice.say("\(name) is verified")
            }
            return true
        case false?: voice.complain("\(name) says that the codes are not the same")
        case nil: voice.complain("\(name) has gone without an answer")
        }
        return false
    }

    private func deny(_ peer: Peer) {
        attempt { try machine.trust.update { $0.recordMismatch(with: peer.proven) } }
    }

    // MARK: One invitation

    /// - Returns: whether it was the one transfer that was waited for: it is complete, or there is nowhere left to write.
    private func answer(_ invitation: Invitation) async -> Bool {
        let peer = invitation.peer
        if voice.isJSON { JSONEvents.emit("invitation", describe(invitation)) }
        switch await decide(invitation) {
        case .decline(let reason, let detail):
            invitation.decline(reason)
            tellEnd(of: invitation, .declined(reason), detail)
            return false
        case .over(let outcome):
            tellEnd(of: invitation, outcome, nil)
            return false
        case .accept:
            return await take(invitation, from: peer)
        }
    }

    private enum Decision: Sendable {
        case accept
        case decline(DeclineReason, String? = nil)
        case over(TransferOutcome)
    }

    private func decide(_ invitation: Invitation) async -> Decision {
        let peer = invitation.peer
        if case .inbox(let inbox) = place, let refusal = refusal(of: invitation.offer, by: inbox.limits) {
            return .decline(refusal.reason, refusal.detail)
        }
        if case .standardOutput = place, invitation.offer.items.count > 1 || invitation.offer.items.first?.kind == .folder {
            // What comes out at the other end of a pipe has no names: several files would be one.
            return .decline(.declined, "standard output takes one file, and this is more; receive it with --inbox")
        }
        switch policy {
        case .none: return .decline(.takesNothing)
        case .all:
            // Even where everybody is welcome, somebody who takes another's name is not.
            if case .nameClash = peer.trustStatus {
                voice.complain(clashWarning(peer))
                return .decline(.identityChanged)
            }
            return unasked(invitation)
        case .friends:
            if case .nameClash = peer.trustStatus { voice.complain(clashWarning(peer)) }
            return peer.trustStatus.isFriend ? unasked(invitation) : .decline(.notAllowed)
        case .ask:
            guard let questions else { return .decline(.notAllowed) }
            var code: ShortAuthenticationDigits?
            if !peer.trustStatus.isVerified { code = await invitation.shortCode }
            let text = InvitationText.describe(
                invitation, code: code, freeSpace: place.freeSpace, warning: warning(peer))
            let answer = await questions.ask(text, "accept?", about: peer.name.shown, until: { await invitation.ended })
            switch answer {
            case .yes: return .accept
            case .no: return .decline(.declined)
            case .block:
                block(peer)
                return .decline(.declined)
            case .over(let outcome): return .over(outcome)
            }
        }
    }

    private func unasked(_ invitation: Invitation) -> Decision {
        switch quota.take(invitation.offer, from: invitation.peer.proven.fingerprint) {
        case .taken: return .accept
        case .unknownSize: return .decline(.tooLarge, "its size is not known, and --max-per-peer has a limit")
        case .exceeds(let limit, let used):
            let size = invitation.offer.totalSize ?? 0
            return .decline(
                .tooLarge,
                "it is \(size.asByteCount), and after the \(used.asByteCount) of before --max-per-peer leaves "
                    + "\((limit - min(limit, used)).asByteCount) of \(limit.asByteCount)")
        }
    }

    private func refusal(of offer: Offer, by limits: InboxLimits) -> (reason: DeclineReason, detail: String)? {
        let total = offer.totalSize ?? 0
        if let limit = limits.maximumSize, total > limit {
            return (.tooLarge, "it is \(total.asByteCount), and --max-size is \(limit.asByteCount)")
        }
        if offer.entryCount > limits.maximumEntries {
            return (.tooLarge, "it has \(offer.entryCount) entries, and \(limits.maximumEntries) are taken at once")
        }
        if let free = place.freeSpace, total > free {
            return (
                .noSpace,
                "it needs \(total.asByteCount), and there is room for \(free.asByteCount), as \(limits.reserve.asByteCount) of the "
                    + "disk stay free"
            )
        }
        return nil
    }

    private func take(_ invitation: Invitation, from peer: Peer) async -> Bool {
        let sink: any ResourceSink
        do {
            sink = try makeSink(for: invitation)
        } catch {
            invitation.decline(error.code == .noSpace ? .noSpace : .tooLarge)
            tellEnd(of: invitation, .declined(.noSpace), error.description)
            return false
        }
        remember(peer)
        // What can't be read again by the sender can't be gone on with.
        let transfer = invitation.accept(into: sink, keepsPartial: invitation.offer.totalSize != nil)
        let label = "\(peer.name.shown) → \(InvitationText.summary(invitation.offer))"
        state.withLock { $0.running.append((label, transfer)) }
        if voice.isJSON {
            JSONEvents.emit("accepted", ["transfer": .text(transfer.id.hex), "peer": .text(peer.id.hex)])
            for await progress in transfer.progress {
                if progress.phase == .moving, progress.resumed > 0, progress.done == progress.resumed {
                    JSONEvents.emit("resumed", ["transfer": .text(transfer.id.hex), "offset": .number(progress.resumed)])
                } else if progress.phase == .moving {
                    JSONEvents.emit("progress", JSONEvents.progress(progress))
                }
            }
        }
        let result = await transfer.result
        state.withLock { state in state.running.removeAll { $0.transfer === transfer } }
        for item in result.delivered {
            // First, so that a voice note is known by its id when that is told.
            record(item, from: peer)
            tell(item, of: invitation, transfer: transfer)
        }
        tellEnd(of: invitation, result.outcome, result.detail, transfer: transfer)
        if result.outcome != .completed {
            state.withLock { $0.status = result.outcome.status }
            if policy != .ask { quota.giveBack(invitation.offer, from: peer.proven.fingerprint) }
        }
        if result.outcome == .completed { return true }
        // Whoever read standard output has gone, and half of it has been written.
        if case .standardOutput = place, case .failed(.storageFailed, at: .here) = result.outcome { return true }
        return false
    }

    private func makeSink(for invitation: Invitation) throws(StorageError) -> any ResourceSink {
        switch place {
        case .inbox(let inbox):
            return try inbox.makeSink(
                for: invitation.offer, from: invitation.peer.proven.fingerprint, resumeKey: invitation.resumeKey,
                clock: { SystemClock.monotonic() })
        case .standardOutput(let limit): return OutputSink(descriptor: STDOUT_FILENO, limit: limit)
        }
    }

    // MARK: Remembering

    private func remember(_ peer: Peer) {
        if case .nameClash = peer.trustStatus { return }
        attempt { try machine.trust.update { $0.recordContact(with: peer.proven, named: peer.name, at: SystemClock.wall()) } }
    }

    private func block(_ peer: Peer) {
        attempt {
            try machine.trust.update { book in
                book.recordContact(with: peer.proven, named: peer.name, at: SystemClock.wall())
                book.setBlocked(peer.proven.fingerprint, true)
            }
        }
        voice.say("\(peer.name.shown) is blocked; `nearshare peers unblock \(peer.id.hex)` lifts that")
    }

    private func record(_ item: DeliveredItem, from peer: Peer) {
        guard case .inbox = place else { return }
        let entry = ReceiveHistory.Entry(
            when: SystemClock.wall(), peer: peer.proven.fingerprint, peerName: peer.name,
            claimedName: String(decoding: item.claimedName.bytes, as: UTF8.self), path: item.path, size: item.size,
            type: item.detectedType, isFolder: item.kind == .folder)
        attempt { try ReceiveHistory(in: machine.state).append(entry) }
    }

    /// What can't be remembered must not lose what was received.
    private func attempt(_ body: () throws -> Void) {
        do { try body() } catch { voice.complain("\(error)") }
    }

    // MARK: Telling

    private func warning(_ peer: Peer) -> String? {
        if case .nameClash = peer.trustStatus { return clashWarning(peer) }
        return nil
    }

    private func clashWarning(_ peer: Peer) -> String {
        "WARNING: \(peer.name.shown) is known here with another key. This may be somebody else who takes the name, "
            + "or a new machine. Compare the short code before you accept anything."
    }

    private func describe(_ invitation: Invitation) -> [String: JSONValue] {
        let peer = invitation.peer
        return [
            "peer": .text(peer.id.hex), "fingerprint": .text(peer.proven.fingerprint.hex), "name": .text(peer.name.claimed),
            "standing": .text(peer.trustStatus.label), "items": .list(invitation.offer.items.map(JSONEvents.describe)),
            "item_count": .number(UInt64(invitation.offer.itemCount)), "entries": .number(invitation.offer.entryCount),
            "total": JSONValue(invitation.offer.totalSize), "free": JSONValue(place.freeSpace),
        ]
    }

    private func tell(_ item: DeliveredItem, of invitation: Invitation?, transfer: Transfer? = nil) {
        if voice.isJSON {
            var fields: [String: JSONValue] = [
                "path": .text(item.path), "name": .text(String(decoding: item.claimedName.bytes, as: UTF8.self)),
                "size": .number(item.size), "type": JSONValue(item.detectedType), "kind": .text("\(item.kind)"),
                "in_inbox": .flag(item.isInInbox), "warning": JSONValue(item.typeWarning),
            ]
            if let transfer { fields["transfer"] = .text(transfer.id.hex) }
            if item.kind == .text { fields["text"] = JSONValue(TextFile.read(item.path)) }
            if let note = VoiceArrival.facts(of: item) { fields["voice"] = .object(note.json) }
            JSONEvents.emit("delivered", fields)
            return
        }
        if item.kind == .text, let text = TextFile.read(item.path) {
            let name = invitation?.peer.name.shown ?? "somebody"
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                voice.result("\(name): \(TerminalText.escaped(String(line), columns: 4096))")
            }
            return
        }
        guard item.path != "" else { return }
        let type = item.detectedType.map { ", \($0)" } ?? ""
        let facts = item.kind == .folder ? "folder" : "\(item.size.asByteCount)\(type)"
        voice.result("\(TerminalText.escaped(item.path, columns: 4096))  (\(facts))")
        if let note = VoiceArrival.facts(of: item) { VoiceArrival.tell(note, voice) }
        if let warning = item.typeWarning { voice.complain("look twice before you open it: \(warning)") }
        if !item.isInInbox { voice.complain("the inbox can't be written to; it waits in the spool and moves when it can be") }
    }

    private func tellEnd(
        of invitation: Invitation, _ outcome: TransferOutcome, _ detail: String?, transfer: Transfer? = nil
    ) {
        let name = invitation.peer.name.shown
        if voice.isJSON {
            var fields: [String: JSONValue] = [
                "outcome": .text(outcome.word), "peer": .text(invitation.peer.id.hex), "detail": JSONValue(detail),
            ]
            if let transfer { fields["transfer"] = .text(transfer.id.hex) }
            JSONEvents.emit("finished", fields)
            return
        }
        let what = InvitationText.summary(invitation.offer)
        switch outcome {
        case .completed: voice.say("\(what) from \(name): complete")
        case .declined(.declined): voice.say("\(what) from \(name): declined")
        case .expired: voice.say("\(what) from \(name): not answered in time, so it was declined")
        case .declined(let reason):
            voice.say("\(what) from \(name): declined (\(reason.words))\(detail.map { ": \($0)" } ?? "")")
        default: voice.complain("\(what) from \(name): \(detail ?? outcome.sentence(name))")
        }
    }
}

extension DeclineReason {
    var words: String {
        switch self {
        case .declined: "declined"
        case .expired: "not answered in time"
        case .notAllowed: "not a friend"
        case .takesNothing: "nothing is taken, by --accept none"
        case .tooLarge: "too large"
        case .noSpace: "not enough room"
        case .busy: "another invitation is waiting"
        case .identityChanged: "known name, other key"
        }
    }
}
