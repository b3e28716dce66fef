package import NearshareBase
package import NearshareCrypto

/// The page and the sessions of all its browsers (`docs/PROTOCOL.md`, section 15): requests in, responses and reactions out.
package struct PageMachine: Sendable {
    /// An offer of a browser, in this process.
    package struct OfferID: Sendable, Hashable {
        package let session: PageSessionID
        package let number: UInt32
    }

    /// The consequence of a request.
    package enum Reaction: Sendable, Hashable {
        case offered(OfferID, PageOffer, shortCode: ShortAuthenticationDigits)
        /// The browser has withdrawn or cancelled the offer.
        case cancelled(OfferID)
        /// Content in order.
        /// - Parameter isComplete: whether it ends with this.
        case content(OfferID, [[UInt8]], isComplete: Bool)
    }

    /// The answer to a request.
    package enum Answer: Sendable, Hashable {
        case response(HTTPResponse)
        /// The state of a session, once it differs from the version that the browser knows.
        case change(PageSessionID, knownVersion: UInt32)
    }

    /// The outcome that ends an offer at the local side.
    package enum End: Sendable {
        case stored, declined, cancelled, failed, expired
    }

    /// Limit on sessions. Only browsers that have the page's key begin one; the one that was silent longest is forgotten.
    static let maximumSessionCount = 32
    /// Limit on sessions that were forgotten; beyond it no new one begins.
    static let maximumEndedCount = 4096
    /// Limit on wrong paths of one address in a minute. Further ones get no response.
    static let maximumWrongPathCount = 3
    /// Limit on the addresses whose wrong paths are counted; the wrong paths of others get no response.
    static let maximumGuesserCount = 256
    private static let wrongPathInterval = Duration.seconds(60)

    private enum Resource {
        case page
        case hello
        case message(PageSessionID)
        case state(PageSessionID, known: UInt32)
        case chunk(PageSessionID, offer: UInt32, index: UInt32)
    }

    private let secret: PageSecret
    private let name: DisplayName
    private let page: HTTPResponse
    private var sessions: [PageSessionID: PageSession] = [:]
    /// The sessions that were forgotten. None begins again: its keys have sealed records.
    private var ended: Set<PageSessionID> = []
    private var wrongPaths: [String: RateWindow] = [:]

    /// - Parameter name: the name of this machine that browsers show.
    package init(secret: PageSecret, name: DisplayName) {
        self.secret = secret
        self.name = name
        page = PageContent.response
    }

    // MARK: Requests

    /// Checks the head of a request, before its body is read.
    /// - Parameters:
    ///   - host: the numeric address of the client.
    ///   - authority: the address and port at which the client has reached this machine.
    /// - Returns: the permitted size of the body.
    /// - Throws: the status of the response, after which the connection is closed; ``HTTPStatus/tooManyRequests`` gets none.
    package mutating func admit(
        _ request: HTTPRequest, from host: String, at authority: String, now: MonotonicInstant
    ) throws(HTTPStatus) -> Int {
        // A name that leads here through the DNS of an attacker is not the address of this machine (N9).
        guard request.host.lowercased() == authority.lowercased() else { throw .misdirected }
        // Pages of other origins can send requests, though not read the responses (N10).
        if let origin = request.origin, origin.lowercased() != "http://\(authority.lowercased())" { throw .forbidden }
        guard request.fetchSite.map({ ["same-origin", "none"].contains($0) }) ?? true else { throw .forbidden }
        guard let resource = resource(of: request) else {
            if request.path == "/favicon.ico" { throw .notFound }
            throw isGuessing(host, now: now) ? .tooManyRequests : .notFound
        }
        let (method, limit) =
            switch resource {
            case .page, .state: ("GET", 0)
            case .hello: ("POST", PageKeys.nonceByteCount + ChaCha20Poly1305.tagByteCount)
            case .message: ("POST", PageMessage.maximumByteCount + 4 + ChaCha20Poly1305.tagByteCount)
            case .chunk: ("POST", ChunkWindow.chunkByteCount + ChaCha20Poly1305.tagByteCount)
            }
        guard request.method == method else { throw .methodNotAllowed }
        return limit
    }

    /// Answers a request that was admitted.
    package mutating func respond(
        to request: HTTPRequest, body: [UInt8], from host: String, now: MonotonicInstant
    ) -> (answer: Answer, reaction: Reaction?) {
        do throws(HTTPStatus) {
            switch resource(of: request) {
            case nil: throw .notFound
            case .page: return (.response(page), nil)
            case .hello: return (try hello(body, from: host, now: now), nil)
            case .state(let id, let known):
                guard sessions[id] != nil else { throw .gone }
                return (.change(id, knownVersion: known), nil)
            case .message(let id):
                let message = try update(id) { (session) throws(HTTPStatus) in try session.receiveMessage(body, now: now) }
                return (try state(of: id), message.flatMap { reaction(to: $0, in: id) })
            case .chunk(let id, let offer, let index):
                let content = try update(id) { (session) throws(HTTPStatus) in
                    try session.receiveChunk(body, of: offer, at: index, now: now)
                }
                let isComplete = sessions[id]?.phase == .storing
                let reaction = Reaction.content(OfferID(session: id, number: offer), content, isComplete: isComplete)
                return (try state(of: id), content.isEmpty ? nil : reaction)
            }
        } catch {
            return (.response(HTTPResponse(error)), nil)
        }
    }

    /// The response to a browser that waits for a change.
    /// - Parameter isTimeOver: responds with the state as it is.
    /// - Returns: nil while the state is the one that the browser knows.
    package mutating func change(of id: PageSessionID, knownVersion: UInt32, isTimeOver: Bool) -> HTTPResponse? {
        guard let session = sessions[id] else { return HTTPResponse(.gone) }
        guard isTimeOver || session.version != knownVersion else { return nil }
        return sealedState(of: id) ?? HTTPResponse(.gone)
    }

    private mutating func hello(_ body: [UInt8], from host: String, now: MonotonicInstant) throws(HTTPStatus) -> Answer {
        guard body.count == PageKeys.nonceByteCount + ChaCha20Poly1305.tagByteCount else { throw .badRequest }
        let keys = PageKeys(secret, nonce: Array(body.prefix(PageKeys.nonceByteCount)))
        guard (try? keys.open(body.dropFirst(PageKeys.nonceByteCount), .hello, 0, 0)) != nil else { throw .forbidden }
        // A repeated hello, also one of a listener, changes nothing.
        guard !ended.contains(keys.id) else { throw .gone }
        if sessions[keys.id] == nil {
            if sessions.count >= Self.maximumSessionCount {
                guard ended.count < Self.maximumEndedCount,
                    let idle = sessions.filter({ !$0.value.isBusy }).min(by: { $0.value.lastUse < $1.value.lastUse })
                else { throw .unavailable }
                sessions[idle.key] = nil
                ended.insert(idle.key)
            }
            sessions[keys.id] = PageSession(keys: keys, host: host, now: now)
        }
        return try state(of: keys.id)
    }

    private func reaction(to message: PageMessage, in id: PageSessionID) -> Reaction? {
        guard let session = sessions[id] else { return nil }
        let offer = OfferID(session: id, number: session.offerNumber)
        switch message {
        case .offer(let content): return .offered(offer, content, shortCode: session.keys.shortCode)
        case .cancel: return .cancelled(offer)
        }
    }

    // MARK: From the local node

    /// Accepts an offer.
    /// - Returns: nil when it is over already; otherwise whether it has no content.
    package mutating func accept(_ offer: OfferID) -> Bool? {
        guard sessions[offer.session]?.accept(offer.number) == true else { return nil }
        return sessions[offer.session]?.phase == .storing
    }

    /// Ends an offer.
    package mutating func end(_ offer: OfferID, _ end: End) {
        let phase: PageSession.Phase =
            switch end {
            case .stored: .stored
            case .declined: .declined
            case .cancelled: .cancelled
            case .failed: .failed
            case .expired: .expired
            }
        sessions[offer.session]?.end(offer.number, phase)
    }

    /// The offers whose content is awaited, and whose browsers have sent nothing for a time.
    package func silentOffers(for duration: Duration, now: MonotonicInstant) -> [OfferID] {
        sessions.filter { $0.value.phase == .receiving && now - $0.value.lastUse >= duration }
            .map { OfferID(session: $0.key, number: $0.value.offerNumber) }
    }

    // MARK: Parts

    private mutating func update<Result>(
        _ id: PageSessionID, _ body: (inout PageSession) throws(HTTPStatus) -> Result
    ) throws(HTTPStatus) -> Result {
        guard var session = sessions[id] else { throw .gone }
        // A rejected message uses its number up.
        defer { sessions[id] = session }
        return try body(&session)
    }

    private mutating func state(of id: PageSessionID) throws(HTTPStatus) -> Answer {
        guard let response = sealedState(of: id) else { throw .gone }
        return .response(response)
    }

    private mutating func sealedState(of id: PageSessionID) -> HTTPResponse? {
        (sessions[id]?.sealedState(named: name)).map { HTTPResponse(.ok, body: $0) }
    }

    /// The resource of a path: `/PATH`, `/PATH/hello`, or `/PATH/<session>/` and `m`, `s/<version>` or `u/<offer>/<chunk>`.
    private func resource(of request: HTTPRequest) -> Resource? {
        let parts = request.path.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map(String.init)
        guard let path = parts.first, constantTimeEqual(Array(path.uppercased().utf8), Array(secret.path.utf8)) else {
            return nil
        }
        if parts.count == 1 { return .page }
        if parts.count == 2, parts[1] == "hello" { return .hello }
        guard parts.count >= 3, let bytes = Hex.decode(parts[1]), bytes.count == 8 else { return nil }
        let id = PageSessionID(bytes: bytes)
        switch (parts[2], parts.count) {
        case ("m", 3): return .message(id)
        case ("s", 4): return Self.number(parts[3]).map { .state(id, known: $0) }
        case ("u", 5):
            guard let offer = Self.number(parts[3]), let index = Self.number(parts[4]) else { return nil }
            return .chunk(id, offer: offer, index: index)
        default: return nil
        }
    }

    private static func number(_ text: String) -> UInt32? {
        guard (1...10).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        return UInt32(text)
    }

    /// Counts a wrong path.
    private mutating func isGuessing(_ host: String, now: MonotonicInstant) -> Bool {
        if wrongPaths[host] == nil, wrongPaths.count >= Self.maximumGuesserCount {
            wrongPaths = wrongPaths.filter { !$0.value.isEmpty(within: Self.wrongPathInterval, now: now) }
            guard wrongPaths.count < Self.maximumGuesserCount else { return true }
        }
        return !wrongPaths[host, default: RateWindow()].admit(
            atMost: Self.maximumWrongPathCount, within: Self.wrongPathInterval, now: now)
    }
}
