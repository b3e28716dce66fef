public import NearshareBase
public import NearshareCrypto
internal import Synchronization

/// Somebody's key, before it is let into a session.
public struct IdentityCheck: Sendable {
    /// Whose key it is, and how it stands with the person here.
    public let peer: Peer
    /// The eight digits that the other person sees as well, unless somebody sits between them.
    public let shortCode: ShortAuthenticationDigits
    /// The member who told us that this key belongs to the session; nil for whom we invite ourselves.
    public let voucher: PeerID?
}

/// Decides whether a key is who it should be, before its bearer is let into a session; not again while they are in it.
public struct TrustPolicy: Sendable {
    enum Verdict: Sendable {
        case trusted
        case untrusted
        /// A person has to compare the short code.
        case ask
    }

    let judge: @Sendable (IdentityCheck) async -> Verdict

    private init(judge: @escaping @Sendable (IdentityCheck) async -> Verdict) {
        self.judge = judge
    }

    /// Decides by itself.
    public init(_ isTrusted: @escaping @Sendable (IdentityCheck) async -> Bool) {
        judge = { await isTrusted($0) ? .trusted : .untrusted }
    }

    /// Known keys pass, and so do keys that a member of the session vouches for. Others, and a known name with another key, are
    /// asked about in ``Session/identityQuestions``.
    public static let askAtFirstMeeting = TrustPolicy(judge: { check in
        switch check.peer.trustStatus {
        case .known: .trusted
        case .new: check.voucher == nil ? .ask : .trusted
        case .nameClash: .ask
        }
    })

    /// Only keys that a person here has verified.
    public static let verifiedKeys = TrustPolicy { $0.peer.trustStatus.isVerified }

    /// Whoever comes: for programs in which it does not matter who somebody is.
    public static let anyKey = TrustPolicy { _ in true }
}

/// Asks a person whether the other screen shows the same short code. Dropped without an answer, it is answered with no.
public final class IdentityQuestion: Sendable {
    /// Whose key is asked about, and the short code to compare.
    public let check: IdentityCheck
    private let event: Promise<Bool>

    init(_ check: IdentityCheck, _ event: Promise<Bool>) {
        self.check = check
        self.event = event
    }

    deinit {
        event.happen(false)
    }

    /// What the person has seen. Answered already, nothing happens.
    public func answer(isSame: Bool) {
        event.happen(isSame)
    }
}
