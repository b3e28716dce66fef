package import NearshareBase
package import NearshareCrypto

/// What happens on the streams of a link.
package enum StreamEvent: Sendable, Hashable {
    /// The other end has opened a stream.
    case opened(StreamID, StreamPurpose, StreamName)
    /// Bytes, or the end, can be read.
    case readable(StreamID)
    /// There is room for bytes again.
    case writable(StreamID)
    /// The other end has cut the stream. Nothing more happens on it.
    case reset(StreamID, StreamResetReason)
}

/// Why something can't be done with a stream here.
public enum StreamError: Error, Sendable, Hashable, CustomStringConvertible {
    /// It was closed here, or its link has ended.
    case notOpen
    /// The other side has cut it.
    case reset(StreamResetReason)
    /// More streams are open than the link bears.
    case tooMany
    /// Our direction was finished before.
    case finished

    public var description: String {
        switch self {
        case .notOpen: "the stream is closed"
        case .reset(.cancelled): "the other side has cut the stream"
        case .reset(.refused): "the other side takes no streams of this name"
        case .reset(.tooMany): "the other side has too many streams open"
        case .tooMany: "too many streams are open; close some first"
        case .finished: "this direction of the stream was finished already"
        }
    }
}

/// All byte streams of one link: numbered, each way with a window of its own, so that a slow reader stops its own writer
/// and nobody else.
///
///     one direction:  open ──finish, all read──► done          a stream is gone when both are done, or with a reset
///
/// A value that is told what came and asked what is to be sent: ``receive(_:)`` and ``nextFrame()``.
package struct ByteStreams: Sendable {
    /// What the streams of one link may cost.
    package struct Limits: Sendable, Hashable {
        /// That the other end may have open at once.
        package var incoming = 64
        /// That this end may have open at once.
        package var outgoing = 64
        /// Bytes of ours that wait for credit, on each stream.
        package var sendBuffer = 256 << 10
        /// Bytes that wait to be read, on each stream; at least ``StreamFrame/initialWindow``.
        package var receiveWindow: UInt64 = StreamFrame.initialWindow

        /// As every link has them.
        package init() {}
    }

    /// What can be read at the moment.
    package enum ReadResult: Sendable, Hashable {
        /// As many as there were, up to the limit.
        case bytes([UInt8])
        /// Nothing yet: ``StreamEvent/readable(_:)`` tells when.
        case nothing
        /// Everything has been read.
        case end
    }

    private struct Stream {
        // Outgoing.
        var queued = ByteQueue()
        var sent: UInt64 = 0
        var sendLimit = StreamFrame.initialWindow
        var isFinishing = false
        var hasSentFinish = false
        var wasFull = false
        // Incoming.
        var arrived = ByteQueue()
        var received: UInt64 = 0
        var granted = StreamFrame.initialWindow
        var hasReceivedFinish = false
        /// The end has been read.
        var isRead = false
        /// Nobody reads it any more: what comes is thrown away.
        var isIgnored = false

        var isDone: Bool { hasSentFinish && hasReceivedFinish && isRead }
    }

    private let isInitiator: Bool
    private let limits: Limits
    private var streams: [StreamID: Stream] = [:]
    /// Streams that the other end has cut, for whoever uses them next. The oldest are forgotten.
    private var cut: [(id: StreamID, reason: StreamResetReason)] = []
    /// The number of the next stream opened here.
    private var nextOwn: UInt32
    private var lastTheirs: UInt32 = 0
    /// Frames that don't wait for credit.
    private var control: [StreamFrame] = []
    /// Streams with something to send, the next one first.
    private var ready: [StreamID] = []
    private var events: [StreamEvent] = []

    /// The streams of a link that has just been established.
    package init(role: HandshakeRole, limits: Limits = Limits()) {
        isInitiator = role == .initiator
        self.limits = limits
        nextOwn = isInitiator ? 1 : 2
    }

    /// What has happened since it was asked last.
    package mutating func drainEvents() -> [StreamEvent] {
        defer { events = [] }
        return events
    }

    /// ``nextFrame(maximumData:)`` has one.
    package var hasFrame: Bool { !control.isEmpty || ready.contains { isSendable($0) } }

    /// Streams that are open, at both ends together.
    package var count: Int { streams.count }

    /// Neither over nor cut.
    package func isOpen(_ id: StreamID) -> Bool { streams[id] != nil }

    /// Bytes, or the end, wait to be read.
    package func canRead(_ id: StreamID) -> Bool {
        streams[id].map { !$0.arrived.isEmpty || $0.hasReceivedFinish } ?? false
    }

    // MARK: What the program does

    /// Opens a stream; data may follow at once.
    package mutating func open(_ purpose: StreamPurpose, _ name: StreamName) throws(StreamError) -> StreamID {
        let own = streams.keys.count { isOwn($0) }
        // 2^31 streams on one link are more than anybody lives to open.
        guard own < limits.outgoing, nextOwn < UInt32.max - 2 else { throw .tooMany }
        let id = StreamID(rawValue: nextOwn)
        nextOwn += 2
        streams[id] = Stream()
        control.append(.open(id, purpose, name))
        return id
    }

    /// How many bytes can be written now without waiting.
    package func room(on id: StreamID) -> Int {
        streams[id].map { max(0, limits.sendBuffer - $0.queued.count) } ?? 0
    }

    /// - Returns: how many bytes were taken; when not all, ``StreamEvent/writable(_:)`` tells when to go on.
    package mutating func write(_ bytes: ArraySlice<UInt8>, on id: StreamID) throws(StreamError) -> Int {
        let stream = try stream(id)
        guard !stream.isFinishing else { throw .finished }
        let count = min(bytes.count, room(on: id))
        if count > 0 {
            streams[id]!.queued.append(bytes.prefix(count))
            markReady(id)
        }
        if count < bytes.count { streams[id]!.wasFull = true }
        return count
    }

    /// Ends our direction: the other side reads all that was written, then the end.
    package mutating func finish(_ id: StreamID) throws(StreamError) {
        guard try !stream(id).isFinishing else { return }
        streams[id]!.isFinishing = true
        markReady(id)
    }

    /// Cuts both directions; gone already, nothing happens.
    package mutating func reset(_ id: StreamID, because reason: StreamResetReason) {
        guard streams.removeValue(forKey: id) != nil else { return }
        control.append(.reset(id, reason))
    }

    /// The program has let go of it: cut, unless our direction was finished. Then what was written still goes out, and what
    /// comes is thrown away.
    package mutating func abandon(_ id: StreamID) {
        guard let stream = streams[id] else { return }
        guard stream.isFinishing else { return reset(id, because: .cancelled) }
        streams[id]!.isIgnored = true
        ignore(id)
    }

    private mutating func ignore(_ id: StreamID) {
        while let result = try? read(id, upTo: .max), case .bytes = result {}
    }

    /// - Parameter limit: at most so many bytes.
    package mutating func read(_ id: StreamID, upTo limit: Int) throws(StreamError) -> ReadResult {
        let stream = try stream(id)
        guard !stream.arrived.isEmpty else {
            guard stream.hasReceivedFinish else { return .nothing }
            streams[id]!.isRead = true
            removeIfDone(id)
            return .end
        }
        let bytes = streams[id]!.arrived.removeFirst(limit)
        grant(id)
        return .bytes(Array(bytes))
    }

    private func stream(_ id: StreamID) throws(StreamError) -> Stream {
        if let stream = streams[id] { return stream }
        if let reason = cut.last(where: { $0.id == id })?.reason { throw .reset(reason) }
        throw .notOpen
    }

    /// Gives back what has been read, in portions worth a frame.
    private mutating func grant(_ id: StreamID) {
        guard let stream = streams[id], !stream.hasReceivedFinish else { return }
        let limit = stream.received - UInt64(stream.arrived.count) + limits.receiveWindow
        guard limit >= stream.granted + limits.receiveWindow / 2 else { return }
        streams[id]!.granted = limit
        control.append(.credit(id, upTo: limit))
    }

    // MARK: What comes

    /// - Throws: what no honest peer does. Frames of streams that are gone were on their way, and are ignored.
    package mutating func receive(_ frame: StreamFrame) throws(MalformedInput) {
        let id = frame.id
        if case .open(_, let purpose, let name) = frame { return try receiveOpen(id, purpose, name) }
        guard isOwn(id) ? id.rawValue < nextOwn : id.rawValue <= lastTheirs else {
            throw MalformedInput("stream: it was never opened")
        }
        guard let stream = streams[id] else { return }
        switch frame {
        case .open: return
        case .data(_, let bytes):
            guard !stream.hasReceivedFinish else { throw MalformedInput("stream: data after its end") }
            guard stream.received + UInt64(bytes.count) <= stream.granted else {
                throw MalformedInput("stream: more data than was granted")
            }
            streams[id]!.received += UInt64(bytes.count)
            streams[id]!.arrived.append(bytes)
            tellReadable(id, stream)
        case .credit(_, let limit):
            guard limit >= stream.sendLimit else { throw MalformedInput("stream: credit was taken back") }
            streams[id]!.sendLimit = limit
            markReady(id)
        case .finish:
            guard !stream.hasReceivedFinish else { throw MalformedInput("stream: it ended twice") }
            streams[id]!.hasReceivedFinish = true
            tellReadable(id, stream)
        case .reset(_, let reason):
            streams[id] = nil
            if cut.count >= limits.incoming + limits.outgoing { cut.removeFirst() }
            cut.append((id, reason))
            events.append(.reset(id, reason))
        }
    }

    private mutating func tellReadable(_ id: StreamID, _ before: Stream) {
        if before.isIgnored {
            ignore(id)
        } else if before.arrived.isEmpty {
            events.append(.readable(id))
        }
    }

    private mutating func receiveOpen(_ id: StreamID, _ purpose: StreamPurpose, _ name: StreamName) throws(MalformedInput) {
        guard !isOwn(id), id.rawValue > lastTheirs else { throw MalformedInput("stream: its number is not the next one") }
        lastTheirs = id.rawValue
        guard control.count < Self.maximumControlCount else {
            throw MalformedInput("stream: more are opened than their answers are read")
        }
        guard streams.keys.count(where: { !isOwn($0) }) < limits.incoming else {
            control.append(.reset(id, .tooMany))
            return
        }
        streams[id] = Stream()
        events.append(.opened(id, purpose, name))
    }

    // MARK: What goes out

    /// The next frame to send; data of several streams in turn. nil when there is none for now.
    package mutating func nextFrame(maximumData: Int = StreamFrame.maximumDataByteCount) -> StreamFrame? {
        if !control.isEmpty { return control.removeFirst() }
        while !ready.isEmpty {
            let id = ready.removeFirst()
            guard let stream = streams[id] else { continue }
            let credit = Int(clamping: stream.sendLimit - stream.sent)
            if !stream.queued.isEmpty {
                guard credit > 0 else { continue }
                let bytes = streams[id]!.queued.removeFirst(min(maximumData, credit))
                streams[id]!.sent += UInt64(bytes.count)
                if stream.wasFull, room(on: id) >= limits.sendBuffer / 2 {
                    streams[id]!.wasFull = false
                    events.append(.writable(id))
                }
                if isSendable(id) { ready.append(id) }
                return .data(id, bytes)
            }
            if stream.isFinishing, !stream.hasSentFinish {
                streams[id]!.hasSentFinish = true
                removeIfDone(id)
                return .finish(id)
            }
        }
        return nil
    }

    private func isSendable(_ id: StreamID) -> Bool {
        guard let stream = streams[id] else { return false }
        return stream.queued.isEmpty
            ? stream.isFinishing && !stream.hasSentFinish : stream.sendLimit > stream.sent
    }

    private mutating func markReady(_ id: StreamID) {
        if isSendable(id), !ready.contains(id) { ready.append(id) }
    }

    /// Words about streams that wait until the other end reads.
    private static let maximumControlCount = 4096

    private mutating func removeIfDone(_ id: StreamID) {
        if streams[id]?.isDone == true { streams[id] = nil }
    }

    private func isOwn(_ id: StreamID) -> Bool { (id.rawValue % 2 == 1) == isInitiator }
}

/// Bytes in the pieces in which they came.
private struct ByteQueue: Sendable {
    private var pieces: [ArraySlice<UInt8>] = []
    private var head = 0
    private(set) var count = 0

    var isEmpty: Bool { count == 0 }

    mutating func append(_ bytes: ArraySlice<UInt8>) {
        guard !bytes.isEmpty else { return }
        pieces.append(bytes)
        count += bytes.count
    }

    /// At most `limit` bytes from the front; they are only moved together where they came apart.
    mutating func removeFirst(_ limit: Int) -> ArraySlice<UInt8> {
        if head < pieces.count, pieces[head].count >= min(limit, count) {
            defer { advance(by: min(limit, count)) }
            return pieces[head].prefix(limit)
        }
        var taken: [UInt8] = []
        taken.reserveCapacity(min(limit, count))
        while taken.count < limit, head < pieces.count {
            let part = pieces[head].prefix(limit - taken.count)
            taken += part
            advance(by: part.count)
        }
        return taken[...]
    }

    /// - Parameter taken: at most what is left of the first piece.
    private mutating func advance(by taken: Int) {
        count -= taken
        pieces[head] = pieces[head].dropFirst(taken)
        guard pieces[head].isEmpty else { return }
        // An empty part of a piece would still hold all of it.
        pieces[head] = []
        head += 1
        if head == pieces.count || (head > 64 && head * 2 > pieces.count) {
            pieces.removeFirst(head)
            head = 0
        }
    }
}
