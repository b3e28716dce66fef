internal import NearshareBase

/// A step of the agreement about a Wi-Fi network.
package enum HotspotEvent: Sendable, Hashable {
    /// The sender of a running transfer asks for a network; to be answered with ``DirectConnection/agreeHotspot(requesterMakes:port:now:)`` or
    /// ``DirectConnection/endHotspot(_:)``.
    case requested(HotspotRoles)
    /// The peer asks its user.
    case asking
    /// Both ends take part.
    /// - Parameter port: at which the receiver accepts connections in the network.
    case agreed(makesNetwork: Bool, port: UInt16)
    /// The peer has made the network; this end is to join it.
    case network(HotspotNetwork)
    /// The peer has joined the network that this end has made.
    case joined
    /// The last event.
    case ended(HotspotRefusal)
}

/// The agreement of two peers on a Wi-Fi network for one transfer (`docs/PROTOCOL.md`, section 17). A link has at most one, which
/// the sender of the transfer asks for: a user is asked once for each link (A15).
///
///     sender:    none ──request──► requested ──asking──► waiting ──agree──► (making or joining)
///     receiver:  none ──request──► deciding ──asking──► deciding ──agree──► (making or joining)
///
///     making ──network sent──► made ──joined──► active           any ──end, deadline──► ended
///     awaiting network ──network──► joining ──joined sent──► active
struct HotspotAgreement: Sendable {
    private enum State: Sendable, Hashable {
        case none
        /// The peer's first reply is awaited, by the side that has asked.
        case requested(deadline: MonotonicInstant)
        /// The peer's user is asked.
        case waiting(deadline: MonotonicInstant)
        /// The local user is asked.
        case deciding(roles: HotspotRoles, deadline: MonotonicInstant)
        case making(deadline: MonotonicInstant)
        case made(deadline: MonotonicInstant)
        case awaitingNetwork(deadline: MonotonicInstant)
        case joining(deadline: MonotonicInstant)
        case active
        case ended

        var deadline: MonotonicInstant? {
            switch self {
            case .none, .active, .ended: nil
            case .requested(let deadline), .waiting(let deadline), .deciding(_, let deadline), .making(let deadline),
                .made(let deadline), .awaitingNetwork(let deadline), .joining(let deadline):
                deadline
            }
        }
    }

    /// Time for the first reply: a peer that knows these frames sends one at once.
    static let replyTimeout = Duration.seconds(10)
    /// Time for the receiver's user.
    static let questionTimeout = Duration.seconds(60)
    /// Time to make or to join a network: NetworkManager may take a minute for it, twice.
    static let stepTimeout = Duration.seconds(150)
    /// Time by which the end that waits is more patient than the one that acts.
    static let grace = Duration.seconds(5)

    private var state = State.none

    var deadline: MonotonicInstant? { state.deadline }

    /// Whether the link carries an agreement of both users, and counts as used.
    var isHeld: Bool {
        switch state {
        case .none, .requested, .waiting, .deciding, .ended: false
        case .making, .made, .awaitingNetwork, .joining, .active: true
        }
    }

    // MARK: The local side

    /// Asks the receiver of a transfer for a network.
    mutating func request(_ id: TransferID, _ roles: HotspotRoles, now: MonotonicInstant) -> [DirectReaction] {
        guard state == .none else { return [] }
        state = .requested(deadline: now + Self.replyTimeout)
        return [.send(.hotspot(.request(id, roles)))]
    }

    /// Tells the sender that the user is asked.
    func reportAsking() -> [DirectReaction] {
        guard case .deciding = state else { return [] }
        return [.send(.hotspot(.asking))]
    }

    /// Agrees to a network, after the user has.
    mutating func agree(requesterMakes: Bool, port: UInt16, now: MonotonicInstant) -> [DirectReaction] {
        guard case .deciding = state else { return [] }
        state = Self.step(makesNetwork: !requesterMakes, now)
        return [
            .send(.hotspot(.agree(requesterMakes: requesterMakes, port: port))),
            .hotspot(.agreed(makesNetwork: !requesterMakes, port: port)),
        ]
    }

    /// Tells the peer which network has been made.
    mutating func announce(_ network: HotspotNetwork, now: MonotonicInstant) -> [DirectReaction] {
        guard case .making = state else { return [] }
        state = .made(deadline: now + Self.stepTimeout + Self.grace)
        return [.send(.hotspot(.network(network)))]
    }

    /// Tells the peer that its network has been joined.
    mutating func confirmJoined() -> [DirectReaction] {
        guard case .joining = state else { return [] }
        state = .active
        return [.send(.hotspot(.joined))]
    }

    /// Ends the agreement in any state, and tells the peer.
    mutating func end(_ reason: HotspotRefusal) -> [DirectReaction] {
        switch state {
        case .none, .ended: return []
        default:
            state = .ended
            return [.send(.hotspot(.end(reason))), .hotspot(.ended(reason))]
        }
    }

    // MARK: Frames

    /// - Parameter isReceiving: whether the content of a transfer is being received on this link.
    mutating func receive(
        _ frame: HotspotFrame, isReceiving: (TransferID) -> Bool, now: MonotonicInstant
    ) throws(MalformedInput) -> [DirectReaction] {
        switch (frame, state) {
        case (.request(let id, let roles), .none):
            guard isReceiving(id) else {
                // Race: the transfer may have just ended. The link has had its request.
                state = .ended
                return [.send(.hotspot(.end(.busy)))]
            }
            state = .deciding(roles: roles, deadline: now + Self.questionTimeout)
            return [.hotspot(.requested(roles))]
        case (.request, _): throw MalformedInput("a second request for a hotspot")
        case (_, .none): throw MalformedInput("a hotspot that nobody has asked for")
        // Race: sent before the peer knew of the end.
        case (_, .ended): return []
        case (.asking, .requested):
            state = .waiting(deadline: now + Self.questionTimeout + Self.grace)
            return [.hotspot(.asking)]
        case (.agree(let makesNetwork, let port), .requested), (.agree(let makesNetwork, let port), .waiting):
            state = Self.step(makesNetwork: makesNetwork, now)
            return [.hotspot(.agreed(makesNetwork: makesNetwork, port: port))]
        case (.network(let network), .awaitingNetwork):
            state = .joining(deadline: now + Self.stepTimeout)
            return [.hotspot(.network(network))]
        case (.joined, .made):
            state = .active
            return [.hotspot(.joined)]
        case (.end(let reason), _):
            state = .ended
            return [.hotspot(.ended(reason))]
        default: throw MalformedInput("a step of a hotspot out of order")
        }
    }

    private static func step(makesNetwork: Bool, _ now: MonotonicInstant) -> State {
        makesNetwork
            ? .making(deadline: now + stepTimeout) : .awaitingNetwork(deadline: now + stepTimeout + grace)
    }

    // MARK: Time

    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        guard let deadline = state.deadline, now >= deadline else { return [] }
        if case .requested = state {
            state = .ended
            // A peer that is slow, and not old, takes its question back.
            return [.send(.hotspot(.end(.timedOut))), .hotspot(.ended(.unsupported))]
        }
        return end(.timedOut)
    }

    /// Ends with the link.
    mutating func endWithLink() -> [DirectReaction] {
        switch state {
        case .none, .ended: return []
        default:
            state = .ended
            return [.hotspot(.ended(.linkLost))]
        }
    }
}
