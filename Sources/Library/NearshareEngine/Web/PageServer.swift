internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareHTTP
package import NearshareInterfaces
internal import NearshareWeb

/// Serves a page to browsers (`docs/PROTOCOL.md`, section 15): turns what they offer into invitations, or sends to those for which
/// the program accepts a ``PageRequest``.
package final class PageServer: Sendable {
    /// An invitation that the program has not answered. It ends when the program has released it.
    struct OpenInvitation {
        weak var invitation: Invitation?
        /// Fulfilled when the browser does not wait for the user's answer any more.
        let isOver: Promise<Bool>
    }

    /// A request that the program has not answered.
    struct OpenRequest {
        let transfer: Transfer
        weak var request: PageRequest?
        /// ``PageRequest/unencryptedDownload``.
        let unencryptedDownload: Promise<Bool>
        /// Fulfilled when the browser does not wait for the user's answer any more.
        let isOver: Promise<Bool>
    }

    struct State {
        var machine: PageMachine
        var invitations: [PageMachine.OfferID: OpenInvitation] = [:]
        var uploads: [PageMachine.OfferID: PageUpload] = [:]
        var downloads: [PageMachine.OfferID: PageDownload] = [:]
        var requests: [PageMachine.OfferID: OpenRequest] = [:]
        /// ``PageRequest/unencryptedDownload`` of the downloads.
        var unencryptedDownloads: [PageMachine.OfferID: Promise<Bool>] = [:]
        /// Connections that are only told that there is no slot for them.
        var refusals = RefusedLinks()
        /// Browsers get one more response each.
        var isStopping = false
    }

    /// The time limits of a page.
    package struct Timeouts: Sendable {
        /// One request with its response; in an unencrypted download the time without progress (R5).
        package var request = Duration.seconds(60)
        /// The body of a request that is no content, however slowly it arrives (R5).
        package var body = Duration.seconds(10)
        /// The time for which a browser that waits for a change gets no response.
        package var change = Duration.seconds(20)
        /// The time in which the user answers, as that of a peer that waits beside this machine.
        package var answer = Duration.seconds(300)

        package init() {}
    }

    /// The TCP port of the page.
    package let port: UInt16
    private let secret: PageSecret
    /// Requests of browsers for what the node sends, for one reader.
    package let requests: AsyncStream<PageRequest>
    let requestContinuation: AsyncStream<PageRequest>.Continuation
    let node: Node
    /// nil for a page that gives content.
    private let invitations: AsyncQueue<Invitation>?
    /// The content that the page gives; nil for a page that takes content.
    let content: PageDownload.Content?
    let timeouts: Timeouts
    let state: Monitor<State>

    init(
        _ node: Node, _ secret: PageSecret, port: UInt16, invitations: AsyncQueue<Invitation>?,
        content: PageDownload.Content?, timeouts: Timeouts
    ) {
        (self.node, self.secret, self.port, self.invitations) = (node, secret, port, invitations)
        (self.content, self.timeouts) = (content, timeouts)
        (requests, requestContinuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumUnreadCount))
        state = Monitor(State(machine: PageMachine(secret: secret, name: node.name, share: content?.share)))
    }

    /// Limit on the contents that a page gives.
    package static let maximumItemCount = PageShare.maximumItemCount
    /// Limit on requests that the program has not read. There is at most one for each session.
    private static let maximumUnreadCount = 32

    /// The address of the page for a QR code.
    /// - Parameter host: a numeric address of this machine.
    package func url(host: String) -> String { secret.url(host: host, port: port) }

    // MARK: Connections

    /// Serves one connection until it ends, or a request takes too long.
    func serve(_ link: any StreamLink, _ slot: LinkRegistry.Slot) async throws(ThreadError) {
        let connection = PageConnection(link, clock: node.settings.clock)
        node.state.withLock { state in
            state.links.attach(
                slot, unusedSince: { _ in connection.unusedSince }, rate: { connection.transferRate(now: $0) },
                end: { link.close() })
        }
        let timeout = timeouts.request
        try await node.run(
            on: link, until: { connection.deadline(after: timeout) }, { self.serveRequests(on: connection) })
    }

    /// Prepares the response to a connection for which there is no slot.
    /// - Returns: nil when there are too many of them as well.
    func rejection(of link: any StreamLink) -> (@Sendable () async throws(ThreadError) -> Void)? {
        let source = LinkSource(link.remote)
        guard state.withLock({ $0.refusals.begin(source) }) else { return nil }
        let end = node.settings.clock() + Self.rejectionTimeout
        let deadline: @Sendable () -> MonotonicInstant = { end }
        let connection = PageConnection(link, clock: node.settings.clock)
        return { [self] () async throws(ThreadError) in
            defer { state.withLock { $0.refusals.end(source) } }
            try await node.run(on: link, until: deadline) {
                guard Self.awaitRequest(on: connection) else { return }
                Self.reject(connection, HTTPResponse(.unavailable))
            }
        }
    }

    /// Reads the head of a request: an answer before the question confuses some browsers.
    /// - Returns: false at the end of the connection.
    private static func awaitRequest(on connection: PageConnection) -> Bool {
        var reader = HTTPRequestReader()
        do {
            while try reader.nextHead() == nil {
                let count = withUnsafeTemporaryAllocation(byteCount: 1 << 12, alignment: 16) { buffer in
                    let count = connection.read(into: buffer)
                    reader.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                    return count
                }
                guard count > 0 else { return false }
            }
        } catch {}
        return true
    }

    private static let rejectionTimeout = Duration.seconds(5)

    private func serveRequests(on connection: PageConnection) {
        let link = connection.link
        let host = link.remote.host
        let authority = PageSecret.authority(host: link.localHost ?? "", port: port)
        var reader = HTTPRequestReader()
        // The response to the body that is being read: that to the first part that is rejected, or else to the last one.
        var waiting: HTTPResponse?
        while true {
            let part: HTTPRequestPart
            var head: HTTPRequest?
            do throws(HTTPStatus) {
                guard let next = try next(of: &reader, on: connection, at: authority, &head) else { return }
                part = next
            } catch {
                return Self.reject(connection, state.withLock { $0.machine.rejection(of: head, error) })
            }
            let request = part.request
            if waiting == nil {
                switch respond(to: part, from: host, on: connection) {
                case .response(let response) where part.isLast || response.status != .ok: waiting = response
                // The chunk is stored, so that the request makes progress.
                case .response: connection.touch()
                case .unencryptedDownload(let unencrypted):
                    connection.recordAuthentic()
                    return send(unencrypted, over: connection)
                }
            }
            guard part.isLast, let response = waiting.take() else { continue }
            let closes = request.closesConnection || state.withLock { $0.isStopping }
            guard connection.send(response.encoded(closes: closes)), !closes else { return link.finishWriting() }
            connection.endRequest()
            // Each of them contains a sealed record.
            if request.method == "POST", response.status == .ok { connection.recordAuthentic() }
        }
    }

    /// Writes the last response of a connection, and reads what a rejected client still sends: otherwise a reset could overtake the
    /// response (RFC 9112, section 9.6). Bounded, as the connection is, by ``Timeouts/request``.
    private static func reject(_ connection: PageConnection, _ response: HTTPResponse) {
        guard connection.send(response.encoded(closes: true)) else { return }
        connection.link.finishWriting()
        withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
            var discarded = 0
            while discarded < maximumDiscardedByteCount {
                let count = connection.read(into: buffer)
                guard count > 0 else { return }
                discarded += count
            }
        }
    }

    /// Limit on what a rejected client sends further, in bytes.
    private static let maximumDiscardedByteCount = 4 << 20

    /// Reads the next request, or the next part of its body.
    /// - Parameter head: receives the head of the request, also of one that is not admitted.
    /// - Returns: nil at the end of the connection.
    private func next(
        of reader: inout HTTPRequestReader, on connection: PageConnection, at authority: String,
        _ head: inout HTTPRequest?
    ) throws(HTTPStatus) -> HTTPRequestPart? {
        while true {
            let request = try reader.nextPart { (next) throws(HTTPStatus) in
                head = next
                let limit = try state.withLock { (state) throws(HTTPStatus) in
                    try state.machine.admit(next, at: authority)
                }
                if limit.partByteCount == nil { connection.limitBody(until: node.settings.clock() + timeouts.body) }
                return limit
            }
            if let request {
                connection.recordRequest()
                return request
            }
            let count = withUnsafeTemporaryAllocation(byteCount: 1 << 16, alignment: 16) { buffer in
                let count = connection.read(into: buffer)
                reader.append(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
                return count
            }
            guard count > 0 else { return nil }
        }
    }

    // MARK: Requests

    private enum Reply {
        case response(HTTPResponse)
        case unencryptedDownload(UnencryptedPageDownload)
    }

    private func respond(to part: HTTPRequestPart, from host: String, on connection: PageConnection) -> Reply {
        let now = node.settings.clock()
        let (answer, reaction, upload) = state.update { state -> (PageMachine.Answer, PageMachine.Reaction?, PageUpload?) in
            // A page whose session was forgotten says hello again, but not to a node that ends.
            if state.isStopping, part.request.path.hasSuffix("/hello") { return (.response(HTTPResponse(.gone)), nil, nil) }
            let (answer, reaction) = state.machine.respond(
                to: part.request, body: part.bytes, part: part.number, from: host, now: now)
            guard case .content(let id, let chunks, let isComplete)? = reaction else { return (answer, reaction, nil) }
            // With the lock held: chunks arrive on several threads, and have to stay in their order.
            let upload = state.uploads[id]
            upload?.append(chunks, isComplete: isComplete)
            return (answer, nil, upload)
        }
        upload?.waitForRoom()
        if let reaction { perform(reaction, from: host) }
        switch answer {
        case .response(let response): return .response(response)
        case .fetch(let fetch): return .response(read(fetch))
        case .unencryptedDownload(let unencrypted): return .unencryptedDownload(unencrypted)
        case .change(let session, let version):
            let deadline = now + timeouts.change
            if !state.withLock({ $0.machine.isActive(session) }) { connection.recordIdleWait() }
            let change = state.wait(untilNanoseconds: deadline.nanoseconds) { state in
                // Nothing changes any more at a node that ends.
                state.machine.change(of: session, knownVersion: version, hasTimedOut: false)
                    ?? (state.isStopping ? HTTPResponse(.gone) : nil)
            }
            let response =
                change ?? state.update { $0.machine.change(of: session, knownVersion: version, hasTimedOut: true) }
            return .response(response ?? HTTPResponse(.gone))
        }
    }

    func perform(_ reaction: PageMachine.Reaction, from host: String) {
        switch reaction {
        case .requested(let id, let code): ask(id, code, from: host)
        case .received(let id, let item, let isLast): recordReceipt(of: item, in: id, isLast: isLast)
        case .offered(let id, let offer, let code): invite(id, offer, code, from: host)
        case .cancelled(let id):
            let (open, upload) = state.update { state in
                (state.invitations.removeValue(forKey: id), state.uploads[id])
            }
            open?.isOver.fulfil(true)
            open?.invitation?.end(.cancelled(by: .remote))
            upload?.end(.cancelled(by: .remote))
            endDownload(id, TransferResult(outcome: .cancelled(by: .remote)))
        case .content: break
        }
    }

    private func invite(
        _ id: PageMachine.OfferID, _ content: PageOffer, _ code: ShortAuthenticationDigits, from host: String
    ) {
        let settings = node.settings
        guard let peer = peer(of: id, code, at: host),
            let prompt = node.promptLimiter.admit(peer, on: .link(LinkAddress(host: host, port: port)))
        else { return end(id, .notAsked) }
        let offer = content.offer
        var progress = TransferProgress(
            id: settings.freshTransferID(), direction: .incoming, total: offer.totalSize, totalEntries: offer.entryCount)
        progress.phase = .waiting
        let isOver = Promise<Bool>()
        let invitation = Invitation(
            peer: peer, offer: offer, contents: content.entries, context: [], resumeKey: settings.random(32),
            expiry: settings.clock() + timeouts.answer,
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: node.transferProgress,
            answering: Invitation.Answering(
                accept: { [weak self] transfer, sink, _, _ in
                    isOver.fulfil(true)
                    self?.accept(id, offer: content, as: transfer, into: sink)
                },
                decline: { [weak self] _ in
                    isOver.fulfil(true)
                    self?.end(id, .declined)
                }, prompt: prompt))
        invitation.setShortCode(code)
        let isWaiting = state.withLock { state in
            state.invitations = state.invitations.filter { $0.value.invitation != nil }
            guard state.machine.isWaiting(id) else { return false }
            state.invitations[id] = OpenInvitation(invitation: invitation, isOver: isOver)
            return true
        }
        // Cancelled meanwhile, on another connection.
        guard isWaiting else { return invitation.end(.cancelled(by: .remote)) }
        invitations?.enqueue(invitation)
        startTimeout(unless: isOver) { [weak self] in self?.expire(id) }
    }

    /// The browser of an offer or a request. Its name contains half of the code: several browsers may have one address.
    func peer(of id: PageMachine.OfferID, _ code: ShortAuthenticationDigits, at host: String) -> Peer? {
        DisplayName(truncating: "a browser at \(host) (\(code.digits.prefix(4)))").map { name in
            Peer(
                foreign: ForeignPeer(.web, identity: id.session.bytes), name: name,
                address: LinkAddress(host: host, port: port))
        }
    }

    /// Calls `action` when the time for the user's answer is over, or the node begins to stop; not once the question is over.
    func startTimeout(unless isOver: Promise<Bool>, _ action: @escaping @Sendable () -> Void) {
        node.start { [node, timeouts] in
            await withTimeout(timeouts.answer) {
                await firstResult(of: { _ = await node.stopping.value }, { _ = await isOver.value })
            }
            if isOver.current == nil { action() }
        }
    }

    /// Ends an invitation that the user has not answered.
    private func expire(_ id: PageMachine.OfferID) {
        guard let invitation = state.update({ $0.invitations.removeValue(forKey: id) })?.invitation else { return }
        end(id, .expired)
        invitation.end(.expired)
    }

    private func accept(_ id: PageMachine.OfferID, offer: PageOffer, as transfer: Transfer, into sink: any ResourceSink) {
        let upload = PageUpload(offer, transfer: transfer, sink: sink, clock: node.settings.clock)
        let (acceptance, isStopping) = state.update { state -> (PageMachine.Acceptance, Bool) in
            state.invitations[id] = nil
            let acceptance = state.machine.accept(id)
            if acceptance != .over { state.uploads[id] = upload }
            return (acceptance, state.isStopping)
        }
        if isStopping { upload.end(.interrupted) }
        switch acceptance {
        case .withContent: break
        case .withoutContent: upload.append([], isComplete: true)
        case .over: upload.end(.cancelled(by: .remote))
        }
        transfer.onCancel { [weak self] in
            self?.end(id, .cancelled)
            upload.end(.cancelled(by: .local))
        }
        let isStarted = node.start { [self] in
            let result: TransferResult
            do throws(ThreadError) {
                result = try await BlockingThread.run { upload.run() }
            } catch {
                result = TransferResult(outcome: .failed(.storageFailed, at: .local), detail: error.description)
            }
            // Before the transfer ends: the program may stop the node as soon as it ends.
            end(id, result.outcome == .completed ? .stored : .failed)
            transfer.end(result)
        }
        if !isStarted { transfer.end(TransferResult(outcome: .interrupted)) }
    }

    /// Ends an offer or a request for its browser. No effect on one that has ended.
    func end(_ id: PageMachine.OfferID, _ outcome: PageMachine.Outcome) {
        state.update { state in
            state.machine.end(id, outcome)
            state.uploads[id] = nil
        }
    }

    /// Ends what is running: each browser gets one more response.
    func stop() {
        let (uploads, downloads) = state.update { state in
            state.isStopping = true
            return (Array(state.uploads.values), Array(state.downloads.keys))
        }
        for upload in uploads { upload.end(.interrupted) }
        for id in downloads { endDownload(id, TransferResult(outcome: .interrupted)) }
        requestContinuation.finish()
    }
}

extension Node {
    /// Serves a page for browsers on a port of its own, until the node shuts down.
    /// - Parameters:
    ///   - listener: receives the offers of browsers as invitations.
    ///   - port: the preferred port; if another socket has it, a free one is used.
    package func servePage(
        for listener: Listener, port: UInt16, timeouts: PageServer.Timeouts = PageServer.Timeouts()
    ) throws(NodeError) -> PageServer {
        try servePage(port: port, invitations: listener.queues.invitations, content: nil, timeouts)
    }

    /// Serves a page from which browsers receive content, on a port of its own, until the node shuts down.
    /// - Parameters:
    ///   - items: at most ``PageShare/maximumItemCount`` contents of one entry each.
    ///   - rateLimit: nil for none.
    ///   - port: the preferred port; if another socket has it, a free one is used.
    package func servePage(
        sending items: [any ResourceSource], rateLimit: TransmissionLimit?, port: UInt16,
        timeouts: PageServer.Timeouts = PageServer.Timeouts()
    ) throws(NodeError) -> PageServer {
        try servePage(port: port, invitations: nil, content: PageDownload.Content(items, rateLimit: rateLimit), timeouts)
    }

    private func servePage(
        port: UInt16, invitations: AsyncQueue<Invitation>?, content: PageDownload.Content?,
        _ timeouts: PageServer.Timeouts
    ) throws(NodeError) -> PageServer {
        let secret: PageSecret
        do throws(CryptoError) {
            secret = try PageSecret(random: settings.random(PageSecret.byteCount))
        } catch {
            throw .unavailable(error.description)
        }
        let socket = try listen(preferring: port)
        let server = PageServer(
            self, secret, port: socket.port, invitations: invitations, content: content, timeouts: timeouts)
        try startAcceptingForeignLinks(from: socket, for: "the page", isPaced: false, rejecting: server.rejection) {
            (link, slot) async throws(ThreadError) in try await server.serve(link, slot)
        }
        start { [stopping] in
            _ = await stopping.value
            server.stop()
        }
        return server
    }
}
