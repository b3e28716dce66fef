internal import NearshareBase
internal import NearshareDirect
internal import Synchronization

/// The links on which the user is asked about peers, one for each peer: both users have to see the same short code. Of two
/// invitations that cross, that of the peer with the higher id counts, on both ends.
final class SessionQuestions: Sendable {
    private enum Owner {
        /// This node has invited the peer.
        case outgoing(OutgoingSessionLink)
        /// The peer has invited this node.
        case incoming
    }

    private struct State {
        var owners: [PeerID: Owner] = [:]
        /// The end of the pause after a question that was not answered in time. Their number is bounded by that of the questions
        /// to the user (R11).
        var pauses: [PeerID: MonotonicInstant] = [:]
        /// The end of the time after another user's no, in which this node does not invite that user's node by itself. Their
        /// number is bounded in the same way.
        var declines: [PeerID: MonotonicInstant] = [:]
    }

    private let own: PeerID
    private let state = Mutex(State())

    init(own: PeerID) {
        self.own = own
    }

    /// Whether the user is being asked about a peer, or is about to be.
    func asks(about id: PeerID) -> Bool { state.withLock { $0.owners[id] != nil } }

    /// Whether the last question about a peer was not answered in time, or could not be asked, and the next one has to wait.
    func isPaused(about id: PeerID, now: MonotonicInstant) -> Bool {
        state.withLock { state in state.pauses[id].map { now < $0 } ?? false }
    }

    /// Whether a peer's user has declined a short time ago, so that this node does not invite it by itself.
    func isDeclined(by id: PeerID, now: MonotonicInstant) -> Bool {
        state.withLock { state in state.declines[id].map { now < $0 } ?? false }
    }

    /// Records that a peer's user has declined this node's key.
    func recordDecline(by id: PeerID, now: MonotonicInstant) {
        state.withLock { state in
            state.declines = state.declines.filter { now < $0.value }
            Self.makeRoom(in: &state.declines)
            state.declines[id] = now + RoomCandidates.declinePause
        }
    }

    /// Records that the user is about to be asked on a link over which this node invites a peer.
    /// - Parameter isProgram: whether the program has invited the peer itself, so that the invitation replaces one of the session.
    /// - Returns: false when the user is asked on another link, or not yet again.
    func begin(_ link: OutgoingSessionLink, about id: PeerID, isProgram: Bool, now: MonotonicInstant) -> Bool {
        let (isBegun, replaced) = state.withLock { state -> (Bool, OutgoingSessionLink?) in
            // After the pause of the other end, which has begun a moment before or later.
            if !isProgram, let end = state.pauses[id], now < end + Self.grace { return (false, nil) }
            if isProgram { state.declines[id] = nil }
            if let end = state.declines[id], now < end { return (false, nil) }
            switch state.owners[id] {
            case .incoming?: return (false, nil)
            case .outgoing(let other)?:
                guard isProgram else { return (false, nil) }
                state.owners[id] = .outgoing(link)
                return (true, other)
            case nil:
                state.owners[id] = .outgoing(link)
                return (true, nil)
            }
        }
        replaced?.yield()
        return isBegun
    }

    /// Records that the question of a link over which this node has invited a peer is over.
    func end(_ link: OutgoingSessionLink, about id: PeerID) {
        state.withLock { state in
            if case .outgoing(let owner)? = state.owners[id], owner === link { state.owners[id] = nil }
        }
    }

    /// Records that the user is about to be asked about a peer that has invited this node.
    /// - Returns: the reason for which the invitation is refused; nil when the user is asked.
    func beginAnswer(about id: PeerID, now: MonotonicInstant) -> SessionRefusal? {
        let (refusal, replaced) = state.withLock { state -> (SessionRefusal?, OutgoingSessionLink?) in
            if let end = state.pauses[id], now < end { return (.expired, nil) }
            // The other user asks again.
            state.declines[id] = nil
            switch state.owners[id] {
            case .incoming?: return (.busy, nil)
            case .outgoing(let link)?:
                // The other end decides alike: it has sent its invitation before it received that of this node.
                guard own < id else { return (.busy, nil) }
                state.owners[id] = .incoming
                return (nil, link)
            case nil:
                state.owners[id] = .incoming
                return (nil, nil)
            }
        }
        replaced?.yield()
        return refusal
    }

    /// Records that the question about a peer that has invited this node is over.
    func endAnswer(about id: PeerID) {
        state.withLock { state in if case .incoming? = state.owners[id] { state.owners[id] = nil } }
    }

    /// Records that a question was not answered in time, by this user or the other one, or could not be asked: the next one has
    /// to wait.
    func recordUnanswered(about id: PeerID, now: MonotonicInstant) {
        state.withLock { state in
            state.pauses = state.pauses.filter { now < $0.value + Self.grace }
            Self.makeRoom(in: &state.pauses)
            state.pauses[id] = now + Self.pause
        }
    }

    /// Removes the entry that ends first where a table is full: keys cost nothing, and a peer that refuses at once reaches no user.
    private static func makeRoom(in table: inout [PeerID: MonotonicInstant]) {
        guard table.count >= maximumCount, let first = table.min(by: { $0.value < $1.value })?.key else { return }
        table[first] = nil
    }

    /// Limit on the peers after an unanswered question, and on those whose users have declined.
    private static let maximumCount = 1024
    /// The time between a question that was not answered and the next one about the same peer.
    static let pause = Duration.seconds(60)
    /// The time by which the questions of both ends may end one after the other.
    private static let grace = Duration.seconds(2)
    /// The time for which a question waits where the invitation of the other end may cross: then the refusal arrives first.
    static let crossingTime = Duration.milliseconds(500)
    /// The time in which both users can answer.
    static let timeout = Duration.seconds(60)
}
