internal import Logging
internal import NearshareBase
internal import NearshareCrypto
internal import NearshareDirect
internal import NearshareHTTP
internal import NearshareInterfaces
internal import NearshareLocalSend

/// This node as a LocalSend device (version 2.1 of the protocol): turns what others offer into invitations, announces this node to
/// them, and learns which devices are nearby.
package final class LocalSendServer: Sendable {
    private enum Answer: Sendable {
        case accepted(LocalSendUpload)
        case declined(DeclineReason)
        /// The sender has cancelled, or the time is over.
        case ended
    }

    private struct OpenSession {
        weak var invitation: Invitation?
        var answer: Answer?
        var upload: LocalSendUpload?
    }

    /// A session of a device to which this node sends.
    private struct OutgoingSession {
        let target: LocalSendTarget
        let onCancel: @Sendable () -> Void
    }

    private struct State {
        var machine: LocalSendMachine
        var sessions: [LocalSendMachine.SessionID: OpenSession] = [:]
        var outgoing: [String: OutgoingSession] = [:]
        /// Rate of `info` and `register`: an app that looks around sends a few.
        var lookups = SourceRateLimiter(atMost: 30, ofAll: 300, within: .seconds(10))
        var bodies = PartialBodies()
        /// Connections that are told that there is no slot for them.
        var rejectionCount = 0
        var isStopping = false
        var isInGroup = false
    }

    /// The time limits of connections.
    package struct Timeouts: Sendable {
        /// The handshake and one request; in an upload the time without content (R5).
        package var request = Duration.seconds(60)
        /// The body of a request that is no file, however slowly it arrives (R5).
        package var body = Duration.seconds(10)
        /// The time in which the user answers, as that of a peer that waits beside this machine.
        package var answer = Duration.seconds(300)
        /// The time for which a sender may send no file of a session, before it ends.
        package var silence = Duration.seconds(120)
        /// The handshake and the one response of a connection without a slot.
        package var rejection = Duration.seconds(5)

        package init() {}
    }

    /// The TCP port of the server.
    package let port: UInt16
    /// SHA-256 of this node's certificate.
    package var fingerprint: [UInt8] { security.fingerprint }
    /// This node as other devices see it.
    let device: LocalSendDevice
    let node: Node
    let security: any LinkSecurity
    /// The devices that were heard.
    let devices: LocalSendDevices
    /// nil for a node that receives nothing.
    private let invitations: AsyncQueue<Invitation>?
    private let timeouts: Timeouts
    private let state: Monitor<State>

    /// The time in which a device learns that a session has ended.
    private static let cancelTimeout = Duration.seconds(3)
    /// Limit on connections that get a response although there is no slot for them; others are closed. A handshake costs a
    /// signature.
    static let maximumRejectionCount = 4
    /// Limit on what a rejected client sends further, in bytes.
    private static let maximumDiscardedByteCount = 4 << 20
    /// Limit on the sources that are reported for their wrong PINs.
    private static let maximumReportedSourceCount = 10

    init(
        _ node: Node, _ security: any LinkSecurity, port: UInt16, pin: String?,
        invitations: AsyncQueue<Invitation>?, timeouts: Timeouts
    ) {
        (self.node, self.security, self.port, self.timeouts) = (node, security, port, timeouts)
        self.invitations = invitations
        device = LocalSendDevice(name: node.name, fingerprint: security.fingerprint, port: port)
        state = Monitor(State(machine: LocalSendMachine(device: device, pin: pin)))
        devices = LocalSendDevices(own: security.fingerprint, clock: node.settings.clock)
    }

    /// Whether this node announces itself, and hears announcements.
    package var isInGroup: Bool { state.withLock(\.isInGroup) }

    func enterGroup() { state.withLock { $0.isInGroup = true } }

    // MARK: Connections

    /// Serves one connection until it ends, or a request takes too long.
    func serve(_ link: any StreamLink, _ slot: LinkRegistry.Slot) async throws(ThreadError) {
        let activity = Monitor(LocalSendConnection.Activity(since: node.settings.clock()))
        node.state.withLock { state in
            state.links.attach(
                slot, unusedSince: { now in activity.withLock { $0.unusedSince(now: now) } },
                rate: { now in activity.withLock { $0.transferRate(now: now) } },
                isServing: { now in activity.withLock { $0.keepsSlot(now: now) } }, end: { link.close() })
        }
        let (timeout, clock) = (timeouts.request, node.settings.clock)
        try await node.run(
            on: link, until: { activity.withLock { $0.deadline(after: timeout, now: clock()) } },
            { self.serveRequests(on: link, activity) })
    }

    /// Prepares the response to a connection for which there is no slot.
    /// - Returns: nil when there are too many of them as well.
    func rejection(of link: any StreamLink) -> (@Sendable () async throws(ThreadError) -> Void)? {
        let isAllowed = state.withLock { state in
            guard state.rejectionCount < Self.maximumRejectionCount else { return false }
            state.rejectionCount += 1
            return true
        }
        guard isAllowed else { return nil }
        let clock = node.settings.clock
        let end = clock() + timeouts.rejection
        let deadline: @Sendable () -> MonotonicInstant = { end }
        return { [self] () async throws(ThreadError) in
            defer { state.withLock { $0.rejectionCount -= 1 } }
            try await node.run(on: link, until: deadline) { [self] in
                guard let stream = try? security.accept(link, now: node.settings.wallClock()) else { return }
                let activity = Monitor(LocalSendConnection.Activity(since: clock()))
                let connection = LocalSendConnection(stream, over: link, activity, clock: clock)
                // An answer before the question confuses some clients.
                guard (try? connection.nextRequest()) != nil else { return }
                try? connection.write(
                    LocalSendMachine.failure(.unavailable, "Too many connections, of this address or in all"), closes: true)
                connection.close(discarding: Self.maximumDiscardedByteCount)
            }
        }
    }

    private func serveRequests(on link: any StreamLink, _ activity: Monitor<LocalSendConnection.Activity>) {
        let stream: any SecureLink
        do throws(LinkError) {
            stream = try security.accept(link, now: node.settings.wallClock())
        } catch {
            node.settings.log.debug("LocalSend: \(error)")
            // Each costs a signature (R9).
            node.recordFailedHandshake(of: link.remote.host)
            return
        }
        node.recordHandshake(of: link.remote.host, isKnown: false)
        let connection = LocalSendConnection(stream, over: link, activity, clock: node.settings.clock)
        do throws(LocalSendConnection.ConnectionEnd) {
            while let request = try connection.nextRequest() {
                let response = try respond(to: request, on: connection)
                let closes = request.closesConnection || state.withLock { $0.isStopping }
                try connection.write(response, closes: closes)
                if closes { break }
            }
            connection.close()
        } catch {
            if let status = error.status {
                try? connection.write(LocalSendMachine.failure(status, error.message), closes: true)
                connection.close(discarding: Self.maximumDiscardedByteCount)
            }
        }
        link.close()
        connection.finish()
    }

    // MARK: Requests

    private func respond(
        to request: HTTPRequest, on connection: LocalSendConnection
    ) throws(LocalSendConnection.ConnectionEnd) -> HTTPResponse {
        let route: LocalSendRoute
        do throws(HTTPStatus) {
            // Only pages send it; LocalSend devices are no pages (N10).
            guard request.origin == nil else { throw .forbidden }
            route = try LocalSendRoute(request)
        } catch {
            throw LocalSendConnection.ConnectionEnd(status: error)
        }
        switch route {
        case .info, .register:
            let (now, address) = (node.settings.clock(), LinkAddress(host: connection.client.host, port: 0))
            guard state.withLock({ $0.lookups.admit(address, now: now) }) else {
                throw LocalSendConnection.ConnectionEnd(status: .tooManyRequests, message: "Too many requests")
            }
        case .prepareUpload, .upload, .cancel: break
        }
        switch route {
        case .info:
            _ = try readBody(of: request, on: connection)
            return state.withLock { $0.machine.info }
        case .register:
            let body = try readBody(of: request, on: connection)
            guard let device = try? LocalSendDevice(decoding: body) else {
                return LocalSendMachine.failure(.badRequest, "Request body malformed")
            }
            // A certificate that was shown is the device's; a claim of another one is dropped, as in the app.
            if connection.client.fingerprint.map({ device.claims($0) }) ?? true {
                devices.receive(device, from: connection.client.host)
            }
            return state.withLock { $0.machine.info }
        case .prepareUpload(let pin):
            return try prepare(
                try readBody(of: request, upTo: LocalSendOffer.maximumByteCount, on: connection), pin: pin, on: connection)
        case .upload(let session, let file, let token):
            return try upload(request, session: session, file: file, token: token, on: connection)
        case .cancel(let session):
            _ = try readBody(of: request, on: connection)
            do throws(HTTPStatus) {
                let id = try state.withLock { (state) throws(HTTPStatus) in
                    try state.machine.cancelled(session, by: connection.client)
                }
                if let id { cancel(id) } else if let session { cancelOutgoing(session, by: connection.client) }
                return HTTPResponse(.ok)
            } catch {
                return LocalSendMachine.failure(error, "Invalid session")
            }
        }
    }

    private func readBody(
        of request: HTTPRequest, upTo limit: Int = LocalSendDevice.maximumByteCount, on connection: LocalSendConnection
    ) throws(LocalSendConnection.ConnectionEnd) -> [UInt8] {
        let link = connection.link
        defer { state.withLock { $0.bodies.remove(link) } }
        return try connection.readBody(of: request, upTo: limit, within: timeouts.body) {
            (size) throws(LocalSendConnection.ConnectionEnd) in
            let closed = state.withLock { $0.bodies.record(size, on: link, now: node.settings.clock()) }
            for other in closed where other !== link { other.close() }
            guard closed.contains(where: { $0 === link }) else { return }
            throw LocalSendConnection.ConnectionEnd(status: .unavailable, message: "Too many incomplete requests")
        }
    }

    // MARK: Offers

    /// - Parameter body: consumed, so that it does not stay in memory while the user is asked (F10).
    private func prepare(
        _ body: consuming [UInt8], pin: String?, on connection: LocalSendConnection
    ) throws(LocalSendConnection.ConnectionEnd) -> HTTPResponse {
        let client = connection.client
        guard let invitations else { return LocalSendMachine.failure(.forbidden, Self.message(.acceptsNothing)) }
        let id: LocalSendMachine.SessionID
        let offer: LocalSendOffer
        do throws(HTTPStatus) {
            try check(pin, of: client)
            guard let decoded = try? LocalSendOffer(decoding: body) else { throw .badRequest }
            offer = decoded
            let isKnown = trustStatus(of: client, named: offer.device.name).isKnown
            let random = node.settings.random(LocalSendMachine.randomByteCount)
            id = try state.withLock { (state) throws(HTTPStatus) in
                guard !state.isStopping else { throw .conflict }
                return try state.machine.begin(offer, from: client, isKnown: isKnown, random: random)
            }
        } catch {
            let message =
                switch error {
                case .unauthorized: pin == nil ? "PIN required" : "Invalid PIN"
                case .tooManyRequests: "Too many requests"
                case .conflict: "Blocked by another session"
                default: "Request body malformed"
                }
            return LocalSendMachine.failure(error, message)
        }
        connection.enterSession()
        guard invite(id, offer, from: connection, invitations) else {
            end(id)
            return LocalSendMachine.failure(.tooManyRequests, "Too many requests")
        }
        let answer = waitForAnswer(to: id, on: connection)
        switch answer {
        case .ended: throw LocalSendConnection.ConnectionEnd(status: .forbidden, message: "The request has ended")
        case .declined(let reason):
            end(id)
            return reason == .busy
                ? LocalSendMachine.failure(.conflict, "Blocked by another session")
                : LocalSendMachine.failure(.forbidden, Self.message(reason))
        case .accepted(let upload):
            if let text = offer.text { return store(text, upload) }
            let selection = upload.part?.selection
            let response = state.withLock { state in
                state.machine.accept(
                    id, where: { number in selection.map { offer.isSelected(number, in: $0) } ?? true },
                    random: node.settings.random)
            }
            guard let response else {
                upload.end(.cancelled(by: .remote))
                throw LocalSendConnection.ConnectionEnd()
            }
            return response
        }
    }

    private func check(_ pin: String?, of client: LocalSendMachine.Client) throws(HTTPStatus) {
        let host = client.host
        let network = LinkAddress(host: host, port: 0).sharedNetwork
        do throws(HTTPStatus) {
            try state.withLock { (state) throws(HTTPStatus) in try state.machine.check(pin: pin, from: host, in: network) }
        } catch {
            // Said once of an address, and not of all addresses of a flood.
            let count = state.withLock { $0.machine.rejectedSourceCount(with: host) }
            if error == .unauthorized, pin != nil, let count, count <= Self.maximumReportedSourceCount {
                node.settings.log.warning(
                    "\(host) has given three wrong PINs for LocalSend, and is rejected until this command ends")
            }
            throw error
        }
    }

    private static func message(_ reason: DeclineReason) -> String {
        switch reason {
        case .tooLarge: "The files are too large"
        case .noSpace: "Not enough disk space"
        case .singleFileOnly: "Only a single file is accepted"
        default: "File request declined by recipient"
        }
    }

    private func store(_ text: [UInt8], _ upload: LocalSendUpload) -> HTTPResponse {
        let end = upload.store(0, from: nil) { (receive) throws(LocalSendConnection.ConnectionEnd) in
            var failure: LocalSendConnection.ConnectionEnd?
            text.withUnsafeBytes { bytes in
                do throws(LocalSendConnection.ConnectionEnd) { try receive(bytes) } catch { failure = error }
            }
            if let failure { throw failure }
        }
        guard end == .stored, upload.finish() else { return LocalSendMachine.failure(.internalError, "Could not store") }
        return HTTPResponse(.noContent)
    }

    private static func foreignPeer(_ client: LocalSendMachine.Client) -> ForeignPeer {
        ForeignPeer(
            .localSend, identity: client.fingerprint ?? Array("address \(client.host)".utf8), certificate: client.fingerprint)
    }

    /// The trust in a device. One without a certificate could be any: it has neither a record nor the name of one.
    private func trustStatus(of client: LocalSendMachine.Client, named name: DisplayName) -> TrustStatus {
        client.fingerprint == nil ? .new : node.settings.deviceTrustStatus(Self.foreignPeer(client).fingerprint, name)
    }

    /// Shows the user an offer.
    /// - Returns: false when too many were shown.
    private func invite(
        _ id: LocalSendMachine.SessionID, _ content: LocalSendOffer, from connection: LocalSendConnection,
        _ invitations: AsyncQueue<Invitation>
    ) -> Bool {
        let settings = node.settings
        let client = connection.client
        let address = LinkAddress(host: client.host, port: content.device.port)
        let peer = Peer(
            foreign: Self.foreignPeer(client), name: content.device.name,
            trustStatus: trustStatus(of: client, named: content.device.name), address: address)
        guard let prompt = node.promptLimiter.admit(peer, on: .link(address)) else { return false }
        var progress = TransferProgress(
            id: settings.freshTransferID(), direction: .incoming, total: content.offer.totalSize,
            totalEntries: EntryCounter(of: content.offer, listed: content.contents).total)
        progress.phase = .waiting
        let expiry = settings.clock() + timeouts.answer
        let invitation = Invitation(
            peer: peer, offer: content.offer, contents: content.contents,
            features: content.contents.count > 1 ? .sendsParts : [], context: [],
            resumeKey: Self.resumeKey(of: content, from: client) ?? settings.random(32), expiry: expiry,
            transfer: Transfer(progress: progress, clock: settings.clock), transfers: node.transferProgress,
            answering: Invitation.Answering(
                accept: { [weak self] transfer, sink, part, _ in
                    self?.accept(id, offer: content, part: part, from: client, as: transfer, into: sink)
                },
                decline: { [weak self] reason in self?.answer(id, .declined(reason)) }, prompt: prompt))
        invitation.finishWithoutShortCode()
        state.withLock { $0.sessions[id] = OpenSession(invitation: invitation) }
        connection.extendTimeout(until: expiry)
        invitations.enqueue(invitation)
        return true
    }

    /// Recognises an offer that the device makes again after an interruption, so that the user's answer still counts; nil for a
    /// device that proves nothing.
    private static func resumeKey(of offer: LocalSendOffer, from client: LocalSendMachine.Client) -> [UInt8]? {
        client.fingerprint.map { SHA256Hasher.digest($0 + offer.identity) }
    }

    /// Waits for the user's answer, as long as the sender does.
    private func waitForAnswer(to id: LocalSendMachine.SessionID, on connection: LocalSendConnection) -> Answer {
        // The connection may end once it has the answer.
        connection.watch { [weak self] in
            guard let self, state.withLock({ $0.sessions[id].map { $0.answer == nil } ?? false }) else { return }
            cancel(id)
        }
        let deadline = node.settings.clock() + timeouts.answer
        let answer = state.wait(untilNanoseconds: deadline.nanoseconds) { state -> Answer? in
            guard let session = state.sessions[id] else { return .ended }
            return session.answer ?? (state.isStopping ? .ended : nil)
        }
        if let answer {
            guard case .ended = answer else { return answer }
        }
        let invitation = state.withLock { $0.sessions[id]?.invitation }
        end(id)
        invitation?.end(.expired)
        return .ended
    }

    private func answer(_ id: LocalSendMachine.SessionID, _ answer: Answer) {
        state.update { state in
            if state.sessions[id]?.answer == nil { state.sessions[id]?.answer = answer }
        }
    }

    private func accept(
        _ id: LocalSendMachine.SessionID, offer: LocalSendOffer, part: OfferPart?, from client: LocalSendMachine.Client,
        as transfer: Transfer, into sink: any ResourceSink
    ) {
        let upload = LocalSendUpload(offer, part: part, transfer: transfer, sink: sink, clock: node.settings.clock)
        transfer.onCancel { upload.end(.cancelled(by: .local)) }
        transfer.onCut { upload.end(.interrupted) }
        let isStarted = node.start { [self] in
            let result = await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    guard await upload.awaitSilence(of: self.timeouts.silence) else { return }
                    // The sender has gone: what is complete stays.
                    do throws(ThreadError) {
                        try await BlockingThread.run { _ = self.conclude(id, upload) }
                    } catch {
                        upload.end(.interrupted, detail: error.description)
                    }
                }
                let result = await upload.result.value
                group.cancelAll()
                return result ?? TransferResult(outcome: .interrupted)
            }
            if !result.isStored { try? await BlockingThread.run { upload.discard() } }
            end(id)
            transfer.end(result)
            guard !result.isStored, result.outcome != .cancelled(by: .remote), offer.device.isSecure else { return }
            await sendCancel(
                of: id.text, to: LinkAddress(host: client.host, port: offer.device.port), expecting: client.fingerprint)
        }
        guard isStarted else {
            end(id)
            return transfer.end(TransferResult(outcome: .interrupted))
        }
        let isOpen = state.update { state in
            guard state.sessions[id] != nil, !state.isStopping else { return false }
            state.sessions[id]?.upload = upload
            state.sessions[id]?.answer = .accepted(upload)
            return true
        }
        if !isOpen { upload.end(node.stopping.current != nil ? .interrupted : .cancelled(by: .remote)) }
    }

    /// Ends a session that its sender has cancelled.
    private func cancel(_ id: LocalSendMachine.SessionID) {
        let session = state.update { state in
            state.machine.end(id)
            return state.sessions.removeValue(forKey: id)
        }
        session?.invitation?.end(.cancelled(by: .remote))
        session?.upload?.end(.cancelled(by: .remote))
    }

    /// Ends a session. No effect on one that has ended.
    private func end(_ id: LocalSendMachine.SessionID) {
        state.update { state in
            state.machine.end(id)
            state.sessions[id] = nil
        }
    }

    // MARK: Files

    private func upload(
        _ request: HTTPRequest, session: String, file: String, token: String, on connection: LocalSendConnection
    ) throws(LocalSendConnection.ConnectionEnd) -> HTTPResponse {
        let accepted = try? state.withLock { (state) throws(HTTPStatus) in
            let (id, number) = try state.machine.beginUpload(
                session: session, file: file, token: token, from: connection.client)
            return (id, number, state.sessions[id]?.upload)
        }
        guard case (let id, let number, let upload?)? = accepted else {
            throw LocalSendConnection.ConnectionEnd(status: .forbidden, message: "Invalid token or IP address")
        }
        connection.enterSession()
        connection.suspendTimeout(for: upload)
        let end = upload.store(number, from: connection.link) { (receive) throws(LocalSendConnection.ConnectionEnd) in
            connection.resumeTimeout()
            try connection.readBody(of: request, receive)
        }
        switch end {
        case .failed: throw LocalSendConnection.ConnectionEnd(status: .internalError, message: "The transfer has failed")
        case .broken:
            if state.withLock({ $0.machine.failUpload(id, number: number, .broken) }) { _ = conclude(id, upload) }
            throw LocalSendConnection.ConnectionEnd(status: .internalError, message: "The file has not arrived whole")
        case .mismatch:
            if state.withLock({ $0.machine.failUpload(id, number: number, .mismatch) }) {
                _ = conclude(
                    id, upload,
                    orFail: TransferResult(
                        outcome: .failed(.storageFailed, at: .local), detail: "the content differs from its checksum"))
            }
            return LocalSendMachine.failure(.unprocessableContent, "Checksum mismatch")
        case .stored:
            let isOver = state.withLock { $0.machine.endUpload(id, number: number) }
            guard !isOver || conclude(id, upload) else {
                throw LocalSendConnection.ConnectionEnd(status: .internalError, message: "The files could not be stored")
            }
            return HTTPResponse(.ok)
        }
    }

    /// Ends a session in which no file is awaited any more. Blocks.
    /// - Parameter failure: the outcome when no file is stored; nil for an interruption.
    /// - Returns: whether the files were stored that have arrived.
    private func conclude(
        _ id: LocalSendMachine.SessionID, _ upload: LocalSendUpload, orFail failure: TransferResult? = nil
    ) -> Bool {
        let (all, missing) = state.withLock { state in
            defer { state.machine.end(id) }
            return state.machine.accepted(id)
        }
        return upload.finish(missing: missing, acceptedCount: all.count, orFail: failure)
    }

    // MARK: Sending

    /// Tells a device that a session has ended. A failure is no loss: the device notices that no file comes, or that none is
    /// accepted.
    func sendCancel(of session: String, to address: LinkAddress, expecting certificate: [UInt8]?) async {
        let deadline = node.settings.clock() + Self.cancelTimeout
        // Also while the node stops, which is why most sessions end here.
        let connected = await withTimeout(Self.cancelTimeout) { [transport = node.settings.transport] in
            try? await transport.openLink(to: address, timeout: Self.cancelTimeout)
        }
        guard case let link?? = connected else { return }
        let end: @Sendable () -> MonotonicInstant = { deadline }
        do throws(ThreadError) {
            try await node.run(on: link, until: end) { [security, now = node.settings.wallClock()] in
                guard
                    let connection = try? LocalSendClientConnection(
                        over: link, security, expecting: certificate, limit: LocalSendDevice.maximumByteCount, now: now)
                else { return }
                _ = try? connection.respond(to: LocalSendRequest.cancel(session: session, to: connection.authority))
                connection.finishWriting()
            }
        } catch {
            node.settings.log.debug("LocalSend: \(address) does not learn the end of its session: \(error)")
        }
    }

    /// Sets the action for a cancel of a session at the device that receives it.
    func follow(_ session: String, of target: LocalSendTarget, onCancel: @escaping @Sendable () -> Void) {
        state.withLock { $0.outgoing[session] = OutgoingSession(target: target, onCancel: onCancel) }
    }

    func unfollow(_ session: String) { state.withLock { $0.outgoing[session] = nil } }

    /// Ends a session that its receiver has cancelled: the device at that address, with that certificate if it shows one.
    private func cancelOutgoing(_ session: String, by client: LocalSendMachine.Client) {
        guard let outgoing = state.withLock({ $0.outgoing[session] }), outgoing.target.address.host == client.host,
            client.fingerprint == nil || client.fingerprint == outgoing.target.foreign.certificate
        else { return }
        outgoing.onCancel()
    }

    /// Ends what is running.
    func stop() {
        devices.finish()
        let uploads = state.update { state in
            state.isStopping = true
            return state.sessions.values.compactMap(\.upload)
        }
        for upload in uploads { upload.end(.interrupted) }
    }
}
