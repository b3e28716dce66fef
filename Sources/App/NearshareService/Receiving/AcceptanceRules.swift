internal import Nearshare
internal import Synchronization

/// The rules of a process for the offers of each peer: one policy for all, and others for those to whom the user has said yes.
final class AcceptanceRules: Sendable {
    /// The policy for peers without an exemption.
    let standard: AcceptancePolicy
    /// The policy for friends that are exempt from questions, and for all peers while no user can be asked.
    private let forFriends: AcceptancePolicy
    /// The policy for browsers that the user has accepted.
    private let forBrowsers: AcceptancePolicy
    /// Whether all friends are exempt from questions.
    private let exemptsFriends: Bool
    private let trust: TrustFile
    /// The friends that the user has made with "always".
    private let alwaysAccepted = Mutex<Set<Fingerprint>>([])
    private let acceptedBrowsers = Mutex(AcceptedBrowsers())

    init(_ accept: Acceptance, limits: InboxLimits?, quota: PeerQuota, trust: TrustFile) {
        self.trust = trust
        exemptsFriends = accept.exemptsFriends
        standard = AcceptancePolicy(accept: accept.policy, limits: limits, canAsk: accept.policy == .ask, quota: quota)
        forFriends = AcceptancePolicy(accept: .friends, limits: limits, canAsk: false, quota: quota)
        forBrowsers = AcceptancePolicy(accept: .all, limits: limits, canAsk: false, quota: quota)
    }

    /// The policy for a peer.
    /// - Parameter canAsk: whether there is a user to ask now.
    func policy(for peer: Peer, canAsk: Bool) -> AcceptancePolicy {
        let fingerprint = peer.fingerprint
        guard standard.accept != .ask || canAsk else { return forFriends }
        if standard.accept == .ask, peer.foreign?.kind == .web {
            let now = SystemClock.monotonic()
            return acceptedBrowsers.withLock { $0.contains(fingerprint, now: now) } ? forBrowsers : standard
        }
        guard standard.accept == .ask, exemptsFriends || alwaysAccepted.withLock({ $0.contains(fingerprint) }),
            let known = try? trust.read()[fingerprint], known.isFriend, known.trust != .blocked
        else { return standard }
        return forFriends
    }

    /// Exempts a peer from questions for as long as it is a friend.
    func acceptAlways(_ fingerprint: Fingerprint) { alwaysAccepted.withLock { _ = $0.insert(fingerprint) } }

    /// Exempts a browser from questions for a while: the user has said yes, or an offer was accepted without a question.
    func accept(browser: Fingerprint) {
        acceptedBrowsers.withLock { $0.accept(browser, now: SystemClock.monotonic()) }
    }

    /// Asks again about what a browser offers: the user has cancelled a transfer of it.
    func revoke(browser: Fingerprint) { acceptedBrowsers.withLock { $0.revoke(browser) } }
}
