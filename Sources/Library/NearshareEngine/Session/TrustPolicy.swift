public import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// The key of a peer that is about to become a member, for a ``TrustPolicy``.
public struct IdentityCheck: Sendable {
    /// The peer, with its proven key and its trust status.
    public let peer: Peer
    /// The short authentication string, eight digits, which is the same on both ends unless the link is intercepted.
    public let shortCode: String
    /// The member that announced this key, and so vouches for it; nil where no member has.
    public let voucher: PeerID?
}

/// A rule that decides about a peer's key before the peer becomes a member. It decides for this node only: another member may admit
/// the peer nevertheless.
///
/// | policy | a yes holds | a no holds |
/// |---|---|---|
/// | ``init(_:)`` | for the attempt to join; once the peer is a member, until it has left | for the attempt |
/// | ``askAtFirstMeeting`` | as long as the session, while the other end remembers its own | as long as the session |
/// | ``verifiedKeys``, ``anyKey`` | as in the first row | for the attempt |
public struct TrustPolicy: Sendable {
    enum Verdict: Sendable {
        case trusted
        case untrusted
        /// A user has to compare the short authentication strings: asked by the closure, or by the session where it is nil.
        case ask((@Sendable (IdentityCheck) async -> Bool)?)
    }

    private let rule: @Sendable (IdentityCheck) async -> Verdict
    /// Whether the rule may put a key to the user.
    let asksUser: Bool

    private init(asksUser: Bool, rule: @escaping @Sendable (IdentityCheck) async -> Verdict) {
        (self.asksUser, self.rule) = (asksUser, rule)
    }

    /// Applies the rule to a key.
    /// - Returns: nil when the task is cancelled first. The program's closure is not waited for then.
    func evaluate(_ check: IdentityCheck) async -> Verdict? {
        await untilCancelled { [rule] in await rule(check) }
    }

    /// Trusts the keys for which the closure returns true. It is called for each attempt to join with a key that is no member's.
    ///
    /// The closure may take its time, such as to ask a user. Its task is cancelled when no answer is needed any more: at the
    /// invitation's timeout, when the peer gives up or its link is lost, and when the session is over or the node stops. None of
    /// these waits for the closure, and an answer that comes later has no effect; a closure that shows a question removes it then.
    public init(_ isTrusted: @escaping @Sendable (IdentityCheck) async -> Bool) {
        self.init(asksUser: false) { await isTrusted($0) ? .trusted : .untrusted }
    }

    /// Trusts known keys, and keys that a member of the session vouches for. Other keys, and a known name with another key,
    /// are put to the user in ``Session/identityQuestions``. Keys are known from the address book of the identity: that of the user
    /// is filled by the command `nearshare`, and each by `LocalMachine.recordComparison(with:named:isSame:)`. A yes alone is kept for
    /// the session.
    ///
    /// After a no, only ``Session/invite(_:context:secret:timeout:)`` asks about the same key again in this session. A no does not
    /// hold against another member that admits the peer: its key is vouched for then, unless the user knows its name with another
    /// key. Once both users have agreed, neither is asked again until one of the sessions is over, such as because its program
    /// has restarted; then both are. That holds also where the peer has not become a member, because there was no room or the link
    /// was lost. A question that was not answered in time is no answer: the session asks about the same peer again a minute later
    /// at the earliest.
    public static let askAtFirstMeeting = askingAtFirstMeeting(nil)

    /// The rule of ``askAtFirstMeeting``.
    /// - Parameter user: asks the user; nil to ask with ``Session/identityQuestions``.
    package static func askingAtFirstMeeting(_ user: (@Sendable (IdentityCheck) async -> Bool)?) -> TrustPolicy {
        TrustPolicy(asksUser: true) { check in
            switch check.peer.trustStatus {
            case .known: .trusted
            case .new: check.voucher == nil ? .ask(user) : .trusted
            case .nameClash: .ask(user)
            }
        }
    }

    /// Trusts only keys whose short code the user has compared before. It asks no question.
    public static let verifiedKeys = TrustPolicy { $0.peer.trustStatus.isVerified }

    /// Trusts every key, for programs that need no identity.
    public static let anyKey = TrustPolicy { _ in true }
}

/// A question to the user: does the other screen show the same short authentication string? Releasing it unanswered answers no, and
/// a no holds as long as the session; see ``TrustPolicy/askAtFirstMeeting``.
public final class IdentityQuestion: Sendable {
    /// The state that a question shares with the task that waits for the answer.
    final class Outcome: Sendable {
        let answer = Promise<Bool>()
        /// Fulfilled with nil when the question is answered.
        fileprivate let ended = Promise<SessionError?>()
        private let state = Mutex(State.open)

        private enum State {
            case open
            case answered(isSame: Bool)
            /// Ended without an answer.
            case over
        }

        /// Answers the question.
        /// - Returns: false when it was answered before, or is over.
        @discardableResult
        func decide(_ isSame: Bool) -> Bool {
            guard close(.answered(isSame: isSame)) else { return false }
            answer.fulfil(isSame)
            ended.fulfil(nil)
            return true
        }

        /// Ends the question. No effect once it is answered.
        /// - Returns: the answer that came first, which counts although the question is not needed any more; nil for none.
        @discardableResult
        func end(_ reason: SessionError) -> Bool? {
            if close(.over) { ended.fulfil(reason) }
            guard case .answered(let isSame) = state.withLock({ $0 }) else { return nil }
            return isSame
        }

        /// - Returns: true for the first call only.
        private func close(_ new: State) -> Bool {
            state.withLock { state in
                guard case .open = state else { return false }
                state = new
                return true
            }
        }
    }

    /// The peer, its key and the string to compare.
    public let check: IdentityCheck
    private let outcome: Outcome

    init(_ check: IdentityCheck, _ outcome: Outcome) {
        self.check = check
        self.outcome = outcome
    }

    deinit {
        outcome.decide(false)
    }

    /// Waits until the question is over: ``SessionError/unavailable(_:)`` when it was not answered, because the other user has
    /// declined, the time for the answer has passed, the link is lost, or the session is over. nil when it was answered, and when
    /// the task is cancelled first.
    public var ended: SessionError? {
        get async { await outcome.ended.value ?? nil }
    }

    /// Answers the question. ``TrustPolicy`` says how long the answer holds.
    /// - Returns: false when the answer has no effect, because the question was answered before or is over.
    @discardableResult
    public func answer(isSame: Bool) -> Bool {
        outcome.decide(isSame)
    }
}
