internal import NearshareBase
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// A connection of a LocalSend device, used by its thread.
final class LocalSendConnection {
    /// The use of a connection, which another task watches.
    struct Activity: Sendable {
        /// The latest time at which a request began or ended or content arrived. While the user is asked, the time until which the
        /// answer is awaited.
        var lastUse: MonotonicInstant
        /// Whether it sends a file of a session, or waits for the user's answer.
        var isInSession = false
        /// Whether the head of a request was read, and not answered.
        var hasOpenRequest = false
        /// The session's upload, while this connection waits for files of other connections.
        var awaitedUpload: LocalSendUpload?
        /// The time until which a question to the user counts as use; nil where none is open.
        var askingUntil: MonotonicInstant?
        /// The time by which the body of a small request has to be complete; nil while none is read.
        var bodyDeadline: MonotonicInstant?
        /// The content of files, measured while more of it is awaited.
        private var progress: ProgressMeter

        /// The same time as of a question over a direct link (Q6).
        private static let questionTime = Duration.seconds(60)
        /// Longer than an ordinary request takes.
        private static let servingTime = Duration.seconds(2)

        init(since now: MonotonicInstant) {
            (lastUse, progress) = (now, ProgressMeter(now: now))
            progress.suspend(now: now)
        }

        /// The time since which the connection is not used; nil while it is.
        func unusedSince(now: MonotonicInstant) -> MonotonicInstant? {
            isInSession ? askingUntil.flatMap { $0 <= now ? $0 : nil } : lastUse
        }

        /// The bytes a second that arrive of a file, or of the one that it waits for; nil while it sends none, and while this side
        /// stores what has arrived.
        func transferRate(now: MonotonicInstant) -> Int? {
            guard isInSession, askingUntil == nil else { return nil }
            return awaitedUpload.map { $0.transferRate(now: now) } ?? progress.rate(now: now)
        }

        /// Whether other connections of its device cannot take its slot.
        func keepsSlot(now: MonotonicInstant) -> Bool {
            hasOpenRequest && (askingUntil.map { now < $0 } ?? (now - lastUse < Self.servingTime))
        }

        /// The time at which the connection is to be closed.
        func deadline(after timeout: Duration, now: MonotonicInstant) -> MonotonicInstant {
            let end = (awaitedUpload == nil ? lastUse : now) + timeout
            return min(end, bodyDeadline ?? end)
        }

        /// Measures the time until content arrives.
        mutating func awaitContent(now: MonotonicInstant) { progress.resume(now: now) }

        /// Records a use of the connection.
        /// - Parameter byteCount: content that has arrived with it.
        mutating func record(_ byteCount: Int = 0, now: MonotonicInstant) {
            (lastUse, awaitedUpload) = (now, nil)
            progress.record(byteCount, now: now)
            progress.suspend(now: now)
        }

        mutating func startQuestion(until deadline: MonotonicInstant, now: MonotonicInstant) {
            (lastUse, askingUntil) = (deadline, now + Self.questionTime)
        }
    }

    /// The end of a connection, with the status of the last response; nil for none.
    struct ConnectionEnd: Error {
        var status: HTTPStatus?
        var message = ""
    }

    let client: LocalSendMachine.Client
    let link: any StreamLink
    private let stream: any SecureLink
    private let activity: Monitor<Activity>
    private let clock: @Sendable () -> MonotonicInstant
    private var reader = HTTPRequestReader()
    /// Bytes received after the head.
    private var rest: [UInt8] = []
    /// The bytes that arrive while the user is asked; nil once their thread has ended and they were read.
    private var ahead: Monitor<ReadAhead>?

    private struct ReadAhead: Sendable {
        var bytes: [UInt8] = []
        /// Called at the end of the connection; nil once the user has answered.
        var onEnd: (@Sendable () -> Void)?
        /// Whether the thread reads, or calls `onEnd`: it ends when this is false.
        var isReading = true
        var isAtEnd = false
    }

    /// Limit on what a client sends while the user is asked; beyond it the end of the connection is not noticed.
    private static let maximumAheadByteCount = 1 << 16
    /// Bytes that are read at once, and so the largest piece of a file's content.
    static let blockByteCount = 1 << 17

    init(
        _ stream: any SecureLink, over link: any StreamLink, _ activity: Monitor<Activity>,
        clock: @escaping @Sendable () -> MonotonicInstant
    ) {
        (self.stream, self.link, self.activity, self.clock) = (stream, link, activity, clock)
        client = LocalSendMachine.Client(host: link.remote.host, fingerprint: stream.peerFingerprint)
    }

    // MARK: Requests

    /// Reads the head of the next request.
    /// - Returns: nil at the end of the connection.
    func nextRequest() throws(ConnectionEnd) -> HTTPRequest? {
        do throws(HTTPStatus) {
            while true {
                if let request = try reader.nextHead() {
                    rest = reader.removeRest()
                    activity.withLock { $0.hasOpenRequest = true }
                    touch()
                    return request
                }
                let bytes = read()
                guard !bytes.isEmpty else { return nil }
                bytes.withUnsafeBytes { reader.append($0) }
            }
        } catch {
            throw ConnectionEnd(status: error)
        }
    }

    /// Reads the body of a small request.
    /// - Parameters:
    ///   - limit: in bytes.
    ///   - timeout: the time in which it has to be complete, plus one second for each 16 KiB, however slowly it arrives.
    ///   - recordSize: called with the size that the body is about to have.
    func readBody(
        of request: HTTPRequest, upTo limit: Int, within timeout: Duration,
        recordSize: (Int) throws(ConnectionEnd) -> Void
    ) throws(ConnectionEnd) -> [UInt8] {
        if case .length(let count) = request.framing, count > UInt64(limit) { throw ConnectionEnd(status: .contentTooLarge) }
        var deadline = clock() + timeout
        if case .length(let count) = request.framing { deadline = deadline + .seconds(Int(clamping: count >> 14)) }
        activity.withLock { $0.bodyDeadline = deadline }
        defer { activity.withLock { $0.bodyDeadline = nil } }
        var body: [UInt8] = []
        try readBody(of: request, isContent: false) { (content) throws(ConnectionEnd) in
            guard content.count <= limit - body.count else { throw ConnectionEnd(status: .contentTooLarge) }
            try recordSize(body.count + content.count)
            body += content
        }
        return body
    }

    /// Reads the body of a request in pieces.
    /// - Parameter isContent: whether received bytes extend the timeout.
    func readBody(
        of request: HTTPRequest, isContent: Bool = true, _ receive: (UnsafeRawBufferPointer) throws(ConnectionEnd) -> Void
    ) throws(ConnectionEnd) {
        var decoder = HTTPBodyDecoder(request.framing)
        if request.expectsContinue, rest.isEmpty, !decoder.isComplete { try write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        var rest = self.rest
        self.rest = []
        var failure: ConnectionEnd?
        while !decoder.isComplete {
            if rest.isEmpty {
                if isContent { activity.withLock { $0.awaitContent(now: clock()) } }
                rest = read()
            }
            guard !rest.isEmpty else { throw ConnectionEnd() }
            if isContent { touch(rest.count) }
            var usedCount = 0
            rest.withUnsafeBytes { bytes in
                do throws(HTTPStatus) {
                    while usedCount < bytes.count, !decoder.isComplete, failure == nil {
                        let part = UnsafeRawBufferPointer(rebasing: bytes[usedCount...])
                        let (count, content) = try decoder.decode(part)
                        usedCount += count
                        guard !content.isEmpty else { continue }
                        do throws(ConnectionEnd) {
                            try receive(UnsafeRawBufferPointer(rebasing: part[content]))
                        } catch {
                            failure = error
                        }
                    }
                } catch {
                    failure = ConnectionEnd(status: error)
                }
            }
            if let failure { throw failure }
            rest.removeFirst(usedCount)
        }
        rest.withUnsafeBytes { reader.append($0) }
    }

    /// - Returns: no bytes at the end.
    private func read() -> [UInt8] {
        guard let ahead else { return Self.read(from: stream) }
        let (bytes, isReading, isAtEnd) = ahead.wait { ahead -> ([UInt8], Bool, Bool)? in
            guard !ahead.bytes.isEmpty || !ahead.isReading else { return nil }
            defer { ahead.bytes = [] }
            return (ahead.bytes, ahead.isReading, ahead.isAtEnd)
        }
        if !isReading { self.ahead = nil }
        return bytes.isEmpty && !isAtEnd ? Self.read(from: stream) : bytes
    }

    private static func read(from stream: any SecureLink) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: blockByteCount) { buffer, count in
            count = (try? stream.read(into: UnsafeMutableRawBufferPointer(buffer))) ?? 0
        }
    }

    /// Watches for the end of the connection until the response is written.
    /// - Parameter onEnd: called when the peer closes the connection.
    func watch(onEnd: @escaping @Sendable () -> Void) {
        var bytes: [UInt8] = []
        if let ahead {
            let (isReading, isAtEnd) = ahead.withLock { ahead in
                ahead.onEnd = onEnd
                bytes = ahead.bytes
                return (ahead.isReading, ahead.isAtEnd)
            }
            if isAtEnd { return onEnd() }
            if isReading { return }
        }
        let ahead = Monitor(ReadAhead(bytes: bytes, onEnd: onEnd))
        let thread = try? BlockingThread.start { [stream] in Self.readAhead(from: stream, ahead) }
        if thread != nil { self.ahead = ahead }
    }

    private static func readAhead(from stream: any SecureLink, _ ahead: Monitor<ReadAhead>) {
        var isReading = true
        while isReading {
            let bytes = read(from: stream)
            let onEnd = ahead.update { ahead -> (@Sendable () -> Void)? in
                ahead.bytes += bytes
                ahead.isAtEnd = bytes.isEmpty
                let onEnd = ahead.isAtEnd ? ahead.onEnd : nil
                isReading = !ahead.isAtEnd && ahead.onEnd != nil && ahead.bytes.count < maximumAheadByteCount
                ahead.isReading = isReading || onEnd != nil
                return onEnd
            }
            guard let onEnd else { continue }
            onEnd()
            ahead.update { $0.isReading = false }
        }
    }

    /// Waits for the end of the thread that reads ahead; to be called after the link was closed.
    func finish() {
        while ahead != nil { _ = read() }
    }

    // MARK: Responses

    func write(_ response: HTTPResponse, closes: Bool) throws(ConnectionEnd) {
        ahead?.withLock { $0.onEnd = nil }
        try write(response.encoded(closes: closes))
        activity.withLock { ($0.isInSession, $0.hasOpenRequest, $0.askingUntil) = (false, false, nil) }
        touch()
    }

    private func write(_ bytes: [UInt8]) throws(ConnectionEnd) {
        let isWritten = bytes.withUnsafeBytes { (try? stream.write($0)) != nil }
        guard isWritten else { throw ConnectionEnd() }
    }

    /// Ends the connection, and reads what a rejected client still sends: otherwise a reset could overtake the response (RFC 9112,
    /// section 9.6).
    /// - Parameter limit: in bytes.
    func close(discarding limit: Int = 0) {
        stream.finishWriting()
        var discarded = 0
        while discarded < limit {
            let count = read().count
            guard count > 0 else { return }
            discarded += count
        }
    }

    // MARK: Activity

    private func touch(_ byteCount: Int = 0) {
        activity.withLock { $0.record(byteCount, now: clock()) }
    }

    func enterSession() { activity.withLock { $0.isInSession = true } }

    /// Suspends the timeout while other files of the session are received.
    func suspendTimeout(for upload: LocalSendUpload) { activity.withLock { $0.awaitedUpload = upload } }

    /// Lets the timeout run again, for a file whose turn has come.
    func resumeTimeout() { touch() }

    /// Extends the timeout for the user's answer.
    func extendTimeout(until deadline: MonotonicInstant) {
        activity.withLock { $0.startQuestion(until: deadline, now: clock()) }
    }
}
