package import NearshareDirect

/// Limits and trust policy of a session.
public struct SessionSettings: Sendable {
    /// Limit on members at the same time, this node included: 2 to 64.
    public var memberLimit = 8
    /// Time out of reach after which a member is removed.
    public var timeout = Duration.seconds(30)
    /// The rule for the keys of new members.
    public var trust = TrustPolicy.askAtFirstMeeting
    /// Limits on unacknowledged messages of each member, beyond which ``Session/send(_:to:mode:)`` waits.
    package var channel = MessageChannel.Limits()

    /// Settings with 8 members, a timeout of 30 seconds and ``TrustPolicy/askAtFirstMeeting``.
    public init() {}

    var roster: SessionRoster.Limits {
        var limits = SessionRoster.Limits()
        limits.members = memberLimit
        limits.timeout = timeout
        return limits
    }
}
