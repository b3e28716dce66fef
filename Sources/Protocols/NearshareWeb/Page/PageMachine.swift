package import NearshareBase
package import NearshareCrypto
package import NearshareHTTP

/// The page and the sessions of all its browsers (`docs/PROTOCOL.md`, section 15): requests in, responses and reactions out.
package struct PageMachine: Sendable {
    /// The direction of the content. The raw values are those of the wire format.
    enum Mode: UInt8, Sendable {
        case nodeReceives = 0
        case nodeSends = 1
    }

    /// An offer or request of a browser, in this process.
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
        /// The browser asks for what the node sends.
        case requested(OfferID, shortCode: ShortAuthenticationDigits)
        /// The browser has received all of an item.
        /// - Parameter isLast: whether it has received all items now.
        case received(OfferID, item: UInt32, isLast: Bool)
    }

    /// The answer to a request.
    package enum Answer: Sendable, Hashable {
        case response(HTTPResponse)
        /// The state of a session, once it differs from the version that the browser knows.
        case change(PageSessionID, knownVersion: UInt32)
        /// A chunk of an item, which is read without delaying other requests.
        case fetch(PageFetch)
        /// An item, or a part of it, without encryption: a browser cannot hold it in memory to decrypt it.
        case unencryptedDownload(UnencryptedPageDownload)
    }

    /// The outcome that ends an offer at the local side.
    package enum Outcome: Sendable {
        case stored, declined, cancelled, failed, expired
        /// The user is not asked, because there were too many questions.
        case notAsked
    }

    /// The result of accepting an offer or a request.
    package enum Acceptance: Sendable, Hashable {
        /// Content is to be transferred.
        case withContent
        /// The offer has no content, so that it is complete.
        case withoutContent
        /// The offer or request was over already.
        case over
    }

    /// Limit on sessions. Only browsers that have the page's key begin one; the one that was silent longest is forgotten.
    static let maximumSessionCount = 32
    /// Limit on the sessions of browsers at one address, so that those at others find room.
    static let maximumSessionCountPerHost = 16
    /// Limit on the sessions that browsers at one address begin in a minute: each costs a key agreement (R9).
    static let maximumNewSessionsPerMinuteAndHost = 30
    /// Limit on the sessions that all browsers begin in a minute. It also bounds the memory of the limit.
    static let maximumNewSessionsPerMinute = 120
    private static let newSessionInterval = Duration.seconds(60)

    private enum Resource {
        case page
        case hello
        case message(PageSessionID)
        case state(PageSessionID, known: UInt32)
        /// - Parameter first: the index of the first chunk in the body.
        case chunks(PageSessionID, offer: UInt32, first: UInt32)
        case fetch(PageSessionID, item: UInt32, index: UInt32)
        /// - Parameter path: ``UnencryptedPagePaths`` has issued it.
        case unencryptedDownload(path: String)
    }

    private let secret: PageSecret
    private let name: DisplayName
    private let page: HTTPResponse
    /// The items that the page gives to browsers; nil for a page that takes theirs.
    private let share: PageShare?
    private let mode: Mode
    private var unencryptedPaths = UnencryptedPagePaths()
    private var sessions: [PageSessionID: PageSession] = [:]
    /// The number of the session that began last, from which its nonce is derived.
    private var lastSessionNumber: UInt64 = 0
    /// The addresses and times of the sessions that began within ``newSessionInterval``.
    private var recentSessionStarts: [(host: String, time: MonotonicInstant)] = []

    /// - Parameters:
    ///   - name: the name of this machine that browsers show.
    ///   - share: the items that the page gives to browsers; nil for a page that takes theirs.
    package init(secret: PageSecret, name: DisplayName, share: PageShare? = nil) {
        self.secret = secret
        self.name = name
        self.share = share
        mode = share == nil ? .nodeReceives : .nodeSends
        page = PageContent.response
    }

    // MARK: Requests

    /// Checks the head of a request, before its body is read.
    /// - Parameter authority: the address and port at which the client has reached this machine.
    /// - Returns: the permitted size of the body, and that of its parts.
    /// - Throws: the status of the response, after which the connection is closed.
    package func admit(
        _ request: HTTPRequest, at authority: String
    ) throws(HTTPStatus) -> HTTPBodyLimit {
        // A name that leads here through the DNS of an attacker is not the address of this machine (N9).
        guard request.host.isEqualIgnoringCase(to: authority) else { throw .misdirected }
        // Pages of other origins can send requests, though not read the responses (N10).
        if let origin = request.origin, !origin.isEqualIgnoringCase(to: "http://\(authority)") { throw .forbidden }
        guard request.fetchSite.map({ ["same-origin", "none"].contains($0) }) ?? true else { throw .forbidden }
        guard let resource = resource(of: request) else { throw .notFound }
        guard request.method == Self.method(of: resource) else { throw .methodNotAllowed }
        return switch resource {
        case .page, .state, .unencryptedDownload: HTTPBodyLimit(byteCount: 0)
        case .fetch: HTTPBodyLimit(byteCount: ChaCha20Poly1305.tagByteCount)
        case .hello: HTTPBodyLimit(byteCount: PageHello.byteCount)
        case .message: HTTPBodyLimit(byteCount: PageMessage.maximumByteCount + 4 + ChaCha20Poly1305.tagByteCount)
        case .chunks:
            HTTPBodyLimit(
                byteCount: ChunkWindow.maximumRequestCount * Self.sealedChunkByteCount, partByteCount: Self.sealedChunkByteCount
            )
        }
    }

    private static let sealedChunkByteCount = ChunkWindow.chunkByteCount + ChaCha20Poly1305.tagByteCount

    private static func method(of resource: Resource) -> String {
        switch resource {
        case .page, .state, .unencryptedDownload: "GET"
        case .fetch, .hello, .message, .chunks: "POST"
        }
    }

    /// The response to a request that was not admitted.
    /// - Parameter request: nil when no head was read.
    package func rejection(of request: HTTPRequest?, _ status: HTTPStatus) -> HTTPResponse {
        var response = HTTPResponse(status)
        if status == .methodNotAllowed, let resource = request.flatMap({ resource(of: $0) }) {
            response.fields = ["Allow: \(Self.method(of: resource))"]
        }
        return response
    }

    /// Answers a request that was admitted, or one part of its body.
    /// - Parameter part: the number of the part, each of which has a response; the client gets the first one that is a refusal, or
    ///   else the last one.
    package mutating func respond(
        to request: HTTPRequest, body: [UInt8], part: Int = 0, from host: String, now: MonotonicInstant
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
                let mode = mode
                let message = try update(id) { (session) throws(HTTPStatus) -> PageMessage? in
                    try session.receiveMessage(body, mode, now: now)
                }
                let consequence = message.flatMap { reaction(to: $0, in: id) }
                return (try state(of: id), consequence)
            case .chunks(let id, let offer, let first):
                let (index, isBeyond) = first.addingReportingOverflow(UInt32(clamping: part))
                guard !isBeyond else { throw .conflict }
                let content = try update(id) { (session) throws(HTTPStatus) in
                    try session.receiveChunk(body, ofContent: offer, at: index, now: now)
                }
                let isComplete = sessions[id]?.phase == .storing
                let number = sessions[id]?.firstMessageNumber ?? offer
                let reaction = Reaction.content(OfferID(session: id, number: number), content, isComplete: isComplete)
                return (try state(of: id), content.isEmpty ? nil : reaction)
            case .fetch(let id, let item, let index):
                return (try fetch(body, from: host, id, item: item, index: index, now: now), nil)
            case .unencryptedDownload(let path):
                return (.unencryptedDownload(try unencryptedDownload(at: path, request, from: host)), nil)
            }
        } catch {
            return (.response(HTTPResponse(error)), nil)
        }
    }

    /// The response to a browser that waits for a change.
    /// - Parameter hasTimedOut: whether the response has the state also where it has not changed.
    /// - Returns: nil while the state is the one that the browser knows.
    package mutating func change(of id: PageSessionID, knownVersion: UInt32, hasTimedOut: Bool) -> HTTPResponse? {
        guard let session = sessions[id] else { return HTTPResponse(.gone) }
        guard hasTimedOut || session.version != knownVersion else { return nil }
        return sealedState(of: id) ?? HTTPResponse(.gone)
    }

    private mutating func hello(_ body: [UInt8], from host: String, now: MonotonicInstant) throws(HTTPStatus) -> Answer {
        let hello = try PageHello(body, secret)
        // A repeated hello, also one that an eavesdropper repeats, goes on with the session.
        let keys: PageKeys
        if let known = sessions.values.first(where: { $0.keys.browser == hello.browser }) {
            keys = known.keys
        } else {
            keys = try beginSession(with: hello.browser, from: host, now: now)
        }
        guard let state = sealedState(of: keys.id) else { throw .gone }
        return .response(HTTPResponse(.ok, body: keys.nonce + hello.sealedNodeKey(secret) + state.body))
    }

    private mutating func beginSession(
        with browser: AgreementPublicKey, from host: String, now: MonotonicInstant
    ) throws(HTTPStatus) -> PageKeys {
        recentSessionStarts.removeAll { now - $0.time >= Self.newSessionInterval }
        guard recentSessionStarts.count < Self.maximumNewSessionsPerMinute,
            recentSessionStarts.count(where: { $0.host == host }) < Self.maximumNewSessionsPerMinuteAndHost
        else { throw .tooManyRequests }
        let sessionsOfHost = sessions.filter { $0.value.host == host }
        var replaced: PageSessionID?
        if sessionsOfHost.count >= Self.maximumSessionCountPerHost || sessions.count >= Self.maximumSessionCount {
            let candidates = sessionsOfHost.count >= Self.maximumSessionCountPerHost ? sessionsOfHost : sessions
            let idle = candidates.filter { !$0.value.isActive }.min { $0.value.lastUse < $1.value.lastUse }
            guard let idle else { throw .unavailable }
            replaced = idle.key
        }
        // Also where it fails: the limit is one on key agreements.
        recentSessionStarts.append((host, now))
        lastSessionNumber += 1
        guard let keys = try? PageKeys(secret, browser: browser, nonce: secret.sessionNonce(number: lastSessionNumber)) else {
            throw .badRequest
        }
        if let replaced { sessions[replaced] = nil }
        sessions[keys.id] = PageSession(keys: keys, host: host, now: now)
        return keys
    }

    private mutating func fetch(
        _ body: [UInt8], from host: String, _ id: PageSessionID, item: UInt32, index: UInt32, now: MonotonicInstant
    ) throws(HTTPStatus) -> Answer {
        guard let share else { throw .notFound }
        let (fetch, received) = try update(id) { (session) throws(HTTPStatus) -> (PageFetch, Set<UInt32>) in
            try session.receiveFetch(body, of: item, at: index, now: now)
            let fetch = PageFetch(
                offer: OfferID(session: id, number: session.firstMessageNumber), item: item, index: index, keys: session.keys,
                number: session.nextRecordNumber())
            return (fetch, session.received)
        }
        guard item == 0 else {
            guard share[item] != nil else { throw .conflict }
            return .fetch(fetch)
        }
        guard index == 0 else { throw .conflict }
        var paths: [UInt32: String] = [:]
        for (number, item) in zip(share.numbers, share.items) where item.size ?? 0 > PageShare.maximumInMemoryByteCount {
            paths[number] = unencryptedPaths.path(of: number, in: fetch.offer, for: host, secret)
        }
        return .response(fetch.response(share.encoded(received: received, unencryptedPaths: paths), isLast: true))
    }

    private mutating func unencryptedDownload(
        at path: String, _ request: HTTPRequest, from host: String
    ) throws(HTTPStatus) -> UnencryptedPageDownload {
        let download = try unencryptedPaths.admit(path, from: host)
        guard let share, let item = share[download.item], let size = item.size else { throw .gone }
        return try UnencryptedPageDownload(path: path, download: download, item: item, size: size, request: request)
    }

    /// Records that the response to a fetch has the content.
    /// - Parameter isLast: whether the item ends with this chunk.
    package mutating func recordFetch(_ fetch: PageFetch, isLast: Bool) {
        sessions[fetch.offer.session]?
            .recordFetch(fetch.index, of: fetch.item, in: fetch.offer.number, isLast: isLast)
    }

    /// Records that a browser has received bytes of an unencrypted download.
    package mutating func recordUnencryptedBytes(_ bytes: Range<UInt64>, of unencrypted: UnencryptedPageDownload) -> Reaction? {
        guard let download = unencryptedPaths.record(bytes, over: unencrypted.path),
            download.receivedByteCount >= unencrypted.size
        else {
            return nil
        }
        return markReceived(download.item, in: download.offer)
    }

    private mutating func markReceived(_ item: UInt32, in offer: OfferID) -> Reaction? {
        guard let share, share[item] != nil, sessions[offer.session]?.firstMessageNumber == offer.number else { return nil }
        unencryptedPaths.remove(offer, item: item)
        return switch sessions[offer.session]?.markReceived(item, of: share.items.count) {
        case .received?: .received(offer, item: item, isLast: false)
        case .lastReceived?: .received(offer, item: item, isLast: true)
        case .repeated?, nil: nil
        }
    }

    private mutating func reaction(to message: PageMessage, in id: PageSessionID) -> Reaction? {
        guard let session = sessions[id] else { return nil }
        let offer = OfferID(session: id, number: session.firstMessageNumber)
        switch message {
        case .offer(let content): return .offered(offer, content, shortCode: session.keys.shortCode)
        case .cancel:
            unencryptedPaths.remove(offer)
            return .cancelled(offer)
        case .request: return .requested(offer, shortCode: session.keys.shortCode)
        case .received(let item): return markReceived(item, in: offer)
        }
    }

    // MARK: From the local node

    /// Whether an offer or a request waits for the user's answer.
    package func isWaiting(_ offer: OfferID) -> Bool {
        guard let session = sessions[offer.session] else { return false }
        return session.firstMessageNumber == offer.number && session.phase == .waiting
    }

    /// Whether an offer or a request of a session is under way.
    package func isActive(_ id: PageSessionID) -> Bool { sessions[id]?.isActive ?? false }

    /// Accepts an offer or a request.
    package mutating func accept(_ offer: OfferID) -> Acceptance {
        guard sessions[offer.session]?.accept(offer.number, mode) == true else { return .over }
        return sessions[offer.session]?.phase == .storing ? .withoutContent : .withContent
    }

    /// Ends an offer or a request.
    package mutating func end(_ offer: OfferID, _ outcome: Outcome) {
        let phase: PageSession.Phase =
            switch outcome {
            case .stored: .stored
            case .declined: .declined
            case .cancelled: .cancelled
            case .failed: .failed
            case .expired: .expired
            case .notAsked: .notAsked
            }
        sessions[offer.session]?.end(offer.number, phase)
        unencryptedPaths.remove(offer)
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
        (sessions[id]?.sealedState(named: name, mode)).map { HTTPResponse(.ok, body: $0) }
    }

    /// The resource of a path: `/PATH`, `/PATH/hello`, or `/PATH/<session>/` and `m`, `s/<version>`,
    /// `u/<offer>/<chunk>` or `d/<item>/<chunk>`; or `/PATH/f/` and the path of an unencrypted download.
    private func resource(of request: HTTPRequest) -> Resource? {
        let parts = request.path.dropFirst().split(atScalar: "/", omittingEmpty: false)
        guard let path = parts.first, constantTimeEqual(Array(path.uppercased().utf8), Array(secret.path.utf8)) else {
            return nil
        }
        if parts.count == 1 { return .page }
        if parts.count == 2, parts[1] == "hello" { return .hello }
        if parts.count == 3, parts[1] == "f" { return share == nil ? nil : .unencryptedDownload(path: parts[2].uppercased()) }
        guard parts.count >= 3, let bytes = Hex.decode(parts[1]), bytes.count == 8 else { return nil }
        let id = PageSessionID(bytes: bytes)
        switch (parts[2], parts.count) {
        case ("m", 3): return .message(id)
        case ("s", 4): return Self.number(parts[3]).map { .state(id, known: $0) }
        case ("u", 5):
            guard let offer = Self.number(parts[3]), let index = Self.number(parts[4]) else { return nil }
            return .chunks(id, offer: offer, first: index)
        case ("d", 5):
            guard let item = Self.number(parts[3]), let index = Self.number(parts[4]) else { return nil }
            return .fetch(id, item: item, index: index)
        default: return nil
        }
    }

    private static func number(_ text: String) -> UInt32? {
        guard (1...10).contains(text.utf8.count), text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // Safe: nil for a number that does not fit.
        return UInt32(text)
    }
}
