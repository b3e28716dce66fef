internal import NearshareBase

/// The treatment of a member that is slow: it is connected, messages to it are unread, and for two seconds its program has read
/// none of them.
public enum SlowMemberPolicy: Sendable, Hashable {
    /// Messages to the member are sent on. Once its window is full, 2 MiB or 4096 unread messages, sending waits until it reads.
    /// Messages to other members are not delayed.
    case wait
    /// Reliable messages are not sent to the member while it is slow; see ``SentMessage/delivered``. It gets those before.
    case drop
    /// The founder of the session removes the member for good, as ``Session/remove(_:)`` does. Other members, and all in a room,
    /// drop messages to it as with ``drop``.
    case remove
}

/// The members with unread messages, and those that have read none of them for a time.
struct SlowMembers: Sendable {
    /// Time after which a member that reads none of its messages is slow.
    static let delay = Duration.seconds(2)

    /// The time since which each member has not read the messages that wait for it.
    private var undeliveredSince: [PeerID: MonotonicInstant] = [:]
    private var slow: Set<PeerID> = []
    /// The next time at which a member may become slow; nil for none. Moved at that time only, so that messages which are read at
    /// once change no deadline.
    private(set) var deadline: MonotonicInstant?

    func isSlow(_ id: PeerID) -> Bool { slow.contains(id) }

    /// Records that a message is sent to a member.
    /// - Returns: whether there is a deadline now, and was none before.
    mutating func recordMessage(to id: PeerID, now: MonotonicInstant) -> Bool {
        guard undeliveredSince[id] == nil else { return false }
        undeliveredSince[id] = now
        guard deadline == nil else { return false }
        deadline = now + Self.delay
        return true
    }

    /// Records that messages were delivered to a member's program.
    /// - Returns: whether there is a deadline now, and was none before.
    mutating func recordDelivery(to id: PeerID, hasUndelivered: Bool, now: MonotonicInstant) -> Bool {
        undeliveredSince[id] = nil
        slow.remove(id)
        return hasUndelivered && recordMessage(to: id, now: now)
    }

    /// Records that a member can read again what waits for it: there is a new link.
    mutating func recordLink(to id: PeerID, now: MonotonicInstant) {
        if undeliveredSince[id] != nil { undeliveredSince[id] = now }
    }

    /// Forgets a member that has left.
    mutating func remove(_ id: PeerID) {
        undeliveredSince[id] = nil
        slow.remove(id)
    }

    /// Returns the members that have become slow. One that is out of reach cannot read, and gets its time once it is back.
    mutating func drain(now: MonotonicInstant, isConnected: (PeerID) -> Bool) -> [PeerID] {
        guard let deadline, deadline <= now else { return [] }
        for id in undeliveredSince.keys.sorted() where !slow.contains(id) && !isConnected(id) { undeliveredSince[id] = now }
        let new = undeliveredSince.filter { !slow.contains($0.key) && now - $0.value >= Self.delay }.keys.sorted()
        slow.formUnion(new)
        self.deadline = undeliveredSince.filter { !slow.contains($0.key) }.values.min().map { $0 + Self.delay }
        return new
    }
}
