package import NearshareBase

/// The inputs of the decision to relay a packet.
package struct RelayContext: Sendable, Hashable {
    package var type: MeshPacketType
    /// The ttl of the received packet.
    package var ttl: UInt8
    /// Whether the recipient field is present, for one peer or for everyone.
    package var hasRecipient: Bool
    /// Number of this node's neighbours.
    package var degree: Int

    package init(type: MeshPacketType, ttl: UInt8, hasRecipient: Bool, degree: Int) {
        self.type = type
        self.ttl = ttl
        self.hasRecipient = hasRecipient
        self.degree = degree
    }
}

/// The decision to relay a packet of another node (bitchat specification, section 5.1).
package struct RelayDecision: Sendable, Hashable {
    /// The new ttl.
    package var ttl: UInt8
    /// The range of the random delay, which keeps neighbours from sending at the same time.
    package var delay: ClosedRange<Duration>

    /// - Returns: nil when the packet is not relayed.
    package init?(_ context: RelayContext) {
        let ttl = min(context.ttl, MeshPacket.maximumTTL)
        guard ttl > 1, context.type != .requestSync else { return nil }
        func decision(maximumTTL: UInt8, delay: ClosedRange<Int>) -> RelayDecision {
            RelayDecision(
                ttl: min(ttl, maximumTTL) - 1,
                delay: .milliseconds(delay.lowerBound) ... .milliseconds(delay.upperBound))
        }
        // Caps and delays, in milliseconds: the specification's table.
        let isDense = context.degree >= 6
        switch (context.type, context.hasRecipient) {
        case (.noiseHandshake, _): self = decision(maximumTTL: 7, delay: 10...35)
        case (.noiseEncrypted, true), (.courierEnvelope, true), (.ping, true), (.pong, true), (.nostrCarrier, true),
            (.fragment, true):
            self = decision(maximumTTL: 7, delay: 20...60)
        case (.fragment, false), (.voiceFrame, _): self = decision(maximumTTL: isDense ? 5 : 7, delay: 8...25)
        default:
            switch context.degree {
            case ...2: self = decision(maximumTTL: 7, delay: 10...40)
            case 3...5: self = decision(maximumTTL: context.type == .announce ? 7 : 6, delay: 60...150)
            case 6...9: self = decision(maximumTTL: 5, delay: 80...180)
            default: self = decision(maximumTTL: 5, delay: 100...220)
            }
        }
    }

    private init(ttl: UInt8, delay: ClosedRange<Duration>) {
        self.ttl = ttl
        self.delay = delay
    }

    /// A random delay for one packet.
    package func delay(using random: inout some RandomNumberGenerator) -> Duration {
        .nanoseconds(Int64.random(in: delay.lowerBound.nanoseconds...delay.upperBound.nanoseconds, using: &random))
    }
}

/// The next hop of a packet that may have a route (bitchat specification, section 5.3).
package enum RouteDecision: Sendable, Hashable {
    /// The neighbour that is the next hop of the route.
    case neighbour(PeerID)
    /// All neighbours: the packet has no route, or one whose next hop is none of them.
    case everyone
    /// None: the route names a hop twice, so the packet would circulate.
    case discard

    /// - Parameter isNeighbour: whether a peer has a direct link to this node.
    package init(for packet: MeshPacket, at own: PeerID, isNeighbour: (PeerID) -> Bool) {
        guard !packet.route.isEmpty, let recipient = packet.recipient, packet.isDirected else {
            self = .everyone
            return
        }
        guard Set(packet.route).count == packet.route.count else {
            self = .discard
            return
        }
        // A node that is not among the hops sends it to the first.
        let next = packet.route.firstIndex(of: own).map { $0 + 1 } ?? 0
        let hop = next < packet.route.count ? packet.route[next] : recipient
        self = isNeighbour(hop) ? .neighbour(hop) : .everyone
    }
}
