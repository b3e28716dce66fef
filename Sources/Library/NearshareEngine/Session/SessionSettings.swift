public import NearshareDirect

/// Limits and trust policy of a session.
public struct SessionSettings: Sendable {
    /// Limit on members at the same time, this node included: 2 to 64, by default 8. Of more that join at the same moment, the last
    /// ones step back: their session ends with ``SessionError/full``, in a room they leave the others and join again once there is
    /// room.
    public var memberLimit = 8
    /// Time out of reach after which a member is removed: at least 1 second, by default 30; a shorter or negative one is an error. It
    /// begins with the change to
    /// ``MemberState/connecting``, when the last link to the member is known to be lost: at once where the link was closed or has
    /// broken. Where nothing arrives any more, that is 12 seconds after the last byte of the last link, of which members send some
    /// at least every 4 seconds; up to 20 seconds where a transfer is being written to it, and later on a machine that is too busy
    /// to notice. News of an address makes the time twice as long, unless an attempt to connect has failed since; and a member that was
    /// connected stays while another one announces a link to it, for up to four times as long.
    public var timeout = Duration.seconds(30)
    /// The members between which there are direct links. By default all of up to 8 members, and three of more with all others.
    public var topology = SessionTopology.automatic
    /// The rule for the keys of new members: by default ``TrustPolicy/askAtFirstMeeting``.
    public var trust = TrustPolicy.askAtFirstMeeting
    /// The treatment of members that do not read their messages: by default sending waits for them.
    public var slowMembers = SlowMemberPolicy.wait
    /// Limits on unacknowledged messages of each member, beyond which ``Session/send(_:to:mode:isUrgent:timeout:)`` waits.
    package var channel = MessageChannel.Limits()

    /// Settings with 8 members, a timeout of 30 seconds and ``TrustPolicy/askAtFirstMeeting``.
    public init() {}

    /// - Throws: ``SessionError/invalidParameter(_:)`` for a value out of its bounds.
    func check() throws(SessionError) {
        let bounds = 2...SessionFrame.maximumRosterCount
        guard bounds.contains(memberLimit) else {
            throw .invalidParameter(
                "the member limit is \(memberLimit); it must be \(bounds.lowerBound) to \(bounds.upperBound)")
        }
        guard timeout >= .seconds(1) else { throw .invalidParameter("the timeout of a session is at least 1 second") }
    }

    var rosterSettings: SessionRoster.Settings {
        var settings = SessionRoster.Settings()
        settings.maximumMemberCount = memberLimit
        // Longer ones would overflow sums of times.
        settings.absenceTimeout = min(timeout, .seconds(1_000_000_000))
        settings.topology = topology
        return settings
    }
}
