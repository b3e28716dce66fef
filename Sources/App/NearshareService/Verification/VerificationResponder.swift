internal import Nearshare

/// The responder's end of verifying a key: asks the local user to compare the short code that a peer wants to compare. Only a
/// user can confirm it. ``VerificationOperation`` is the other end.
struct VerificationResponder: Sendable {
    let trust: TrustRecorder
    let reporter: any Reporter
    let prompts: PromptQueue
    let declines: DeclineLog

    /// Answers requests until the node shuts down.
    func run(_ requests: AsyncStream<VerificationRequest>) async {
        await withDiscardingTaskGroup { group in
            for await request in requests { group.addTask { await answer(request) } }
        }
    }

    private func answer(_ request: VerificationRequest) async {
        let peer = request.peer
        let givenName = trust.machine.shown(peer).name
        let name = givenName.shown(of: peer.id)
        guard prompts.canAsk else {
            if declines.admitReport(of: .notAllowed, to: peer.fingerprint, peer.trustStatus, now: SystemClock.monotonic()) {
                reporter.report(
                    .warning(
                        "\(name) wants to compare the short code, but the user cannot be asked; run `nearshare receive` "
                            + "in a terminal"))
            }
            return request.declineUnattended()
        }
        let quoted = givenName.besideCode(of: peer.id)
        let facts = "\(OfferText.describe(peer.trustStatus)), \(peer.id.hex)"
        var question = Question(
            "is it the same on the screen of \(quoted)?", about: quoted,
            subject: "\(facts): \(quoted) wants to compare the short code:\n\n    \(request.shortCode)\n\n")
        question.isKnown = peer.trustStatus.isKnown
        question.blockWarning = trust.blockWarning(of: peer)
        question.outline = PromptQueue.Outline(
            title: "is the short code the same on the screen of \(quoted)?", subject: "the short code of \(quoted)",
            lines: ["\(request.shortCode)", facts], yes: "The same", no: "Another one")
        let answer = await prompts.ask(
            question,
            until: { [trust] in
                await firstResult(
                    of: {
                        // A denial by the peer ends the question; after its confirmation only the end of the link does.
                        if await request.peerConfirmation == false { return .declined(.declined) }
                        return await request.ended
                    },
                    {
                        await trust.waitForBlock { trust.isBlocked(peer) }
                        return Task.isCancelled ? nil : .cancelled(by: .local)
                    })
            })
        // The peer was blocked meanwhile: by another command, or with the question about an offer.
        if answer != .no, answer != .block, trust.isBlocked(peer) {
            reporter.report(.notice("\(name) is blocked; nothing was compared"))
            return request.declineUnattended()
        }
        switch answer {
        case .yes:
            request.answer(matches: true)
            await awaitPeer(of: request)
        case .no:
            // Recorded first: the peer cannot rely on an answer that is not on disk.
            trust.recordMismatch(with: peer)
            request.answer(matches: false)
            reporter.report(.notice("\(name) is not verified: the codes were not the same"))
        case .block:
            trust.recordMismatch(with: peer)
            trust.block(peer)
            request.answer(matches: false)
        case .ended(.declined):
            reporter.report(.warning("not verified: \(VerificationOperation.denialText(of: givenName))"))
        case .ended: reporter.report(.notice("the connection to \(name) ended; nothing was compared"))
        // A "no" would mean that the codes differ. `always` and `part` are not offered by this question.
        case .unwatched, .closed, .always, .part: request.declineUnattended()
        }
    }

    /// Waits for the peer's user after the local one has confirmed, records the verified key, and reports the result in one line.
    private func awaitPeer(of request: VerificationRequest) async {
        let peer = request.peer
        let name = trust.machine.shown(peer).name
        reporter.report(.notice(VerificationOperation.waitText(for: name)))
        switch await request.peerConfirmation {
        case true?:
            if trust.recordVerification(of: peer) {
                let store = try? trust.machine.trust.read()
                reporter.report(.notice(VerificationOperation.successText(for: name, peer.id, in: store)))
            } else {
                reporter.report(
                    .warning(
                        "\(name.shown) could not be marked as verified: it is blocked, or the address book is full or not "
                            + "writable"))
            }
        case false?: reporter.report(.warning("not verified: \(VerificationOperation.denialText(of: name))"))
        case nil:
            reporter.report(.warning("\(name.shown) is not verified: the connection ended before its user confirmed the code"))
        }
    }
}
