internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// Thread-safe owner of a link's ``ByteStreams``: programs read and write, the link's threads move the frames.
final class LinkStreams: Sendable {
    private struct State {
        var streams: ByteStreams
        /// Tasks and threads that wait for an event of a stream.
        var waiting: [StreamID: [Waker]] = [:]
        /// Streams that are read on the thread that reads the link, as bytes arrive.
        var readers: [StreamID: Reader] = [:]
        var producer: FrameProducer?
        /// The program accepts streams from the peer; until then they are refused (A1).
        var acceptsIncomingStreams = false
        var isClosed = false
        /// Programs write no more: the session of the link is over, and the link about to close.
        var hasEndedWriting = false
        /// Streams in ``LinkStreams/opened`` that the session has not handled.
        var unhandledCount = 0
        /// Called when the last stream has ended of which the peer's end was awaited; nil while the session is not being left.
        var onIncomingEnd: Waker?
    }

    /// Receives the bytes of a stream; nil when no more will come: at its end, and when it was reset.
    typealias ReadHandler = @Sendable ([UInt8]?) throws(MalformedInput) -> Void

    private final class Reader: Sendable {
        let onBytes: ReadHandler
        /// Held while bytes are delivered, so that they stay in order.
        let deliveryLock = Mutex(())

        init(_ onBytes: @escaping ReadHandler) {
            self.onBytes = onBytes
        }
    }

    /// Writes bytes to streams without blocking, so that frames become due. Called by the thread that collects frames, one
    /// call at a time.
    typealias FrameProducer = @Sendable () -> Void

    /// Wakes a waiting task or thread. Called and released without a lock.
    typealias Waker = @Sendable () -> Void

    /// Limit on the bytes of frames that are sealed and written together.
    private static let batchByteCount = 256 << 10
    /// Limit on streams opened by the peer that the program has not handled yet, including those that were reset meanwhile.
    private static let maximumOpenedCount = 256

    /// Streams opened by the peer.
    let opened: AsyncStream<(id: StreamID, purpose: StreamPurpose, name: StreamName)>
    private let openedContinuation: AsyncStream<(id: StreamID, purpose: StreamPurpose, name: StreamName)>.Continuation
    private let state: Mutex<State>
    private let isProductionRequested = Atomic(false)
    /// Wakes tasks that wait until bytes have arrived.
    private let confirmation = AsyncCondition()
    /// Schedules a turn of the link's writer thread.
    private let wake: @Sendable () -> Void

    init(role: HandshakeRole, wake: @escaping @Sendable () -> Void) {
        state = Mutex(State(streams: ByteStreams(role: role)))
        self.wake = wake
        (opened, openedContinuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumOpenedCount))
    }

    // MARK: For the link's threads

    var hasFrames: Bool {
        isProductionRequested.load(ordering: .acquiring)
            || state.withLock { $0.streams.hasFrame || $0.streams.isConfirmationDue }
    }

    /// Returns encoded frames that are due, at most one batch.
    func dequeueFrames() -> [[UInt8]] {
        if isProductionRequested.exchange(false, ordering: .acquiringAndReleasing) { state.withLock { $0.producer }?() }
        return update { state in
            var frames: [[UInt8]] = []
            var byteCount = 0
            while byteCount < Self.batchByteCount, let frame = state.streams.nextFrame() {
                let encoded = frame.encoded
                frames.append(encoded)
                byteCount += encoded.count
            }
            // Behind the bytes that its answer confirms.
            if let token = state.streams.nextConfirmation() { frames.append(ControlFrame.ping(token).encoded) }
            return frames
        }
    }

    func receive(_ frame: StreamFrame) throws(MalformedInput) {
        let failure: MalformedInput? = update { state in
            do throws(MalformedInput) {
                try state.streams.receive(frame)
                return nil
            } catch {
                return error
            }
        }
        if let failure { throw failure }
        try drain(frame.id)
        if hasFrames { wake() }
    }

    /// Processes the answer to a ping. Others than those of ``dequeueFrames()`` are ignored.
    func receivePong(_ token: UInt64) {
        guard state.withLock({ $0.streams.receiveConfirmation(token) }) else { return }
        confirmation.notifyAll()
        if hasFrames { wake() }
    }

    /// Delivers a stream's bytes on the thread that reads the link, from now on. The closure must not block.
    func read(_ id: StreamID, _ onBytes: @escaping ReadHandler) throws(MalformedInput) {
        state.withLock { $0.readers[id] = Reader(onBytes) }
        try drain(id)
        // Credit for the other end may be due.
        if hasFrames { wake() }
    }

    private func drain(_ id: StreamID) throws(MalformedInput) {
        guard let reader = state.withLock({ $0.readers[id] }) else { return }
        let failure: MalformedInput? = reader.deliveryLock.withLock { _ in
            do throws(MalformedInput) {
                while true {
                    switch try? attemptWhileOpen({ state throws(StreamError) in try state.streams.read(id, upTo: .max) }) {
                    case .bytes(let bytes)?: try reader.onBytes(bytes)
                    case .nothing?: return nil
                    case .end?, nil:
                        state.withLock { _ = $0.readers.removeValue(forKey: id) }
                        try reader.onBytes(nil)
                        return nil
                    }
                }
            } catch {
                return error
            }
        }
        if let failure { throw failure }
    }

    /// Ends all streams because the link has ended.
    func close() {
        // Released without the lock: a reader or waiter may hold the last reference to a stream, whose release takes the lock.
        let (waiting, held) = state.withLock { state in
            state.isClosed = true
            defer { (state.waiting, state.readers, state.producer, state.onIncomingEnd) = ([:], [:], nil, nil) }
            return (state.waiting.values.flatMap { $0 }, (state.readers, state.producer, state.onIncomingEnd))
        }
        withExtendedLifetime(held) {
            for waiter in waiting { waiter() }
        }
        confirmation.notifyAll()
        openedContinuation.finish()
    }

    /// Refuses what programs write from now on, while what the link carries for its session still goes out.
    func endWriting() { state.withLock { $0.hasEndedWriting = true } }

    /// Sets the closure that is called after ``requestFrames(wakesWriter:)``, on the thread that collects frames. Requests made
    /// at about the same time are sent together, and wake the thread once.
    func setProducer(_ producer: @escaping FrameProducer) {
        state.withLock { state in
            if !state.isClosed { state.producer = producer }
        }
    }

    /// Requests a call of the closure that produces frames.
    /// - Parameter wakesWriter: false when the caller collects the frames itself.
    func requestFrames(wakesWriter: Bool = true) {
        if !isProductionRequested.exchange(true, ordering: .acquiringAndReleasing), wakesWriter { wake() }
    }

    /// Accepts streams from the peer from now on: both ends are in one session.
    func startAcceptingStreams() {
        state.withLock { $0.acceptsIncomingStreams = true }
    }

    /// Whether the peer may open streams: the link belongs to a session.
    var acceptsIncomingStreams: Bool { state.withLock { $0.acceptsIncomingStreams } }

    /// Whether the program holds a stream of which the peer's end has not arrived.
    var hasIncoming: Bool { state.withLock { !$0.isClosed && $0.streams.hasIncoming } }

    /// Sets the closure that is called, without a lock, each time when ``hasIncoming`` becomes false, except by the end of the link.
    func setIncomingEndHandler(_ onIncomingEnd: @escaping Waker) {
        state.withLock { state in
            if !state.isClosed { state.onIncomingEnd = onIncomingEnd }
        }
    }

    /// Whether the session has handled all streams that the peer has opened.
    var areAllHandled: Bool { state.withLock { $0.unhandledCount == 0 } }

    /// Records that the session has handled a stream of ``opened``.
    func recordHandledStream() { state.withLock { $0.unhandledCount -= 1 } }

    /// Whether streams are open besides the one for messages, and whether all bytes that were sent have arrived.
    var use: IdleRelays.Use {
        state.withLock { state in
            if state.streams.count > 1 { return .open }
            return state.streams.undeliveredCount == 0 ? .idle : .unconfirmed
        }
    }

    // MARK: For programs

    func open(_ purpose: StreamPurpose, _ name: StreamName) throws(StreamError) -> StreamID {
        let id = try attemptWhileOpen { state throws(StreamError) in try state.streams.open(purpose, name) }
        wake()
        return id
    }

    /// Writes all bytes; waits while the stream's window is full.
    func write(_ bytes: [UInt8], on id: StreamID) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let count = try attemptWhileOpen { state throws(StreamError) -> Int in
                if state.hasEndedWriting { throw .notOpen }
                return try state.streams.write(rest, on: id)
            }
            if count > 0 { wake() }
            rest = rest.dropFirst(count)
            if !rest.isEmpty { await wait(on: id) { $0.availableByteCount(on: id) > 0 } }
        }
    }

    /// Writes as many bytes as the window allows.
    /// - Parameters:
    ///   - wakesWriter: false when the caller collects the frames itself.
    ///   - onChange: called once when not all bytes were accepted, as soon as a write may succeed or fail; it must not block.
    /// - Returns: the number of accepted bytes.
    func writeWithoutBlocking(
        _ bytes: ArraySlice<UInt8>, on id: StreamID, wakesWriter: Bool, onChange: @escaping Waker
    ) throws(StreamError) -> Int {
        var acceptedCount = 0
        while acceptedCount < bytes.count {
            let rest = bytes.dropFirst(acceptedCount)
            let count = try attemptWhileOpen { state throws(StreamError) in try state.streams.write(rest, on: id) }
            acceptedCount += count
            if acceptedCount < bytes.count, register(onChange, on: id, unless: { $0.availableByteCount(on: id) > 0 }) { break }
        }
        if acceptedCount > 0, wakesWriter { wake() }
        return acceptedCount
    }

    /// Waits for bytes.
    /// - Returns: nil at the end.
    func read(_ id: StreamID, upTo limit: Int) async throws -> [UInt8]? {
        while true {
            try Task.checkCancellation()
            switch try attemptRead(id, upTo: limit) {
            case .bytes(let bytes):
                // Credit for the other end may be due.
                if hasFrames { wake() }
                return bytes
            case .end: return nil
            case .nothing: await wait(on: id) { $0.canRead(id) }
            }
        }
    }

    /// The blocking form of ``read(_:upTo:)``.
    func readBlocking(_ id: StreamID, upTo limit: Int) throws(StreamError) -> [UInt8]? {
        while true {
            switch try attemptRead(id, upTo: limit) {
            case .bytes(let bytes):
                if hasFrames { wake() }
                return bytes
            case .end: return nil
            case .nothing: block(on: id) { $0.canRead(id) }
            }
        }
    }

    /// The blocking form of ``write(_:on:)``.
    func writeBlocking(_ bytes: ArraySlice<UInt8>, on id: StreamID) throws(StreamError) {
        var rest = bytes
        while !rest.isEmpty {
            let count = try attemptWhileOpen { state throws(StreamError) in try state.streams.write(rest, on: id) }
            if count > 0 { wake() }
            rest = rest.dropFirst(count)
            if !rest.isEmpty { block(on: id) { $0.availableByteCount(on: id) > 0 } }
        }
    }

    func finish(_ id: StreamID) {
        update { try? $0.streams.finish(id) }
        wake()
    }

    /// Releases a stream that the program no longer uses. A finished one still sends its bytes; any other one is reset.
    func abandon(_ id: StreamID) {
        end(id) { $0.abandon(id) }
    }

    func reset(_ id: StreamID, because reason: StreamResetReason) {
        end(id) { $0.reset(id, reason: reason) }
    }

    private func end(_ id: StreamID, _ change: (inout ByteStreams) -> Void) {
        let removed = update { state in
            change(&state.streams)
            return (reader: state.readers.removeValue(forKey: id), waiting: state.waiting.removeValue(forKey: id))
        }
        // The waiters see that the stream is gone. The reader is released without the lock.
        withExtendedLifetime(removed) {
            for waiter in removed.waiting ?? [] { waiter() }
        }
        wake()
    }

    // MARK: Waiting

    /// Reads what is there. Bytes that arrived before the link ended can still be read.
    private func attemptRead(_ id: StreamID, upTo limit: Int) throws(StreamError) -> ByteStreams.ReadResult {
        try attempt { state throws(StreamError) in
            if state.isClosed, !state.streams.canRead(id) { throw .notOpen }
            return try state.streams.read(id, upTo: limit)
        }
    }

    /// Waits until all finished streams of programs are sent, and what was sent of all has arrived at the peer, or the link or the
    /// task has ended.
    func waitUntilFinishedStreamsHaveArrived() async {
        while !Task.isCancelled, let id = state.withLock({ $0.isClosed ? nil : $0.streams.unsentFinished.first }) {
            await wait(on: id) { !$0.unsentFinished.contains(id) }
        }
        // Not for bytes that the program sends from now on.
        guard let token = state.withLock({ $0.streams.requestConfirmation() }) else { return }
        if hasFrames { wake() }
        await confirmation.wait { [self] in state.withLock { $0.isClosed || $0.streams.isConfirmed(token) } }
    }

    /// Waits until the peer has reset a stream, or the stream, its link or the task has ended.
    /// - Returns: whether the peer has reset it.
    func waitUntilReset(_ id: StreamID) async -> Bool {
        while !Task.isCancelled, state.withLock({ !$0.isClosed && $0.streams.isOpen(id) }) { await wait(on: id) { _ in false } }
        return state.withLock { $0.streams.isReset(id) }
    }

    /// The number of programs' streams whose bytes, as far as they were written, are not all known to have arrived.
    var undeliveredCount: Int { state.withLock { $0.streams.undeliveredCount } }

    private func attemptWhileOpen<Result>(
        _ body: (inout State) throws(StreamError) -> Result
    ) throws(StreamError) -> Result {
        try attempt { state throws(StreamError) in
            if state.isClosed { throw .notOpen }
            return try body(&state)
        }
    }

    private func attempt<Result>(_ body: (inout State) throws(StreamError) -> Result) throws(StreamError) -> Result {
        let result: Swift.Result<Result, StreamError> = update { state in
            do throws(StreamError) {
                return .success(try body(&state))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Updates the streams, and resumes the waiters of their events.
    @discardableResult
    private func update<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, waiting) = state.withLock { state in
            let hadIncoming = state.onIncomingEnd != nil && state.streams.hasIncoming
            let result = body(&state)
            var waiting: [Waker] = []
            for event in state.streams.drainEvents() {
                switch event {
                case .opened(let id, let purpose, let name):
                    if !state.acceptsIncomingStreams {
                        state.streams.reset(id, reason: .refused)
                    } else {
                        switch openedContinuation.yield((id, purpose, name)) {
                        // Bounded: as the buffer of the sequence.
                        case .enqueued: state.unhandledCount += 1
                        case .dropped: state.streams.reset(id, reason: .streamLimit)
                        default: break
                        }
                    }
                case .readable(let id), .writable(let id), .finished(let id), .reset(let id, _):
                    waiting += state.waiting.removeValue(forKey: id) ?? []
                }
            }
            if hadIncoming, !state.streams.hasIncoming, let onIncomingEnd = state.onIncomingEnd {
                waiting.append(onIncomingEnd)
            }
            return (result, waiting)
        }
        for waiter in waiting { waiter() }
        return result
    }

    /// Waits for a change on a stream, unless `isReady` holds already. Returns immediately in a cancelled task.
    private func wait(on id: StreamID, until isReady: @Sendable (ByteStreams) -> Bool) async {
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isWaiting = register({ continuation.resume() }, on: id, unless: { Task.isCancelled || isReady($0) })
                if !isWaiting { continuation.resume() }
            }
        } onCancel: {
            // All waiters of the stream check again, and wait on unless they were cancelled.
            for waiter in state.withLock({ $0.waiting.removeValue(forKey: id) }) ?? [] { waiter() }
        }
    }

    /// The blocking form of ``wait(on:until:)``.
    private func block(on id: StreamID, until isReady: (ByteStreams) -> Bool) {
        let isAwake = Monitor(false)
        guard register({ isAwake.update { $0 = true } }, on: id, unless: isReady) else { return }
        isAwake.wait { $0 ? () : nil }
    }

    /// - Returns: false when there is nothing to wait for.
    private func register(_ waker: @escaping Waker, on id: StreamID, unless isReady: (ByteStreams) -> Bool) -> Bool {
        state.withLock { state in
            if state.isClosed || !state.streams.isOpen(id) || isReady(state.streams) { return false }
            state.waiting[id, default: []].append(waker)
            return true
        }
    }
}
