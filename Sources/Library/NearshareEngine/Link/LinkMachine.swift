package import NearshareBase
package import NearshareDirect

/// The control side of one link: the handshake's deadline, then a ``DirectConnection`` with the frames that it wants written,
/// then the end.
///
///     handshake ──established──► connected ──closed──► ending ──all written──► lingering ──peer has read, or timeout──► finished
///         └──────── failed ─────────────────────────────►┘
///
/// Content and sealed records do not pass through it: it only decides whether content of a transfer is welcome.
package struct LinkMachine: Machine {
    package enum Reaction: Sendable {
        case connection(DirectReaction)
        /// The link is to be closed at once: the peer is too slow, or asks without reading the replies.
        case cut
    }

    private enum Phase: Sendable {
        /// The deadline is nil once it has passed.
        case handshake(deadline: MonotonicInstant?)
        case connected
        case ending
        case lingering(until: MonotonicInstant)
        case finished
    }

    private let begin: MonotonicInstant
    private var phase: Phase
    /// nil until the handshake is finished.
    private var connection: DirectConnection?
    /// Encoded control frames, which go out before any content.
    private var frames: [[UInt8]] = []
    private var reactions: [Reaction] = []
    /// Streams have frames that another thread could not write.
    private var isTurnDue = false
    /// Whether the peer gets time to read the last frames.
    private var lingers = true
    private var hasReadAll = false

    /// Limit on queued replies: a peer that keeps asking without reading is disconnected.
    package static let maximumQueuedFrameCount = 4096
    /// Limit on roster frames that wait to be written; the link is cut, and another one begins with the whole roster (S7).
    package static let maximumQueuedRosterCount = 256
    /// Limit on buffered unreliable datagrams that wait to be written; further ones are dropped.
    package static let maximumQueuedDatagramCount = 256
    /// Time that the peer has to read the last frame before the link is closed.
    package static let lingerTime = Duration.seconds(1)

    package init(now: MonotonicInstant) {
        begin = now
        phase = .handshake(deadline: now + DirectLimits.handshakeTimeout)
    }

    // MARK: Handshake

    /// Whether the handshake has not finished in time.
    package var isHandshakeLate: Bool { if case .handshake(nil) = phase { true } else { false } }

    package mutating func establish(_ connection: DirectConnection) {
        guard case .handshake = phase else { return }
        phase = .connected
        self.connection = connection
        absorb(connection.start())
    }

    package mutating func failHandshake() { phase = .ending }

    // MARK: Connection

    package var isEstablished: Bool { connection != nil }
    package var isIdle: Bool { connection?.isIdle ?? true }
    package var isClosed: Bool { connection?.isClosed ?? false }
    /// ``DirectConnection/hasRoomForOffer``.
    package var hasRoomForOffer: Bool { connection?.hasRoomForOffer ?? true }
    package var roundTripTime: Duration? { connection?.roundTripTime }

    /// The time since which the link is not used; nil while it is, or is about to end.
    package func unusedSince(now: MonotonicInstant) -> MonotonicInstant? {
        switch phase {
        // The handshake does not count as use: a peer can take its time for it.
        case .handshake: begin
        case .connected: connection?.unusedSince(now: now)
        case .ending, .lingering, .finished: nil
        }
    }

    /// ``DirectConnection/transferRate(now:)``.
    package func transferRate(now: MonotonicInstant) -> Int? { connection?.transferRate(now: now) }

    /// ``DirectConnection/isMoving``.
    package var isMoving: Bool { connection?.isMoving ?? false }

    /// Counts the link as used until a time, whatever happens on it.
    package mutating func reserve(until time: MonotonicInstant, now: MonotonicInstant) {
        connection?.reserve(until: time, now: now)
    }

    /// Gives the connection an input.
    /// - Returns: whether the thread that writes is to be woken; nil before the handshake is finished. Most inputs have no
    ///   reaction, or raise a window, which concerns the transfer's own thread only.
    package mutating func decide(_ input: (inout DirectConnection) -> [DirectReaction]) -> Bool? {
        guard var connection = connection.take() else { return nil }
        let reactions = input(&connection)
        self.connection = connection
        absorb(reactions)
        return reactions.contains { if case .windowRaised = $0 { false } else { true } }
    }

    /// Records bytes from the peer other than a frame, such as a part of a record.
    package mutating func recordActivity(byteCount: Int, now: MonotonicInstant) {
        connection?.recordActivity(byteCount: byteCount, now: now)
    }

    /// Records content that is written.
    package mutating func recordWriting(byteCount: Int, now: MonotonicInstant) {
        connection?.recordWriting(byteCount: byteCount, now: now)
    }

    /// Closes the connection.
    /// - Returns: false before the handshake is finished.
    package mutating func close(_ reason: CloseReason) -> Bool {
        lingers = reason != .done
        return decide { $0.close(reason) } != nil
    }

    private mutating func absorb(_ reactions: [DirectReaction]) {
        for reaction in reactions {
            switch reaction {
            case .send(let frame): frames.append(frame.encoded)
            case .closed:
                phase = .ending
                self.reactions.append(.connection(reaction))
            default: self.reactions.append(.connection(reaction))
            }
        }
        if frames.count > Self.maximumQueuedFrameCount { self.reactions.append(.cut) }
    }

    // MARK: Frames to write

    /// Queues a frame about a session. Ignored before the handshake is finished.
    package mutating func send(_ frame: SessionFrame) {
        guard isEstablished else { return }
        frames.append(frame.encoded)
        guard case .roster = frame else { return }
        let count = frames.count { $0.first == FrameType.sessionRoster }
        if count > Self.maximumQueuedRosterCount { reactions.append(.cut) }
    }

    /// Queues an unreliable datagram, or drops it.
    package mutating func sendDatagram(_ bytes: [UInt8]) {
        guard isEstablished, frames.count < Self.maximumQueuedDatagramCount else { return }
        frames.append([FrameType.datagram] + bytes)
    }

    /// Another thread has left frames of streams for the thread that writes.
    package mutating func requestTurn() { isTurnDue = true }

    package var hasFrames: Bool { !frames.isEmpty || isTurnDue }

    /// Removes the frames that are to be written.
    package mutating func drainFrames() -> [[UInt8]] {
        isTurnDue = false
        defer { frames = [] }
        return frames
    }

    /// Removes the frames that precede a block of content, as one step: content must neither follow its transfer's end nor
    /// overtake a frame that was decided before it.
    /// - Parameter isLast: whether the block ends the transfer's content.
    package mutating func drainFrames(beforeContentOf id: TransferID, isLast: Bool) -> [[UInt8]] {
        if isLast { connection?.willSendLastBlock(id) }
        defer { frames = [] }
        return frames
    }

    // MARK: The end

    /// Whether what is queued still goes out, and then the link ends.
    package var isEnding: Bool { if case .ending = phase { true } else { false } }

    /// The peer has ended the stream, or is gone.
    package mutating func recordEndOfReading() {
        hasReadAll = true
        if case .lingering = phase { phase = .finished }
    }

    /// All frames are written.
    package mutating func finishWriting(now: MonotonicInstant) {
        phase = lingers && !hasReadAll ? .lingering(until: now + Self.lingerTime) : .finished
    }

    // MARK: Machine

    package var deadline: MonotonicInstant? {
        switch phase {
        case .handshake(let deadline): deadline
        case .connected: connection?.deadline
        case .lingering(let end): end
        case .ending, .finished: nil
        }
    }

    package var hasReactions: Bool { !reactions.isEmpty }

    package var isFinished: Bool { if case .finished = phase { true } else { false } }

    package mutating func advance(to now: MonotonicInstant) {
        switch phase {
        case .handshake(let deadline?) where now >= deadline:
            phase = .handshake(deadline: nil)
            reactions.append(.cut)
        case .connected: _ = decide { $0.advance(to: now) }
        case .lingering(let end) where now >= end: phase = .finished
        case .handshake, .ending, .lingering, .finished: break
        }
    }

    package mutating func drainReactions() -> [Reaction] {
        defer { reactions = [] }
        return reactions
    }
}
