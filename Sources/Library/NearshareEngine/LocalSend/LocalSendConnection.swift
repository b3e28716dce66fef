internal import NearshareBase
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// A connection of a LocalSend device, used by its thread.
final class LocalSendConnection {
    /// The use of a connection, which another task watches.
    struct Activity: Sendable {
        /// The time at which the present request began, the last one ended, or content arrived.
        var since: MonotonicInstant
        /// Whether it sends a file of a session, or waits for the user's answer.
        var isInSession = false
        /// Whether the head of a request was read, and not answered.
        var isServing = false
        /// Whether it waits for other files of its session.
        var isWaiting = false

        /// The time since which the connection is not used; nil while it is.
        var disuse: MonotonicInstant? { isInSession ? nil : since }
    }

    /// The end of a connection, with the status of the last response; nil for none.
    struct End: Error {
        var status: HTTPStatus?
        var message = ""
    }

    let client: LocalSendMachine.Client
    let link: any StreamLink
    private let stream: any SecureLink
    private let activity: Monitor<Activity>
    private let clock: @Sendable () -> MonotonicInstant
    private var reader = HTTPRequestReader()
    /// Bytes behind the head.
    private var rest: [UInt8] = []
    /// A read that began while the user was asked.
    private var pendingRead: Monitor<PendingRead>?

    private enum PendingRead: Sendable {
        case running
        case ended([UInt8])
    }

    static let blockByteCount = 1 << 16

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
    func nextRequest() throws(End) -> HTTPRequest? {
        do throws(HTTPStatus) {
            while true {
                if let request = try reader.nextHead() {
                    rest = reader.removeRest()
                    activity.withLock { $0.isServing = true }
                    touch()
                    return request
                }
                let bytes = read()
                guard !bytes.isEmpty else { return nil }
                bytes.withUnsafeBytes { reader.append($0) }
            }
        } catch {
            throw End(status: error)
        }
    }

    /// Reads the body of a request.
    /// - Parameter limit: in bytes.
    func readBody(of request: HTTPRequest, upTo limit: Int) throws(End) -> [UInt8] {
        if case .length(let count) = request.framing, count > UInt64(limit) { throw End(status: .contentTooLarge) }
        var body: [UInt8] = []
        try readBody(of: request, isContent: false) { (content) throws(End) in
            guard content.count <= limit - body.count else { throw End(status: .contentTooLarge) }
            body += content
        }
        return body
    }

    /// Reads the body of a request in pieces.
    /// - Parameter isContent: whether it may take any time, as long as bytes arrive.
    func readBody(
        of request: HTTPRequest, isContent: Bool = true, _ receive: (UnsafeRawBufferPointer) throws(End) -> Void
    ) throws(End) {
        var decoder = HTTPBodyDecoder(request.framing)
        if request.expectsContinue, rest.isEmpty, !decoder.isComplete { try write(Array("HTTP/1.1 100 Continue\r\n\r\n".utf8)) }
        var rest = self.rest
        self.rest = []
        var failure: End?
        while !decoder.isComplete {
            if rest.isEmpty { rest = read() }
            guard !rest.isEmpty else { throw End() }
            if isContent { touch() }
            var usedCount = 0
            rest.withUnsafeBytes { bytes in
                do throws(HTTPStatus) {
                    while usedCount < bytes.count, !decoder.isComplete, failure == nil {
                        let part = UnsafeRawBufferPointer(rebasing: bytes[usedCount...])
                        let (count, content) = try decoder.decode(part)
                        usedCount += count
                        guard !content.isEmpty else { continue }
                        do throws(End) {
                            try receive(UnsafeRawBufferPointer(rebasing: part[content]))
                        } catch {
                            failure = error
                        }
                    }
                } catch {
                    failure = End(status: error)
                }
            }
            if let failure { throw failure }
            rest.removeFirst(usedCount)
        }
        rest.withUnsafeBytes { reader.append($0) }
    }

    /// - Returns: no bytes at the end.
    private func read() -> [UInt8] {
        if let pendingRead {
            self.pendingRead = nil
            return pendingRead.wait { if case .ended(let bytes) = $0 { bytes } else { nil } }
        }
        return Self.read(from: stream)
    }

    private static func read(from stream: any SecureLink) -> [UInt8] {
        [UInt8](unsafeUninitializedCapacity: blockByteCount) { buffer, count in
            count = (try? stream.read(into: UnsafeMutableRawBufferPointer(buffer))) ?? 0
        }
    }

    /// Watches for the end of the connection while the user is asked.
    /// - Parameter onEnd: called when the peer closes the connection.
    func watch(onEnd: @escaping @Sendable () -> Void) {
        guard pendingRead == nil else { return }
        let pending = Monitor(PendingRead.running)
        let thread = try? BlockingThread.start { [stream] in
            let bytes = Self.read(from: stream)
            pending.update { $0 = .ended(bytes) }
            if bytes.isEmpty { onEnd() }
        }
        if thread != nil { pendingRead = pending }
    }

    /// Waits for a read that still runs. The link is closed.
    func finish() {
        if pendingRead != nil { _ = read() }
    }

    // MARK: Responses

    func write(_ response: HTTPResponse, closes: Bool) throws(End) {
        try write(response.encoded(closes: closes))
        activity.withLock { ($0.isInSession, $0.isServing) = (false, false) }
        touch()
    }

    private func write(_ bytes: [UInt8]) throws(End) {
        let isWritten = bytes.withUnsafeBytes { (try? stream.write($0)) != nil }
        guard isWritten else { throw End() }
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

    private func touch() { activity.withLock { ($0.since, $0.isWaiting) = (clock(), false) } }

    func enterSession() { activity.withLock { $0.isInSession = true } }

    /// Waits for other files, for as long as these take.
    func waitForTurn() { activity.withLock { $0.isWaiting = true } }

    /// Gives the user time to answer.
    func wait(until deadline: MonotonicInstant) { activity.withLock { $0.since = deadline } }
}
