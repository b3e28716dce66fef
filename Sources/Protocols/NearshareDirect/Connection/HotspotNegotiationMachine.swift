internal import NearshareBase

/// A step of the agreement about a Wi-Fi network.
package enum HotspotEvent: Sendable, Hashable {
    /// The sender of a running transfer asks for a network; to be answered with ``DirectConnection/agreeHotspot(accessPoint:port:now:)`` or
    /// ``DirectConnection/endHotspot(_:)``.
    case requested(HotspotRoles)
    /// The peer asks its user.
    case asking
    /// Both ends take part.
    /// - Parameters:
    ///   - isAccessPoint: whether this end is the access point; otherwise it is the station.
    ///   - port: at which the receiver accepts connections in the network.
    case agreed(isAccessPoint: Bool, port: UInt16)
    /// The peer has started its access point; this end is to join the network.
    case network(HotspotNetwork)
    /// The peer has joined the network of this end.
    case joined
    /// The last event.
    case ended(HotspotEndReason)
}

/// The state machine by which two peers agree on a Wi-Fi network for one transfer (`docs/PROTOCOL.md`, section 17). A link has at
/// most one agreement, which the sender of the transfer requests: a user is asked once for each link (A15).
///
///     sender:    none ──request──► requested ──asking──► waiting ──agree──► (starting or joining)
///     receiver:  none ──request──► deciding ──asking──► deciding ──agree──► (starting or joining)
///
///     starting ──network sent──► awaiting station ──joined──► active           any ──end, deadline──► ended
///     awaiting network ──network──► joining ──joined sent──► active
struct HotspotNegotiationMachine: Sendable {
    private enum State: Sendable, Hashable {
        case none
        /// The peer's first reply is awaited, by the side that has asked.
        case requested(deadline: MonotonicInstant)
        /// The peer's user is asked.
        case waiting(deadline: MonotonicInstant)
        /// The local user is asked.
        case deciding(roles: HotspotRoles, deadline: MonotonicInstant)
        case starting(deadline: MonotonicInstant)
        case awaitingStation(deadline: MonotonicInstant)
        case awaitingNetwork(deadline: MonotonicInstant)
        case joining(deadline: MonotonicInstant)
        case active
        case ended

        var deadline: MonotonicInstant? {
            switch self {
            case .none, .active, .ended: nil
            case .requested(let deadline), .waiting(let deadline), .deciding(_, let deadline), .starting(let deadline),
                .awaitingStation(let deadline), .awaitingNetwork(let deadline), .joining(let deadline):
                deadline
            }
        }
    }

    /// Timeout of the first reply: a peer that knows these frames sends one at once.
    static let replyTimeout = Duration.seconds(10)
    /// Timeout of the answer of the receiver's user.
    static let promptTimeout = Duration.seconds(60)
    /// Timeout of starting or joining a network: NetworkManager may take a minute for it, twice.
    static let stepTimeout = Duration.seconds(150)
    /// Margin by which the waiting end's timeout exceeds the acting end's.
    static let grace = Duration.seconds(5)

    private var state = State.none

    var deadline: MonotonicInstant? { state.deadline }

    /// Whether the link carries an agreement of both users, and counts as used.
    var isHeld: Bool {
        switch state {
        case .none, .requested, .waiting, .deciding, .ended: false
        case .starting, .awaitingStation, .awaitingNetwork, .joining, .active: true
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
    mutating func agree(accessPoint: HotspotEnd, port: UInt16, now: MonotonicInstant) -> [DirectReaction] {
        guard case .deciding = state else { return [] }
        let isAccessPoint = accessPoint == .responder
        state = Self.step(isAccessPoint: isAccessPoint, now)
        return [
            .send(.hotspot(.agree(accessPoint: accessPoint, port: port))),
            .hotspot(.agreed(isAccessPoint: isAccessPoint, port: port)),
        ]
    }

    /// Sends the network, whose access point this end has started, to the peer.
    mutating func announce(_ network: HotspotNetwork, now: MonotonicInstant) -> [DirectReaction] {
        guard case .starting = state else { return [] }
        state = .awaitingStation(deadline: now + Self.stepTimeout + Self.grace)
        return [.send(.hotspot(.network(network)))]
    }

    /// Tells the peer that its network has been joined.
    mutating func confirmJoined() -> [DirectReaction] {
        guard case .joining = state else { return [] }
        state = .active
        return [.send(.hotspot(.joined))]
    }

    /// Ends the agreement in any state, and tells the peer.
    mutating func end(_ reason: HotspotEndReason) -> [DirectReaction] {
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
            state = .deciding(roles: roles, deadline: now + Self.promptTimeout)
            return [.hotspot(.requested(roles))]
        case (.request, _): throw MalformedInput("a second request for a hotspot")
        case (_, .none): throw MalformedInput("a step of a hotspot without a request")
        // Race: sent before the peer knew of the end.
        case (_, .ended): return []
        case (.asking, .requested):
            state = .waiting(deadline: now + Self.promptTimeout + Self.grace)
            return [.hotspot(.asking)]
        case (.agree(let accessPoint, let port), .requested), (.agree(let accessPoint, let port), .waiting):
            let isAccessPoint = accessPoint == .requester
            state = Self.step(isAccessPoint: isAccessPoint, now)
            return [.hotspot(.agreed(isAccessPoint: isAccessPoint, port: port))]
        case (.network(let network), .awaitingNetwork):
            state = .joining(deadline: now + Self.stepTimeout)
            return [.hotspot(.network(network))]
        case (.joined, .awaitingStation):
            state = .active
            return [.hotspot(.joined)]
        case (.end(let reason), _):
            state = .ended
            return [.hotspot(.ended(reason))]
        default: throw MalformedInput("a step of a hotspot out of order")
        }
    }

    private static func step(isAccessPoint: Bool, _ now: MonotonicInstant) -> State {
        isAccessPoint
            ? .starting(deadline: now + stepTimeout) : .awaitingNetwork(deadline: now + stepTimeout + grace)
    }

    // MARK: Time

    mutating func advance(to now: MonotonicInstant) -> [DirectReaction] {
        guard let deadline = state.deadline, now >= deadline else { return [] }
        if case .requested = state {
            state = .ended
            // A peer that knows these frames and is slow withdraws the question to its user.
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
