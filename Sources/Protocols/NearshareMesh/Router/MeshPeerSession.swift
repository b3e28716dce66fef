internal import NearshareBase
internal import NearshareCrypto

/// The Noise session with one peer of the frame path (bitchat specification, section 8).
///
///     idle ──start──► initiating ──second message──► established ◄──third message── responding ◄──first message── idle
///
/// Both may begin at once: then the lower id stays initiator. A new first message on an established session is answered beside
/// it, and replaces it when its third message has proven the peer. Anybody can put packets between the peer's: a message that
/// is not genuine changes nothing. A first message proves nothing at all, so it ends nothing: neither a handshake begun here nor
/// another answer, of which as many are open at once as may come in while one lives.
struct MeshPeerSession {
    static let initiatorTimeout = Duration.seconds(10)
    static let responderTimeout = Duration.seconds(20)
    /// Handshakes in ``rateWindow``, of each of three kinds: begun here, begun by the peer over its signature, and begun by
    /// whoever says so. Strangers use up nobody's but their own.
    static let handshakesPerWindow = 10
    /// Each command without a node is a process of its own, and one that is killed says no goodbye with which it would be forgotten.
    static let vouchedHandshakesPerWindow = 60
    static let rateWindow = Duration.seconds(60)
    private static let maximumResponses = handshakesPerWindow + vouchedHandshakesPerWindow
    private static let repetitionInterval = Duration.seconds(3)
    private static let answerInterval = Duration.seconds(1)

    enum Reaction {
        case reply([UInt8])
        /// The peer's key is proven. A reply, where there is one, is to be sent first.
        case established(AuthenticatedPeer, reply: [UInt8]?)
        /// Not genuine, not due, or too many: dropped.
        case ignore
    }

    private struct Pending {
        var state: HandshakeState
        var deadline: MonotonicInstant
        /// What we said last in it, said again when it seems to have got lost.
        var said: [UInt8]
        var saidAt: MonotonicInstant
        /// As responder, the message that it answers.
        var first: [UInt8] = []
    }

    private struct Established {
        var peer: AuthenticatedPeer
        var transport: NoiseDatagrams
        /// When it was made, or what the peer sealed in it came last: it counts as secure for a while from then on.
        var renewed: MonotonicInstant
    }

    private let own: LocalIdentity
    private let peerID: PeerID
    private var initiating: Pending?
    private var responding: [Pending] = []
    private var current: Established?
    /// What the peer sealed before it heard of the newest session may still come.
    private var previous: NoiseDatagrams?
    /// The second message that made the present session, and our third: said again when the second comes again.
    private var ending: (second: [UInt8], third: [UInt8])?
    private var begun = RateWindow()
    private var vouched = RateWindow()
    private var claimed = RateWindow()
    private var failures = 0

    private let lifetime: Duration

    /// - Parameter lifetime: a session that nothing comes in for so long is over.
    init(own: LocalIdentity, peerID: PeerID, lifetime: Duration) {
        self.own = own
        self.peerID = peerID
        self.lifetime = lifetime
    }

    var isEstablished: Bool { current != nil }
    var isInitiating: Bool { initiating != nil }
    /// The peer may have all it needs for sealing, while we wait for its last message.
    var isResponding: Bool { !responding.isEmpty }
    var peer: AuthenticatedPeer? { current?.peer }

    /// When something runs out.
    var deadline: MonotonicInstant? { (responding.map(\.deadline) + [initiating?.deadline].compactMap { $0 }).min() }

    /// - Parameter ephemeral: 32 fresh random bytes.
    /// - Returns: the first message; nil when one is on its way already, or there were too many lately.
    mutating func start(now: MonotonicInstant, ephemeral: [UInt8]) -> [UInt8]? {
        guard initiating == nil, begun.take(atMost: Self.handshakesPerWindow, within: Self.rateWindow, now: now) else {
            return nil
        }
        var state = HandshakeState(role: .initiator, prologue: [], staticKey: own.agreementKey, ephemeral: ephemeral)
        guard let message = try? state.writeMessage(payload: []) else { return nil }
        initiating = Pending(state: state, deadline: now + Self.initiatorTimeout, said: message, saidAt: now)
        return message
    }

    /// - Parameters:
    ///   - isVouched: its packet has the signature of the key that the peer announced.
    ///   - ephemeral: 32 fresh random bytes, used when this turns out to be a first message.
    mutating func receive(
        handshake message: ArraySlice<UInt8>, isVouched: Bool, now: MonotonicInstant, ephemeral: [UInt8]
    ) -> Reaction {
        let message = Array(message)
        switch message.count {
        case ..<Self.thirdMessageByteCount:
            return receiveFirst(message, isVouched: isVouched, now: now, ephemeral: ephemeral)
        case ..<Self.secondMessageByteCount: return receiveThird(message, now: now)
        default: return receiveSecond(message, now: now)
        }
    }

    private mutating func receiveFirst(
        _ message: [UInt8], isVouched: Bool, now: MonotonicInstant, ephemeral: [UInt8]
    ) -> Reaction {
        // Both began: the lower id waits for its answer. The higher one answers, and does not wait any more; but it takes what
        // comes, for this message may be anybody's.
        if initiating != nil, own.peerID.hex < peerID.hex { return .ignore }
        if let index = responding.firstIndex(where: { $0.first == message }) {
            responding[index].saidAt = now
            return .reply(responding[index].said)
        }
        var state = HandshakeState(role: .responder, prologue: [], staticKey: own.agreementKey, ephemeral: ephemeral)
        guard (try? state.readMessage(message)) != nil, allowsAnswer(isVouched: isVouched, now: now),
            let reply = try? state.writeMessage(payload: [])
        else { return .ignore }
        if responding.count >= Self.maximumResponses { responding.removeFirst() }
        responding.append(
            Pending(state: state, deadline: now + Self.responderTimeout, said: reply, saidAt: now, first: message))
        return .reply(reply)
    }

    private mutating func receiveSecond(_ message: [UInt8], now: MonotonicInstant) -> Reaction {
        if let ending, ending.second == message { return .reply(ending.third) }
        guard var state = initiating?.state, (try? state.readMessage(message)) != nil,
            let reply = try? state.writeMessage(payload: []), let keys = try? state.split(), keys.peer.id == peerID
        else { return .ignore }
        establish(keys, now: now)
        ending = (message, reply)
        return .established(keys.peer, reply: reply)
    }

    private mutating func receiveThird(_ message: [UInt8], now: MonotonicInstant) -> Reaction {
        for pending in responding {
            var state = pending.state
            guard (try? state.readMessage(message)) != nil, let keys = try? state.split(), keys.peer.id == peerID else {
                continue
            }
            establish(keys, now: now)
            return .established(keys.peer, reply: nil)
        }
        return .ignore
    }

    private mutating func establish(_ keys: TransportKeys, now: MonotonicInstant) {
        previous = current?.transport
        current = Established(
            peer: keys.peer, transport: NoiseDatagrams(send: keys.send, receive: keys.receive), renewed: now)
        initiating = nil
        responding = []
        ending = nil
        failures = 0
    }

    /// Our part of a handshake again, when there was no answer to it for a while.
    mutating func repetition(now: MonotonicInstant) -> [UInt8]? {
        guard let pending = initiating, now - pending.saidAt >= Self.repetitionInterval else { return nil }
        initiating!.saidAt = now
        return pending.said
    }

    /// An answer again, the one that was said longest ago: the peer is sealing already, so its third message must have got lost.
    mutating func repeatedAnswer(now: MonotonicInstant) -> [UInt8]? {
        guard let index = responding.indices.min(by: { responding[$0].saidAt < responding[$1].saidAt }),
            now - responding[index].saidAt >= Self.answerInterval
        else { return nil }
        responding[index].saidAt = now
        return responding[index].said
    }

    /// - Throws: ``NoiseError/malformed`` without a session; ``NoiseError/nonceExhausted`` when it is used up.
    mutating func seal(_ plaintext: [UInt8], now: MonotonicInstant) throws(NoiseError) -> [UInt8] {
        end(ifOver: now)
        guard current != nil else { throw .malformed }
        return try current!.transport.seal(plaintext)
    }

    /// - Throws: ``NoiseError``, and then ``shouldStartAnew`` says whether the session is worth replacing.
    mutating func open(_ message: ArraySlice<UInt8>, now: MonotonicInstant) throws(NoiseError) -> [UInt8] {
        end(ifOver: now)
        guard current != nil else { throw .malformed }
        do {
            let plaintext = try current!.transport.open(message)
            failures = 0
            current!.renewed = now
            return plaintext
        } catch {
            if previous != nil, let plaintext = try? previous!.open(message) { return plaintext }
            throw error
        }
    }

    private mutating func end(ifOver now: MonotonicInstant) {
        if let renewed = current?.renewed, now - renewed >= lifetime { current = nil }
    }

    /// Something that the peer may have sealed could not be opened.
    mutating func noteFailure() { failures += 1 }

    /// There is no session for what came, or three messages in a row could not be opened: the peer may have lost its keys.
    var shouldStartAnew: Bool { current == nil || failures >= 3 }

    mutating func expire(now: MonotonicInstant) {
        responding.removeAll { $0.deadline <= now }
        if let deadline = initiating?.deadline, deadline <= now { initiating = nil }
        end(ifOver: now)
    }

    private mutating func allowsAnswer(isVouched: Bool, now: MonotonicInstant) -> Bool {
        isVouched
            ? vouched.take(atMost: Self.vouchedHandshakesPerWindow, within: Self.rateWindow, now: now)
            : claimed.take(atMost: Self.handshakesPerWindow, within: Self.rateWindow, now: now)
    }

    private static let thirdMessageByteCount = 64
    private static let secondMessageByteCount = 96
}
