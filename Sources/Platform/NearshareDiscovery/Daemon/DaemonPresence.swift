internal import NearshareBase

/// Whether avahi-daemon can be used: a value, drawn in docs/architecture/media.md.
struct DaemonPresence {
    enum State: Equatable {
        case running
        /// The bus name has an owner, which is not known to serve requests yet.
        case starting
        /// The bus name has no owner.
        case absent
    }

    enum Reaction: Equatable {
        /// The daemon and its objects have ended.
        case release
        /// Ask for the state of the daemon's server.
        case queryState
        /// The daemon has been away for ``absenceDelay``: another engine takes its place.
        case startFallback
        /// The daemon serves requests again: no other engine may publish from now on.
        case stopFallbackPublishing
        /// Publish and browse.
        case renew
        /// The daemon has confirmed what it sees: no other engine needs to browse.
        case stopFallback
    }

    private(set) var state = State.running
    /// The time to start the fallback; nil while it runs or is not needed.
    private var absenceDue: MonotonicInstant?
    private var queryDue: MonotonicInstant?
    private var confirmationDue: MonotonicInstant?
    private var hasFallback = false

    /// A daemon that is restarted is not away.
    static let absenceDelay = Duration.seconds(1)
    /// A signal about the server's state may have been sent before the subscription counted.
    static let queryInterval = Duration.seconds(1)
    /// The daemon's browsers have asked four times by then (RFC 6762, section 5.2).
    static let confirmationDelay = Duration.seconds(10)

    /// AVAHI_SERVER_RUNNING. In the states before, the daemon registers its host name; entry groups are refused, and browsers
    /// see nothing of some interfaces.
    static let serverRunning: Int32 = 2

    var nextDeadline: MonotonicInstant? { [absenceDue, queryDue, confirmationDue].compactMap(\.self).min() }

    /// The owner of the bus name has changed (NameOwnerChanged). A restart may be one change, from one owner to the next.
    mutating func ownerChanged(hasOwner: Bool, at now: MonotonicInstant) -> [Reaction] {
        state = hasOwner ? .starting : .absent
        if !hasFallback, absenceDue == nil { absenceDue = now + Self.absenceDelay }
        queryDue = hasOwner ? now + Self.queryInterval : nil
        confirmationDue = nil
        // A fallback that only browses has to publish again.
        let publishes: [Reaction] = hasFallback ? [.startFallback] : []
        return [.release] + publishes + (hasOwner ? [.queryState] : [])
    }

    /// The server of the daemon reports its state: StateChanged, or the reply to GetState.
    mutating func serverState(_ code: Int32, at now: MonotonicInstant) -> [Reaction] {
        guard code == Self.serverRunning, state != .absent else { return [] }
        guard state == .starting else {
            // After a collision of the host name the server has dropped all entry groups.
            return [.renew]
        }
        state = .running
        (absenceDue, queryDue) = (nil, nil)
        guard hasFallback else { return [.renew] }
        confirmationDue = now + Self.confirmationDelay
        return [.stopFallbackPublishing, .renew]
    }

    /// The connection to the bus has ended: the daemon cannot return.
    mutating func disconnect() -> [Reaction] {
        state = .absent
        (absenceDue, queryDue, confirmationDue) = (nil, nil, nil)
        hasFallback = true
        return [.startFallback]
    }

    mutating func tick(at now: MonotonicInstant) -> [Reaction] {
        var reactions: [Reaction] = []
        if let due = absenceDue, now >= due {
            absenceDue = nil
            hasFallback = true
            reactions.append(.startFallback)
        }
        if let due = queryDue, now >= due {
            queryDue = now + Self.queryInterval
            reactions.append(.queryState)
        }
        if let due = confirmationDue, now >= due {
            confirmationDue = nil
            hasFallback = false
            reactions.append(.stopFallback)
        }
        return reactions
    }
}
