package import NearshareBase

/// All that the decision to pass a packet on depends on.
package struct RelayContext: Sendable, Hashable {
    package var type: MeshPacketType
    /// As it came.
    package var ttl: UInt8
    /// The recipient field is there, be it for one peer or for everybody.
    package var hasRecipient: Bool
    /// How many neighbours this node has.
    package var degree: Int

    package init(type: MeshPacketType, ttl: UInt8, hasRecipient: Bool, degree: Int) {
        self.type = type
        self.ttl = ttl
        self.hasRecipient = hasRecipient
        self.degree = degree
    }
}

/// Whether and how a packet is passed on that is neither ours nor for us (bitchat specification, section 5.1).
package struct RelayDecision: Sendable, Hashable {
    /// What the packet's ttl becomes.
    package var ttl: UInt8
    /// It waits for a while somewhere in here, drawn by chance, so that not all neighbours send at once.
    package var delay: ClosedRange<Duration>

    /// - Returns: nil when the packet stops here.
    package init?(_ context: RelayContext) {
        let ttl = min(context.ttl, MeshPacket.maximumTTL)
        guard ttl > 1, context.type != .requestSync else { return nil }
        func rule(_ highest: UInt8, _ milliseconds: ClosedRange<Int>) -> RelayDecision {
            RelayDecision(
                ttl: min(ttl, highest) - 1,
                delay: .milliseconds(milliseconds.lowerBound) ... .milliseconds(milliseconds.upperBound))
        }
        let isDense = context.degree >= 6
        switch (context.type, context.hasRecipient) {
        case (.noiseHandshake, _): self = rule(7, 10...35)
        case (.noiseEncrypted, true), (.courierEnvelope, true), (.ping, true), (.pong, true), (.nostrCarrier, true),
            (.fragment, true):
            self = rule(7, 20...60)
        case (.fragment, false), (.voiceFrame, _): self = rule(isDense ? 5 : 7, 8...25)
        default:
            switch context.degree {
            case ...2: self = rule(7, 10...40)
            case 3...5: self = rule(context.type == .announce ? 7 : 6, 60...150)
            case 6...9: self = rule(5, 80...180)
            default: self = rule(5, 100...220)
            }
        }
    }

    private init(ttl: UInt8, delay: ClosedRange<Duration>) {
        self.ttl = ttl
        self.delay = delay
    }

    /// The delay for one packet.
    package func delay(using random: inout some RandomNumberGenerator) -> Duration {
        .nanoseconds(Int64.random(in: delay.lowerBound.nanoseconds...delay.upperBound.nanoseconds, using: &random))
    }
}

/// Where a packet with a route goes next (bitchat specification, section 5.3).
package enum RouteDecision: Sendable, Hashable {
    /// To this neighbour alone.
    case neighbour(PeerID)
    /// It has no route, or one that leads nowhere from here.
    case everybody
    /// A hop stands in it twice: it would go in circles.
    case nobody

    /// - Parameter isNeighbour: whether a peer is connected to this node directly.
    package init(for packet: MeshPacket, at own: PeerID, isNeighbour: (PeerID) -> Bool) {
        guard !packet.route.isEmpty, let recipient = packet.recipient, packet.isDirected else {
            self = .everybody
            return
        }
        guard Set(packet.route).count == packet.route.count else {
            self = .nobody
            return
        }
        // Who is not among the hops hands it to the first.
        let next = packet.route.firstIndex(of: own).map { $0 + 1 } ?? 0
        let hop = next < packet.route.count ? packet.route[next] : recipient
        self = isNeighbour(hop) ? .neighbour(hop) : .everybody
    }
}
