internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// An outgoing link that is about to join a session: it joins once the peer has accepted and its key is trusted here, in either
/// order.
final class OutgoingSessionLink: Sendable {
    private struct State {
        var isAccepted = false
        var isTrusted: Bool?
        /// Set by the first thread that sees both decisions.
        var isJoining = false
        var isOver = false
        var link: SessionLink?
        /// Frames received between the peer's acceptance and ours.
        var queuedFrames: [SessionFrame] = []
    }

    private let invitation: SessionFrame
    private let secret: [UInt8]?
    private let expected: PeerID?
    let voucher: PeerID?
    let outcome: Promise<Result<PeerID, SessionError>>
    private let state = Mutex(State())
    /// Fulfilled when the link has joined the session, or does not.
    private let joinEvent = Promise<Bool>()
    private static let maximumQueuedFrameCount = 16

    init(
        invitation: SessionFrame, secret: [UInt8]?, expected: PeerID?, voucher: PeerID?,
        outcome: Promise<Result<PeerID, SessionError>>
    ) {
        self.invitation = invitation
        self.secret = secret
        self.expected = expected
        self.voucher = voucher
        self.outcome = outcome
    }

    func rejectionReason(to peer: AuthenticatedPeer, at address: LinkAddress, _ settings: NodeSettings) -> SessionError? {
        if let expected, peer.id != expected {
            return .untrusted(
                "the peer at \(address) is \(peer.id.hex), not \(expected.hex) as expected")
        }
        return settings.trustStatus(peer, nil).isBlocked ? SessionError(NodeError.blocked(peer.id.hex)) : nil
    }

    func frame(on handshake: HandshakeResult) -> SessionFrame {
        guard let secret, case .invite(let id, let timeout, _, let context) = invitation else { return invitation }
        return .invite(
            id, timeout: timeout, proof: SessionSecret.proof(of: secret, on: handshake.handshakeHash), context: context)
    }

    var link: SessionLink? { state.withLock { $0.link } }

    var isOver: Bool { state.withLock { $0.isOver } }

    /// Whether both sides have agreed, so that the link joins or has joined: the invitation has not failed when it ends then.
    var isAgreed: Bool { state.withLock { $0.isJoining } }

    /// Records that the link has ended.
    func end() -> SessionLink? {
        joinEvent.fulfil(false)
        return state.withLock { state in
            state.isOver = true
            return state.link
        }
    }

    /// The link in the session; waits while it is joining on another task, because the peer has joined already.
    var joinedLink: SessionLink? {
        get async {
            if state.withLock({ $0.isJoining && $0.link == nil }) { _ = await joinEvent.value }
            return link
        }
    }

    func link(orKeep frame: SessionFrame) -> SessionLink? {
        state.withLock { state in
            if state.link == nil, state.isAccepted, state.queuedFrames.count < Self.maximumQueuedFrameCount {
                state.queuedFrames.append(frame)
            }
            return state.link
        }
    }

    func accepted(_ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isAccepted = true }
        return proceed(join)
    }

    func decided(isTrusted: Bool, _ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        state.withLock { $0.isTrusted = isTrusted }
        return proceed(join)
    }

    private func proceed(_ join: () -> SessionLink?) -> [(SessionFrame, SessionLink)] {
        let isTurn = state.withLock { state in
            guard state.isAccepted, state.isTrusted == true, !state.isJoining, !state.isOver else { return false }
            state.isJoining = true
            return true
        }
        guard isTurn else { return [] }
        defer { joinEvent.fulfil(true) }
        guard let link = join() else {
            outcome.fulfil(.failure(.full))
            return []
        }
        outcome.fulfil(.success(link.peer))
        return state.withLock { state in
            state.link = link
            defer { state.queuedFrames = [] }
            return state.queuedFrames.map { ($0, link) }
        }
    }
}
