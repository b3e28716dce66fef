package import NearshareBase
package import NearshareCrypto

/// All byte streams of one link (`docs/PROTOCOL.md`, section 11). Each direction of a stream has its own window, so that a slow
/// reader delays its own writer only.
///
///     one direction:  open ──finish, all read──► done          a stream ends when both directions are done, or by a reset
package struct ByteStreams: Sendable {
    /// The limits for the streams of one link.
    package struct Limits: Sendable, Hashable {
        /// Streams of each purpose that the peer may have open at once: the one for messages is none of a program's.
        package var maximumIncomingCount = 64
        /// Streams of each purpose that this side may have open at once.
        package var maximumOutgoingCount = 64
        /// Bytes of each stream that may wait for credit.
        package var sendBufferByteCount = 256 << 10
        /// Bytes of each stream that may wait to be read; at least ``StreamFrame/initialWindow``.
        package var receiveWindowByteCount: UInt64 = StreamFrame.initialWindow

        /// The defaults.
        package init() {}
    }

    /// The result of reading.
    package enum ReadResult: Sendable, Hashable {
        /// The available bytes, up to the limit.
        case bytes([UInt8])
        /// No bytes yet; ``StreamEvent/readable(_:)`` follows.
        case nothing
        /// The end of the stream.
        case end
    }

    private struct Stream {
        let purpose: StreamPurpose
        var sending = SendingPart()
        var receiving = ReceivingPart()

        var isDone: Bool { sending.isFinished && receiving.isFinished }
    }

    private let isInitiator: Bool
    private let limits: Limits
    private var streams: [StreamID: Stream] = [:]
    /// Streams of which both directions are done, and that the program still holds: it reads their end again. Each goes with
    /// ``abandon(_:)``.
    private var done: Set<StreamID> = []
    /// Streams that the peer has reset, for the program's next operation on them. The oldest are dropped.
    private var resets: [(id: StreamID, reason: StreamResetReason)] = []
    private var nextLocal: UInt32
    private var lastRemote: UInt32 = 0
    /// Frames that need no credit. At most ``maximumControlCount`` and those of the open streams: the beginning of a stream needs
    /// room, and each has one credit frame and one reset.
    private var control: [StreamFrame] = []
    /// Streams with a frame to send, in the order of their turns.
    private var ready: [StreamID] = []
    private var events: [StreamEvent] = []
    private var confirmations = StreamConfirmations()

    /// Starts without streams, on a link that has just been established.
    package init(role: HandshakeRole, limits: Limits = Limits()) {
        isInitiator = role == .initiator
        self.limits = limits
        nextLocal = isInitiator ? 1 : 2
    }

    /// Returns and removes the events since the last call.
    package mutating func drainEvents() -> [StreamEvent] {
        defer { events = [] }
        return events
    }

    /// Whether ``nextFrame(maximumData:)`` returns a frame.
    package var hasFrame: Bool { !control.isEmpty || ready.contains { isSendable($0) } }

    /// The number of open streams of both sides.
    package var count: Int { streams.count }

    /// Whether the stream has neither ended nor been reset.
    package func isOpen(_ id: StreamID) -> Bool { streams[id] != nil }

    /// Whether the peer has reset the stream, and it is among the latest of those.
    package func isReset(_ id: StreamID) -> Bool { resets.contains { $0.id == id } }

    /// The programs' streams whose end the program has written, and whose bytes are not all sent. Those of relayed links are none of
    /// them: what a relayed link carries, its own two ends agree about.
    package var unsentFinished: [StreamID] {
        streams.filter { $0.value.purpose == .bytes && $0.value.sending.isFinishing && !$0.value.sending.isFinished }
            .map(\.key).sorted()
    }

    /// The number of programs' streams of which bytes that the program has written are not sent, or not known to have arrived. Those
    /// that were reset do not count.
    package var undeliveredCount: Int {
        let unsent = streams.filter { $0.value.purpose == .bytes && $0.value.sending.hasUnsentBytes }.keys
        return confirmations.endedCount + confirmations.open.union(unsent).count
    }

    /// Whether the program holds a stream of which the peer's end has not arrived.
    package var hasIncoming: Bool {
        streams.values.contains { $0.purpose == .bytes && !$0.receiving.hasEnded && !$0.receiving.isDiscarding }
    }

    /// Whether there are bytes, or the end, to read.
    package func canRead(_ id: StreamID) -> Bool { streams[id]?.receiving.isReadable ?? done.contains(id) }

    // MARK: The program

    /// Opens a stream; data may follow at once.
    package mutating func open(_ purpose: StreamPurpose, _ name: StreamName) throws(StreamError) -> StreamID {
        // The second bound is out of reach: it takes 2^31 streams on one link. The third is one of a link that carries nothing.
        guard count(of: purpose, isLocal: true) < limits.maximumOutgoingCount, nextLocal < UInt32.max - 2,
            control.count < Self.maximumControlCount
        else { throw .tooMany }
        let id = StreamID(rawValue: nextLocal)
        // Bounded: by the guard.
        nextLocal += 2
        streams[id] = Stream(purpose: purpose)
        control.append(.open(id, purpose, name))
        return id
    }

    /// The number of bytes that can be written without waiting.
    package func availableByteCount(on id: StreamID) -> Int {
        streams[id]?.sending.availableByteCount(in: limits.sendBufferByteCount) ?? 0
    }

    /// Writes bytes as far as there is room.
    /// - Returns: The number of bytes written; ``StreamEvent/writable(_:)`` follows when it is not all.
    package mutating func write(_ bytes: ArraySlice<UInt8>, on id: StreamID) throws(StreamError) -> Int {
        try requireOpen(id)
        let buffer = limits.sendBufferByteCount
        let count = try streams[id]?.sending.write(bytes, buffer: buffer) ?? 0
        markReady(id)
        return count
    }

    /// Ends this side's direction. The peer reads all bytes written before, then the end.
    package mutating func finish(_ id: StreamID) throws(StreamError) {
        try requireOpen(id)
        streams[id]?.sending.finish()
        markReady(id)
    }

    /// Ends both directions at once. Ignored when the stream has ended.
    package mutating func reset(_ id: StreamID, reason: StreamResetReason) {
        guard streams.removeValue(forKey: id) != nil else { return }
        confirmations.recordReset(of: id)
        control.append(.reset(id, reason))
    }

    /// Releases a stream that the program no longer uses. A finished stream still sends its bytes, and discards the peer's; any
    /// other one is reset.
    package mutating func abandon(_ id: StreamID) {
        done.remove(id)
        guard let stream = streams[id] else { return }
        guard stream.sending.isFinishing else { return reset(id, reason: .cancelled) }
        streams[id]?.receiving.isDiscarding = true
        discard(id)
    }

    private mutating func discard(_ id: StreamID) {
        while case .bytes? = streams[id]?.receiving.read(upTo: .max) { grantCredit(id) }
        removeIfDone(id)
    }

    /// Reads at most `limit` bytes. The end can be read again.
    package mutating func read(_ id: StreamID, upTo limit: Int) throws(StreamError) -> ReadResult {
        if done.contains(id) { return .end }
        try requireOpen(id)
        guard streams[id]?.receiving.isDiscarding == false, let result = streams[id]?.receiving.read(upTo: limit) else {
            throw .notOpen
        }
        switch result {
        case .bytes: grantCredit(id)
        case .end: removeIfDone(id)
        case .nothing: break
        }
        return result
    }

    private func requireOpen(_ id: StreamID) throws(StreamError) {
        if streams[id] != nil { return }
        if let reason = resets.last(where: { $0.id == id })?.reason { throw StreamError(reason) }
        throw .notOpen
    }

    private mutating func grantCredit(_ id: StreamID) {
        let window = limits.receiveWindowByteCount
        guard let limit = streams[id]?.receiving.nextCredit(window: window) else { return }
        let credit = StreamFrame.credit(id, upTo: limit)
        // The newest limit includes the earlier ones: a peer that sends without reading gets one frame, however much it sends.
        if let index = control.firstIndex(where: { if case .credit(id, _) = $0 { true } else { false } }) {
            control[index] = credit
        } else {
            control.append(credit)
        }
    }

    // MARK: Frames from the peer

    /// Processes a frame. Frames of streams that have ended are a race, and are ignored.
    /// - Throws: ``MalformedInput`` for a violation.
    package mutating func receive(_ frame: StreamFrame) throws(MalformedInput) {
        let id = frame.id
        if case .open(_, let purpose, let name) = frame { return try receiveOpen(id, purpose, name) }
        guard isLocal(id) ? id.rawValue < nextLocal : id.rawValue <= lastRemote else {
            throw MalformedInput("stream: it was never opened")
        }
        switch frame {
        case .open: return
        case .data(_, let bytes):
            guard let isNewlyReadable = try streams[id]?.receiving.receive(bytes) else { return }
            notifyReader(id, isNewlyReadable: isNewlyReadable)
        case .finish:
            guard let isNewlyReadable = try streams[id]?.receiving.receiveFinish() else { return }
            notifyReader(id, isNewlyReadable: isNewlyReadable)
        case .credit(_, let limit):
            try streams[id]?.sending.receiveCredit(upTo: limit)
            markReady(id)
        case .reset(_, let reason):
            guard streams.removeValue(forKey: id) != nil else { return }
            confirmations.recordReset(of: id)
            if resets.count >= limits.maximumIncomingCount + limits.maximumOutgoingCount { resets.removeFirst() }
            resets.append((id, reason))
            events.append(.reset(id, reason))
        }
    }

    private mutating func notifyReader(_ id: StreamID, isNewlyReadable: Bool) {
        if streams[id]?.receiving.isDiscarding == true {
            discard(id)
        } else if isNewlyReadable {
            events.append(.readable(id))
        }
    }

    private mutating func receiveOpen(_ id: StreamID, _ purpose: StreamPurpose, _ name: StreamName) throws(MalformedInput) {
        guard !isLocal(id), id.rawValue > lastRemote else {
            throw MalformedInput("stream: its number does not ascend, or belongs to the other end")
        }
        lastRemote = id.rawValue
        guard control.count < Self.maximumControlCount else {
            throw MalformedInput("stream: opened without reading the replies")
        }
        guard count(of: purpose, isLocal: false) < limits.maximumIncomingCount else {
            control.append(.reset(id, .streamLimit))
            return
        }
        streams[id] = Stream(purpose: purpose)
        events.append(.opened(id, purpose, name))
    }

    // MARK: Frames to the peer

    /// Returns the next frame; nil when there is none. Control frames come first, then data of the streams in turn.
    package mutating func nextFrame(maximumData: Int = StreamFrame.maximumDataByteCount) -> StreamFrame? {
        if !control.isEmpty { return control.removeFirst() }
        while !ready.isEmpty {
            let id = ready.removeFirst()
            let buffer = limits.sendBufferByteCount
            switch streams[id]?.sending.next(maximumData: maximumData, buffer: buffer) {
            case .data(let bytes, let isWritable):
                if isWritable { events.append(.writable(id)) }
                if isSendable(id) { ready.append(id) }
                if streams[id]?.purpose == .bytes { confirmations.recordBytes(of: id) }
                return .data(id, bytes)
            case .finish:
                if streams[id]?.purpose == .bytes { confirmations.request() }
                events.append(.finished(id))
                removeIfDone(id)
                return .finish(id)
            case nil: continue
            }
        }
        return nil
    }

    private func isSendable(_ id: StreamID) -> Bool { streams[id]?.sending.isReady ?? false }

    private mutating func markReady(_ id: StreamID) {
        if isSendable(id), !ready.contains(id) { ready.append(id) }
    }

    /// Limit on queued control frames with which a stream can begin: a peer that opens streams without reading the replies is
    /// disconnected.
    private static let maximumControlCount = 4096

    private mutating func removeIfDone(_ id: StreamID) {
        guard let stream = streams[id], stream.isDone else { return }
        streams[id] = nil
        confirmations.recordEnd(of: id)
        if !stream.receiving.isDiscarding { done.insert(id) }
    }

    // MARK: Confirmation

    /// Requests a ping after what was sent of programs' streams, unless all has arrived. The end of each stream requests one as well.
    /// - Returns: The token of the ping whose answer confirms it; nil where all has arrived.
    package mutating func requestConfirmation() -> UInt64? { confirmations.request() }

    /// Whether a ping is to be sent, so that ``nextConfirmation()`` returns its token.
    package var isConfirmationDue: Bool { confirmations.isDue }

    /// Whether the ping with this token, or a later one, was answered.
    package func isConfirmed(_ token: UInt64) -> Bool { confirmations.isConfirmed(token) }

    /// Returns the token of a ping that goes out after the frames so far; nil for none. Its answer confirms that they have arrived.
    package mutating func nextConfirmation() -> UInt64? { confirmations.nextToken() }

    /// Processes the answer to a ping.
    /// - Returns: Whether it confirms that bytes of streams have arrived.
    package mutating func receiveConfirmation(_ token: UInt64) -> Bool { confirmations.receive(token) }

    /// The number of open streams of one side and purpose.
    private func count(of purpose: StreamPurpose, isLocal wanted: Bool) -> Int {
        streams.count { isLocal($0.key) == wanted && $0.value.purpose == purpose }
    }

    private func isLocal(_ id: StreamID) -> Bool { (id.rawValue % 2 == 1) == isInitiator }
}
