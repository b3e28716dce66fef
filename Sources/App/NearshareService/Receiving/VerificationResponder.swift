internal import Nearshare

/// Answers peers that ask to compare the short authentication string. Only the user can answer.
struct VerificationResponder: Sendable {
    let trust: TrustRecorder
    let reporter: any Reporter
    /// nil when the user cannot be asked.
    let prompts: PromptQueue?

    /// Answers requests until the node shuts down.
    func run(_ requests: AsyncStream<VerificationRequest>) async {
        await withDiscardingTaskGroup { group in
            for await request in requests { group.addTask { await answer(request) } }
        }
    }

    private func answer(_ request: VerificationRequest) async {
        let peer = request.peer
        let name = peer.name.shown
        guard let prompts else {
            reporter.report(.warning("\(name) wants to compare the short code, but there is no terminal to ask on"))
            return request.answer(isSame: false)
        }
        let text =
            "\(name) (\(OfferText.describe(peer.trustStatus)), \(peer.id.hex)) wants to compare the short code:\n"
            + "\n    \(request.shortCode)\n\n"
        let answer = await prompts.ask(
            text, question: "is it the same on \(name)'s screen?", about: name,
            until: {
                // A no of the peer ends the question; after a yes of the peer only the end of the link does.
                if await request.isSameThere == false { return .declined(.declined) }
                return await request.ended
            })
        switch answer {
        case .yes:
            request.answer(isSame: true)
            if await !awaitAnswer(to: request) {
                reporter.report(.warning("\(name) is not verified: both users must confirm that the codes are the same"))
            }
        case .no:
            request.answer(isSame: false)
            trust.recordDenial(of: peer)
            reporter.report(.notice("\(name) is not verified: the codes were not the same"))
        case .block:
            request.answer(isSame: false)
            trust.recordDenial(of: peer)
            trust.block(peer)
        case .ended(.declined):
            reporter.report(.warning("\(name) says that the codes are not the same: not verified"))
        case .ended: reporter.report(.notice("\(name) has withdrawn the request; nothing was compared"))
        }
    }

    /// Waits for the peer's answer after the local yes; the key is verified when both are yes.
    private func awaitAnswer(to request: VerificationRequest) async -> Bool {
        let peer = request.peer
        let name = peer.name.shown
        reporter.report(.notice("waiting for \(name) to confirm it as well…"))
        switch await request.isSameThere {
        case true?:
            if trust.recordVerification(of: peer) { reporter.report(.notice("\(name) is verified")) }
            return true
        case false?: reporter.report(.warning("\(name) says that the codes are not the same"))
        case nil: reporter.report(.warning("\(name) has disconnected without an answer"))
        }
        return false
    }
}
