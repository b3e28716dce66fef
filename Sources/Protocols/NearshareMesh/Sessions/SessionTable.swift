internal import NearshareBase
internal import NearshareCrypto

/// The secure channels with all peers, the payloads that wait for one, and messages that overtook the end of a handshake.
struct SessionTable: Sendable {
    /// A sealed message that was received before the third message of its handshake.
    struct EarlyMessage: Sendable {
        let frame: MeshFrame
        let link: MeshLinkID
    }

    enum Opening {
        case opened(MeshPeerSession.OpenedMessage, by: AuthenticatedPeer)
        /// Authentic, but over the peer's rate limit.
        case dropped(counter: UInt32?)
        case failed
    }

    private struct Entry: Sendable {
        var channel: SecureChannel
        /// Payloads that are sealed and sent as soon as there is a session.
        var queue: [[UInt8]] = []
        var early: [EarlyMessage] = []
        var texts = TextSequencer()
        /// When this node stated its capabilities in the current session.
        var peerStateSent: MonotonicInstant?
        /// When a message that could not be opened led to a new handshake.
        var renewed: MonotonicInstant?
        /// Limit on the authentic messages that are processed. Sealing proves the sender, so no other peer can use it up.
        var messages: TokenBucket
    }

    private var entries: [PeerID: Entry] = [:]
    /// Peers of which a text waits for an earlier message.
    private var peersWithWaitingTexts: Set<PeerID> = []
    private let identity: LocalIdentity
    private let idleTimeout: Duration
    private let messageRate: (burst: Double, perSecond: Double)

    init(identity: LocalIdentity, settings: MeshRouter.Settings) {
        self.identity = identity
        idleTimeout = settings.sessionLifetime
        messageRate = (settings.sealedBurst, settings.sealedPerSecond)
    }

    // MARK: State

    func isEstablished(_ peer: PeerID) -> Bool { entries[peer]?.channel.isEstablished ?? false }
    func isInitiating(_ peer: PeerID) -> Bool { entries[peer]?.channel.isInitiating ?? false }
    func isResponding(_ peer: PeerID) -> Bool { entries[peer]?.channel.isResponding ?? false }

    /// The peer that the current session has authenticated.
    func authenticatedPeer(_ id: PeerID) -> AuthenticatedPeer? { entries[id]?.channel.peer }

    /// Peers with a session, in ascending order.
    var established: [PeerID] { entries.filter { $0.value.channel.isEstablished }.keys.sorted() }

    /// The numbers, for each peer, of payloads that wait for a session, and of messages that wait for the end of a handshake.
    var waitingCounts: [(queued: Int, early: Int)] { entries.values.map { ($0.queue.count, $0.early.count) } }

    mutating func remove(_ peer: PeerID) {
        entries[peer] = nil
        peersWithWaitingTexts.remove(peer)
    }

    private mutating func withEntry<Value>(
        _ peer: PeerID, now: MonotonicInstant, _ body: (inout Entry) -> Value
    ) -> Value {
        body(
            &entries[
                peer,
                default: Entry(
                    channel: SecureChannel(identity: identity, peerID: peer, idleTimeout: idleTimeout),
                    messages: TokenBucket(capacity: messageRate.burst, perSecond: messageRate.perSecond, now: now))])
    }

    // MARK: Handshakes

    /// - Parameter ephemeral: 32 fresh random bytes.
    /// - Returns: the first message of a handshake; nil when one is in progress, or there were too many recently.
    mutating func start(with peer: PeerID, now: MonotonicInstant, ephemeral: [UInt8]) -> [UInt8]? {
        withEntry(peer, now: now) { $0.channel.start(now: now, ephemeral: ephemeral) }
    }

    /// - Parameters:
    ///   - isSigned: the packet is signed by the key that the peer announced, or came from it as the link's proven neighbour.
    ///   - link: the link on which it was received.
    ///   - ephemeral: 32 fresh random bytes, used if this is a first message.
    mutating func receive(
        handshake message: ArraySlice<UInt8>, from peer: PeerID, isSigned: Bool, on link: MeshLinkID,
        now: MonotonicInstant, ephemeral: [UInt8]
    ) -> SecureChannel.Reaction {
        withEntry(peer, now: now) { entry in
            let reaction = entry.channel.receive(
                handshake: message, isSigned: isSigned, from: link, now: now, ephemeral: ephemeral)
            if case .established = reaction {
                entry.peerStateSent = nil
                entry.texts.startSession()
            }
            return reaction
        }
    }

    /// The first messages of unanswered handshakes that are due for retransmission, in ascending order of the peers.
    mutating func retransmissions(now: MonotonicInstant) -> [(peer: PeerID, message: [UInt8])] {
        var due: [(peer: PeerID, message: [UInt8])] = []
        for peer in Array(entries.keys) {
            if let message = entries[peer]?.channel.retransmittedFirstMessage(now: now) { due.append((peer, message)) }
        }
        return due.sorted { $0.peer < $1.peer }
    }

    // MARK: Sealing

    /// Seals a payload, or queues it if there is no session.
    mutating func sealOrQueue(_ payload: [UInt8], for peer: PeerID, now: MonotonicInstant) -> [UInt8]? {
        withEntry(peer, now: now) { entry in
            if let sealed = try? entry.channel.seal(payload, now: now) { return sealed }
            Self.queue(payload, in: &entry)
            return nil
        }
    }

    /// Seals a payload; nil without a session.
    mutating func seal(_ payload: [UInt8], for peer: PeerID, now: MonotonicInstant) -> [UInt8]? {
        try? entries[peer]?.channel.seal(payload, now: now)
    }

    mutating func queue(_ payload: [UInt8], for peer: PeerID, now: MonotonicInstant) {
        withEntry(peer, now: now) { Self.queue(payload, in: &$0) }
    }

    /// Drops the payload when the queue is full. What needs an answer is sent again without one.
    private static func queue(_ payload: [UInt8], in entry: inout Entry) {
        if entry.queue.count < maximumQueueCount { entry.queue.append(payload) }
    }

    /// Empties the queue of one peer.
    mutating func drainQueue(of peer: PeerID) -> [[UInt8]] {
        defer { entries[peer]?.queue = [] }
        return entries[peer]?.queue ?? []
    }

    /// Peers with a session and queued payloads, in ascending order.
    var peersToServe: [PeerID] {
        entries.compactMap { peer, entry in !entry.queue.isEmpty && entry.channel.isEstablished ? peer : nil }.sorted()
    }

    // MARK: Peer states

    /// Whether this node's peer state is due: once in a session, and again when the peer's is missing or repeated, because one
    /// of the two was lost.
    mutating func admitPeerState(to peer: PeerID, now: MonotonicInstant) -> Bool {
        withEntry(peer, now: now) { entry in
            guard entry.peerStateSent.map({ now - $0 >= Self.peerStateInterval }) ?? true else { return false }
            entry.peerStateSent = now
            return true
        }
    }

    func hasSentPeerState(to peer: PeerID) -> Bool { entries[peer]?.peerStateSent != nil }

    // MARK: Opening

    mutating func open(_ message: ArraySlice<UInt8>, from peer: PeerID, now: MonotonicInstant) -> Opening {
        guard let message = try? entries[peer]?.channel.open(message, now: now) else { return .failed }
        // Only after opening, because any sender can put the peer's id on a packet; such packets use up the budget of their
        // link.
        guard entries[peer]?.messages.consume(now: now) == true, let proven = entries[peer]?.channel.peer else {
            return .dropped(counter: message.counter)
        }
        return .opened(message, by: proven)
    }

    /// Adds a text that is delivered in the order in which the peer has sealed it. ``popTexts(of:after:now:)`` follows.
    /// - Parameter counter: nil for a text that waits for no other message.
    mutating func insert(_ text: TextSequencer.Text, counter: UInt32?, of peer: PeerID, now: MonotonicInstant) {
        entries[peer]?.texts.insert(text, counter: counter, now: now)
    }

    /// Removes the texts of a peer that are to be delivered now, in their order.
    /// - Parameter counter: that of a message which was received; nil for none.
    mutating func popTexts(of peer: PeerID, after counter: UInt32? = nil, now: MonotonicInstant) -> [TextSequencer.Text] {
        if let counter { entries[peer]?.texts.record(counter) }
        guard let texts = entries[peer]?.texts.popReady(now: now) else { return [] }
        if entries[peer]?.texts.deadline == nil {
            peersWithWaitingTexts.remove(peer)
        } else {
            peersWithWaitingTexts.insert(peer)
        }
        return texts
    }

    /// When a text is delivered although an earlier message is missing.
    var textDeadline: MonotonicInstant? { peersWithWaitingTexts.compactMap { entries[$0]?.texts.deadline }.min() }

    /// Peers with a text whose time of waiting is over, in ascending order.
    func peersWithDueTexts(now: MonotonicInstant) -> [PeerID] {
        peersWithWaitingTexts.filter { entries[$0]?.texts.deadline.map { $0 <= now } ?? false }.sorted()
    }

    /// Buffers a message that has overtaken the end of a handshake, until the session is established.
    /// - Returns: the answer to repeat, if it is due; nil also when the message was dropped.
    mutating func bufferUntilEstablished(_ frame: MeshFrame, over link: MeshLinkID, now: MonotonicInstant) -> [UInt8]? {
        withEntry(frame.packet.sender, now: now) { entry in
            guard entry.early.count < Self.maximumEarlyCount, frame.packet.payload.count <= Self.maximumEarlyByteCount else {
                return nil
            }
            entry.early.append(EarlyMessage(frame: frame, link: link))
            return entry.channel.retransmittedSecondMessage(now: now)
        }
    }

    mutating func drainBuffered(of peer: PeerID) -> [EarlyMessage] {
        defer { entries[peer]?.early = [] }
        return entries[peer]?.early ?? []
    }

    /// Records that a message could not be opened.
    /// - Returns: whether a new handshake is justified, and the last one was long enough ago.
    mutating func recordFailure(of peer: PeerID, now: MonotonicInstant) -> Bool {
        withEntry(peer, now: now) { entry in
            entry.channel.recordFailure() && (entry.renewed.map { now - $0 >= Self.renewalInterval } ?? true)
        }
    }

    /// Records that a message that could not be opened leads to a new handshake.
    mutating func recordRenewal(with peer: PeerID, now: MonotonicInstant) { entries[peer]?.renewed = now }

    // MARK: Time

    mutating func expire(now: MonotonicInstant) {
        // Over a copy of the keys: indices would keep the table, and its first change would copy all sessions.
        for peer in Array(entries.keys) { entries[peer]?.channel.expire(now: now) }
    }

    static let maximumQueueCount = 64
    private static let maximumEarlyCount = 8
    private static let maximumEarlyByteCount = 4096
    /// Shortest interval between two handshakes that are started because a message could not be opened.
    private static let renewalInterval = Duration.seconds(30)
    private static let peerStateInterval = Duration.seconds(2)
}
