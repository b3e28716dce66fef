internal import NearshareBase
internal import NearshareCrypto

/// Handshakes of one peer that this node has answered, and whose third message was not received yet.
///
/// A first message proves nothing, so it ends neither a handshake of this node nor an answer on another link: there is room for
/// the first messages that several links may bring within the lifetime of an answer.
struct HandshakeResponses: Sendable {
    private struct Response: Sendable {
        let state: HandshakeState
        let firstMessage: [UInt8]
        let secondMessage: [UInt8]
        /// The link on which the first message was received.
        let link: MeshLinkID
        let deadline: MonotonicInstant
        /// When the second message was last sent.
        var sent: MonotonicInstant
    }

    private var responses: [Response] = []

    var isEmpty: Bool { responses.isEmpty }

    /// Returns the second message again, for a first message that was answered already.
    mutating func retransmittedAnswer(to firstMessage: [UInt8], now: MonotonicInstant) -> [UInt8]? {
        guard let index = responses.firstIndex(where: { $0.firstMessage == firstMessage }) else { return nil }
        responses[index].sent = now
        return responses[index].secondMessage
    }

    /// Returns the second message that was sent longest ago again: the peer seals already, so its third message must have been
    /// lost.
    mutating func retransmittedAnswer(now: MonotonicInstant) -> [UInt8]? {
        guard let index = responses.indices.min(by: { responses[$0].sent < responses[$1].sent }),
            now - responses[index].sent >= Self.retransmissionInterval
        else { return nil }
        responses[index].sent = now
        return responses[index].secondMessage
    }

    /// Records an answered handshake. The oldest of the link with most gives way, so forgeries end none of another link.
    /// - Parameters:
    ///   - state: the state after the second message was written.
    ///   - link: the link on which the first message was received.
    mutating func insert(
        _ state: HandshakeState, firstMessage: [UInt8], secondMessage: [UInt8], from link: MeshLinkID, now: MonotonicInstant
    ) {
        if responses.count >= Self.capacity {
            var counts: [MeshLinkID: Int] = [:]
            for response in responses { counts[response.link, default: 0] += 1 }
            let largest = counts.values.max()
            if let index = responses.firstIndex(where: { counts[$0.link] == largest }) { responses.remove(at: index) }
        }
        responses.append(
            Response(
                state: state, firstMessage: firstMessage, secondMessage: secondMessage, link: link,
                deadline: now + Self.timeout, sent: now))
    }

    /// The keys of the handshake that a third message finishes; nil when it finishes none.
    /// - Parameter peer: the id that the authenticated key must have (K1, K4).
    func finish(with thirdMessage: [UInt8], as peer: PeerID) -> TransportKeys? {
        for response in responses {
            var state = response.state
            if (try? state.readMessage(thirdMessage)) != nil, let keys = try? state.split(), keys.peer.id == peer {
                return keys
            }
        }
        return nil
    }

    mutating func removeAll() { responses = [] }

    mutating func expire(now: MonotonicInstant) { responses.removeAll { $0.deadline <= now } }

    static let timeout = Duration.seconds(20)
    private static let retransmissionInterval = Duration.seconds(1)
    private static let capacity = HandshakeBudget.unsignedPerWindow + HandshakeBudget.signedPerWindow
}

/// Rate limits on the handshakes with one peer, separate for three kinds: started by this node, started by the peer with its
/// signature, and started by an unsigned packet in the peer's name. Any neighbour can send the latter, so each link has a rate of
/// its own.
struct HandshakeBudget: Sendable {
    private var initiated = RateWindow()
    private var signed = RateWindow()
    private var unsigned: [MeshLinkID: RateWindow] = [:]

    mutating func admitInitiation(now: MonotonicInstant) -> Bool {
        initiated.admit(atMost: Self.initiatedPerWindow, within: Self.window, now: now)
    }

    mutating func admitAnswer(isSigned: Bool, from link: MeshLinkID, now: MonotonicInstant) -> Bool {
        guard !isSigned else { return signed.admit(atMost: Self.signedPerWindow, within: Self.window, now: now) }
        // The budgets of links bound how often a new link brings a new rate.
        unsigned = unsigned.filter { $0.key == link || !$0.value.isEmpty(within: Self.window, now: now) }
        return unsigned[link, default: RateWindow()].admit(atMost: Self.unsignedPerWindow, within: Self.window, now: now)
    }

    static let window = Duration.seconds(60)
    private static let initiatedPerWindow = 10
    static let unsignedPerWindow = 10
    /// Each command without a running node is a process of its own, and one that is killed sends no leave packet.
    static let signedPerWindow = 60
}
