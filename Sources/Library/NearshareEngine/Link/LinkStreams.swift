internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// The byte streams of one link, between the programs that read and write them and the threads that move frames.
final class LinkStreams: Sendable {
    private struct State {
        var streams: ByteStreams
        /// Tasks and threads that wait for an event of a stream.
        var waiting: [StreamID: [Waker]] = [:]
        /// Streams that are read on the thread that reads the link, as bytes arrive.
        var readers: [StreamID: Reader] = [:]
        var supply: Supply?
        /// The program accepts streams from the peer; until then they are refused (A1).
        var isWelcoming = false
        var isClosed = false
    }

    /// Receives the bytes of a stream; nil at its end.
    typealias Take = @Sendable ([UInt8]?) throws(MalformedInput) -> Void

    private final class Reader: Sendable {
        let take: Take
        /// Held while bytes are delivered, so that they stay in order.
        let turn = Mutex(())

        init(_ take: @escaping Take) {
            self.take = take
        }
    }

    /// Writes due frames without blocking. Called by the thread that collects frames, one at a time.
    typealias Supply = @Sendable () -> Void

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
    private let isSupplyDue = Atomic(false)
    /// Schedules a turn of the link's writer thread.
    private let wake: @Sendable () -> Void

    init(role: HandshakeRole, wake: @escaping @Sendable () -> Void) {
        state = Mutex(State(streams: ByteStreams(role: role)))
        self.wake = wake
        (opened, openedContinuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumOpenedCount))
    }

    // MARK: For the link's threads

    var hasFrames: Bool { isSupplyDue.load(ordering: .acquiring) || state.withLock { $0.streams.hasFrame } }

    /// Returns encoded frames that are due, at most one batch.
    func takeFrames() -> [[UInt8]] {
        if isSupplyDue.exchange(false, ordering: .acquiringAndReleasing) { state.withLock { $0.supply }?() }
        return change { state in
            var frames: [[UInt8]] = []
            var byteCount = 0
            while byteCount < Self.batchByteCount, let frame = state.streams.nextFrame() {
                let encoded = frame.encoded
                frames.append(encoded)
                byteCount += encoded.count
            }
            return frames
        }
    }

    func receive(_ frame: StreamFrame) throws(MalformedInput) {
        let failure: MalformedInput? = change { state in
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

    /// Delivers a stream's bytes to `take` on the thread that reads the link, from now on. The closure must not block.
    func read(_ id: StreamID, _ take: @escaping Take) throws(MalformedInput) {
        state.withLock { $0.readers[id] = Reader(take) }
        try drain(id)
    }

    private func drain(_ id: StreamID) throws(MalformedInput) {
        guard let reader = state.withLock({ $0.readers[id] }) else { return }
        let failure: MalformedInput? = reader.turn.withLock { _ in
            do throws(MalformedInput) {
                while true {
                    switch try? attempt({ state throws(StreamError) in try state.streams.read(id, upTo: .max) }) {
                    case .bytes(let bytes)?: try reader.take(bytes)
                    case .nothing?: return nil
                    case .end?, nil:
                        state.withLock { _ = $0.readers.removeValue(forKey: id) }
                        try reader.take(nil)
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
            defer { (state.waiting, state.readers, state.supply) = ([:], [:], nil) }
            return (state.waiting.values.flatMap { $0 }, (state.readers, state.supply))
        }
        withExtendedLifetime(held) {
            for waiter in waiting { waiter() }
        }
        openedContinuation.finish()
    }

    /// Sets the closure that is called after ``callForSupply(wakesWriter:)``, on the thread that collects frames. Requests made
    /// at about the same time are sent together, and wake the thread once.
    func setSupply(_ supply: @escaping Supply) {
        state.withLock { state in
            if !state.isClosed { state.supply = supply }
        }
    }

    /// Requests a call of the supply closure.
    /// - Parameter wakesWriter: false when the caller collects the frames itself.
    func callForSupply(wakesWriter: Bool = true) {
        if !isSupplyDue.exchange(true, ordering: .acquiringAndReleasing), wakesWriter { wake() }
    }

    /// Accepts streams from the peer from now on: both ends are in one session.
    func welcome() {
        state.withLock { $0.isWelcoming = true }
    }

    /// Whether the link belongs to a session, see ``welcome()``.
    var isWelcoming: Bool { state.withLock { $0.isWelcoming } }

    /// The number of open streams.
    var count: Int { state.withLock { $0.streams.count } }

    // MARK: For programs

    func open(_ purpose: StreamPurpose, _ name: StreamName) throws(StreamError) -> StreamID {
        let id = try attempt { state throws(StreamError) in try state.streams.open(purpose, name) }
        wake()
        return id
    }

    /// Writes all bytes; waits while the stream's window is full.
    func write(_ bytes: [UInt8], on id: StreamID) async throws {
        var rest = bytes[...]
        while !rest.isEmpty {
            try Task.checkCancellation()
            let count = try attempt { state throws(StreamError) in try state.streams.write(rest, on: id) }
            if count > 0 { wake() }
            rest = rest.dropFirst(count)
            if !rest.isEmpty { await wait(on: id) { $0.room(on: id) > 0 } }
        }
    }

    /// Writes as many bytes as the window allows.
    /// - Parameters:
    ///   - isFlushed: the caller sends the frames, so the writer thread is not woken.
    ///   - onRoom: called once there is room for more, when not all bytes were accepted; it must not block.
    /// - Returns: the number of accepted bytes.
    func writeWithoutBlocking(
        _ bytes: ArraySlice<UInt8>, on id: StreamID, isFlushed: Bool, onRoom: @escaping Waker
    ) throws(StreamError) -> Int {
        var taken = 0
        while taken < bytes.count {
            let rest = bytes.dropFirst(taken)
            let count = try attempt { state throws(StreamError) in try state.streams.write(rest, on: id) }
            taken += count
            if taken < bytes.count, register(onRoom, on: id, unless: { $0.room(on: id) > 0 }) { break }
        }
        if taken > 0, !isFlushed { wake() }
        return taken
    }

    /// Waits for bytes.
    /// - Returns: nil at the end.
    func read(_ id: StreamID, upTo limit: Int) async throws -> [UInt8]? {
        while true {
            try Task.checkCancellation()
            switch try attempt({ state throws(StreamError) in try state.streams.read(id, upTo: limit) }) {
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
            switch try attempt({ state throws(StreamError) in try state.streams.read(id, upTo: limit) }) {
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
            let count = try attempt { state throws(StreamError) in try state.streams.write(rest, on: id) }
            if count > 0 { wake() }
            rest = rest.dropFirst(count)
            if !rest.isEmpty { block(on: id) { $0.room(on: id) > 0 } }
        }
    }

    func finish(_ id: StreamID) {
        change { try? $0.streams.finish(id) }
        wake()
    }

    /// Resets a stream that the program has released.
    func abandon(_ id: StreamID) {
        change { $0.streams.abandon(id) }
        wake()
    }

    func reset(_ id: StreamID, because reason: StreamResetReason) {
        let waiting = change { state in
            state.streams.reset(id, reason: reason)
            // Resumes waiters, which then see that the stream is gone.
            return state.waiting.removeValue(forKey: id) ?? []
        }
        for waiter in waiting { waiter() }
        wake()
    }

    // MARK: Waiting

    private func attempt<Result>(_ body: (inout State) throws(StreamError) -> Result) throws(StreamError) -> Result {
        let result: Swift.Result<Result, StreamError> = change { state in
            if state.isClosed { return .failure(.notOpen) }
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
    private func change<Result>(_ body: (inout State) -> Result) -> Result {
        let (result, waiting) = state.withLock { state in
            let result = body(&state)
            var waiting: [Waker] = []
            for event in state.streams.drainEvents() {
                switch event {
                case .opened(let id, let purpose, let name):
                    if !state.isWelcoming {
                        state.streams.reset(id, reason: .refused)
                    } else if case .dropped = openedContinuation.yield((id, purpose, name)) {
                        state.streams.reset(id, reason: .streamLimit)
                    }
                case .readable(let id), .writable(let id), .reset(let id, _):
                    waiting += state.waiting.removeValue(forKey: id) ?? []
                }
            }
            return (result, waiting)
        }
        for waiter in waiting { waiter() }
        return result
    }

    /// Waits for a change on a stream, unless `isReady` holds already. A cancelled task goes on at once.
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
