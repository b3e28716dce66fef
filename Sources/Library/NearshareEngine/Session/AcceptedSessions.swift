internal import NearshareDirect
internal import NearshareInterfaces

/// The sessions that a policy allows; see ``Listener/sessions(_:settings:)``.
struct AcceptedSessions: AsyncSequence, Sendable {
    struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let judge: Judge
        fileprivate let settings: SessionSettings

        /// Waits for the next invitation that is allowed, and accepts it. One that is over by then is skipped.
        /// - Returns: nil when the node has stopped, or the task is cancelled.
        func next() async -> Session? {
            while let (invitation, asksTrust) = await judge.allowed.dequeue() {
                if let session = try? invitation.accept(settings, asksTrust: asksTrust) { return session }
            }
            return nil
        }
    }

    /// An invitation to accept, and whether the session then asks the user about the peer's key.
    fileprivate typealias Allowed = (invitation: SessionInvitation, asksTrust: Bool)

    /// Judges the invitations for one reader, until it is released.
    fileprivate final class Judge: Sendable {
        /// Invitations that are not accepted yet: a reader that goes away joins no session. Dropped ones are declined.
        let allowed: AsyncQueue<Allowed>
        private let task: Task<Void, Never>

        init(_ sessions: AcceptedSessions) {
            let allowed = AsyncQueue<Allowed>(limit: .droppingOldest(beyond: Self.maximumUnreadCount))
            self.allowed = allowed
            // Owned: by this object, whose reader it serves; it is cancelled with it.
            task = Task { await sessions.judgeAll(into: allowed) }
        }

        deinit {
            task.cancel()
        }

        private static let maximumUnreadCount = 256
    }

    private enum Verdict: Sendable {
        case allowed(asksTrust: Bool)
        /// - Parameter isPrompted: whether the user was asked, so that it counts as a question (R11).
        case refused(SessionRefusal, isPrompted: Bool)
        /// The invitation is over, or the reader has gone.
        case undecided
    }

    /// Limit on invitations that are judged at the same time: each may wait for a user, or for the peer's short code.
    private static let maximumOpenCount = 16

    let invitations: AsyncQueue<SessionInvitation>
    let policy: InvitationPolicy
    let settings: SessionSettings

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(judge: Judge(self), settings: settings) }

    private func judgeAll(into allowed: AsyncQueue<Allowed>) async {
        await withTaskGroup(of: Void.self) { group in
            var openCount = 0
            while true {
                if openCount == Self.maximumOpenCount {
                    await group.next()
                    openCount -= 1
                }
                // Those that wait are for the next reader.
                guard !Task.isCancelled, let invitation = await invitations.dequeue() else { break }
                openCount += 1
                group.addTask { await judge(invitation, into: allowed) }
            }
            // Where the listener has ended and not the reader, those that are open are judged to their end.
        }
        allowed.finish()
    }

    private func judge(_ invitation: SessionInvitation, into allowed: AsyncQueue<Allowed>) async {
        let verdict: Verdict = await firstResult(
            of: { await self.verdict(on: invitation) },
            { () -> Verdict in
                // Withdrawn or expired.
                _ = await invitation.ended
                return .undecided
            })
        switch verdict {
        case .allowed(let asksTrust): allowed.enqueue((invitation, asksTrust))
        case .refused(let reason, isPrompted: true): invitation.decline(reason)
        case .refused(let reason, isPrompted: false): invitation.declineUnprompted(reason)
        // A closure of the program may hold the invitation for longer.
        case .undecided: invitation.decline()
        }
    }

    private func verdict(on invitation: SessionInvitation) async -> Verdict {
        guard let isAccepted = await policy.accepts(invitation) else { return .undecided }
        guard isAccepted else { return .refused(.declined, isPrompted: policy.asksUser) }
        if policy.isProof { return .allowed(asksTrust: false) }
        guard let code = await invitation.shortCode else { return .undecided }
        let check = IdentityCheck(peer: invitation.peer, shortCode: code, voucher: nil)
        guard let verdict = await settings.trust.evaluate(check) else { return .undecided }
        switch verdict {
        case .trusted: return .allowed(asksTrust: false)
        case .untrusted: return .refused(.untrusted, isPrompted: false)
        case .ask(nil): return .allowed(asksTrust: true)
        case .ask(let user?):
            guard let isSame = await untilCancelled({ await user(check) }) else { return .undecided }
            return isSame ? .allowed(asksTrust: false) : .refused(.untrusted, isPrompted: true)
        }
    }
}
