package import NearshareDirect

/// How a session is kept.
public struct SessionSettings: Sendable {
    /// Members at once, ourselves included: 2 to `SessionFrame.maximumRosterCount`.
    public var memberLimit = 8
    /// How long a member may be out of reach before it counts as gone.
    public var timeout = Duration.seconds(30)
    /// Decides about the keys of others.
    public var trust = TrustPolicy.askAtFirstMeeting
    /// What may be under way to each member before ``Session/send(_:to:mode:)`` waits.
    package var channel = MessageChannel.Limits()

    /// As most sessions are kept.
    public init() {}

    var roster: SessionRoster.Limits {
        var limits = SessionRoster.Limits()
        limits.members = memberLimit
        limits.timeout = timeout
        return limits
    }
}
