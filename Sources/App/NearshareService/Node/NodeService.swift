internal import Glibc
package import Nearshare
internal import NearshareBundles
internal import NearshareMesh
internal import Synchronization

/// Answers requests of clients: commands in this process call it, others through ``ControlServer``.
package final class NodeService: NodeClient {
    /// The immutable properties of the node.
    package struct Properties: Sendable {
        package var purpose: NodeOptions.Purpose
        package var port: UInt16
        /// Empty when received files are not stored.
        package var inbox: String
        /// The profile's name in the configuration.
        package var profileName: String?
        /// The server for LocalSend devices; nil for none.
        package var localSend: LocalSendServer?

        package init(purpose: NodeOptions.Purpose, port: UInt16, inbox: String, profileName: String?) {
            self.purpose = purpose
            self.port = port
            self.inbox = inbox
            self.profileName = profileName
        }
    }

    private let node: Node
    private let messenger: Messenger
    private let contacts: ContactDirectory
    private let detector: MediaTypeDetector
    private let properties: Properties
    private let feed: ReceiveFeed?
    private let started = SystemClock.monotonic()
    /// Subscribed before the node starts, so that no early event is lost.
    private let messengerEvents: AsyncStream<MessengerEvent>
    private let controlEvents: Broadcast<ControlEvent>
    /// Called with each event before its subscribers receive it.
    private let observe: @Sendable (ControlEvent) -> Void
    private let files: FileTransferFollower
    private let bluetooth = Mutex(NodeStatus.Bluetooth.starting)
    private let linkOffers = LinkOffers()
    private let peerChanges = ChangeCollector<PeerID>(clock: SystemClock.monotonic)
    /// Peers whose keys are to be stored with those of the next change.
    private let postponedKeyIDs = Mutex<Set<PeerID>>([])
    private let keyWrites = KeyWriteLimit()
    /// Yields when another process requests the role.
    let handOverRequests: AsyncStream<Void>
    private let handOverContinuation: AsyncStream<Void>.Continuation
    private let requests = RequestGate()

    /// Timeout of requests that run when the role is handed over; most take milliseconds.
    private static let requestTimeout = Duration.seconds(2)
    /// Timeout of the first message to a peer, and of proving and verifying its key: a peer appears shortly before it can be
    /// reached.
    private static let reachabilityTimeout = Duration.seconds(3)
    /// Limit on the entries of one reply.
    private static let maximumReplyEntryCount = 1_000
    /// Timeout of the answer to an offered file, where the request has none.
    private static let answerTimeout = Duration.seconds(60)
    /// Limit on postponed ids; above the capacity of the mesh's `PeerTable`, so that a flood only drops its own.
    private static let maximumPostponedCount = 4_096
    private static let allowedTimeouts = Duration.milliseconds(100)...Duration.seconds(600)

    init(
        _ machine: LocalMachine, _ node: Node, _ messenger: Messenger, _ properties: Properties, feed: ReceiveFeed?,
        events: Broadcast<ControlEvent>,
        observe: @escaping @Sendable (ControlEvent) -> Void
    ) {
        self.node = node
        self.messenger = messenger
        (self.properties, self.feed) = (properties, feed)
        controlEvents = events
        self.observe = observe
        messengerEvents = messenger.events()
        contacts = ContactDirectory(machine, messenger: messenger)
        detector = machine.detector
        files = FileTransferFollower(contacts)
        (handOverRequests, handOverContinuation) = AsyncStream.makeStream()
    }

    /// The server for LocalSend devices; nil for none.
    package var localSend: LocalSendServer? { properties.localSend }

    // MARK: Events

    package func events() async -> AsyncStream<ControlEvent> { controlEvents.subscribe() }

    package func receiveEvents() async throws(ControlFailure) -> (open: [OpenPrompt], events: AsyncStream<ReceiveEvent>) {
        guard let feed else { throw ControlFailure(.refused, "this node receives nothing") }
        return feed.subscribe()
    }

    package func links() async throws(ControlFailure) -> AsyncStream<OfferedLink> {
        guard properties.purpose != .receiver else { throw ControlFailure(.refused, "this node receives the offers itself") }
        let links = linkOffers.links()
        node.passLinks { [linkOffers] link in await linkOffers.offer(link) }
        return links
    }

    package var isEndFinal: Bool { !isHandedOver }

    /// Whether another process is taking the role of this node over, or has done so.
    var isHandedOver: Bool { requests.isClosed }

    /// Waits for the requests that are being replied to, and admits no more.
    func finishRequests() async { await requests.close(timeout: Self.requestTimeout) }

    func publish(_ event: ControlEvent) {
        observe(event)
        controlEvents.publish(event)
    }

    /// Publishes the messenger's events until the node leaves the mesh.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.files.run { self.publish(.transfer($0)) } }
            group.addTask { await self.peerChanges.run { await self.handlePeerChanges($0) } }
            for await event in messengerEvents { handle(event) }
            peerChanges.finish()
            files.finish()
        }
        controlEvents.finish()
        handOverContinuation.finish()
        linkOffers.finish()
        requests.end()
    }

    func followRadio(of listener: Listener) async {
        guard node.hasRadio else { return bluetooth.withLock { $0 = .notUsed } }
        switch await listener.radio {
        case .on(let channel)?: bluetooth.withLock { $0 = .on(channel: channel) }
        case .unavailable(let reason)?: bluetooth.withLock { $0 = .unavailable(reason: reason) }
        case nil: break
        }
    }

    private func handle(_ event: MessengerEvent) {
        switch event {
        case .changed(let id, .sent): publish(.messageChanged(id, .sent, detail: nil))
        case .changed(let id, .delivered): publish(.messageChanged(id, .delivered, detail: nil))
        case .changed(let id, .failed(let reason)): publish(.messageChanged(id, .failed, detail: reason))
        case .arrived(let message):
            publish(.received(ReceivedMessage(message, contacts: try? contacts.snapshot())))
        case .chatMessage(let message, let isBundle): publish(.chatMessage(message, isBundle: isBundle))
        case .chatMessageChanged(let message, let reason):
            publish(
                .chatMessageChanged(id: message.id, conversation: message.conversation, status: message.status, reason: reason))
        case .favorite(let isFavorite, let peer):
            do {
                let name = try contacts.recordFavorite(isFavorite, of: peer).name.quoted(of: peer.id)
                publish(.notice("\(name) \(isFavorite ? "has made you a favourite" : "no longer has you as a favourite")"))
            } catch {
                publish(.notice("\(error)"))
            }
        case .peerChanged(let id): peerChanges.insert(id)
        }
    }

    // Not optimized: the optimizer of Swift 6.3.1 crashes on it.
    @_optimize(none)
    private func handlePeerChanges(_ ids: Set<PeerID>) async {
        do {
            try storeAnnouncedKeys(of: ids)
            publish(.contacts(try await contacts.listed()))
        } catch {
            publish(.notice("\(error)"))
        }
    }

    /// Stores the keys of peers in range. Announced keys are free: the file is not replaced for each of a flood (R14).
    private func storeAnnouncedKeys(of ids: Set<PeerID>) throws {
        let all = postponedKeyIDs.withLock { postponed in
            defer { postponed = [] }
            return postponed.union(ids)
        }
        let isRecorded = try contacts.storeAnnouncedKeys(of: all) { keyWrites.admit() }
        guard !isRecorded else { return }
        postponedKeyIDs.withLock { $0 = all.count > Self.maximumPostponedCount ? ids : all }
    }

    // MARK: Requests

    package func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        do {
            return try await requests.perform { try await reply(to: request) }
        } catch {
            throw ControlFailure(error)
        }
    }

    private func reply(to request: ControlRequest) async throws -> ControlReply {
        switch request {
        case .status: return .status(try currentStatus())
        case .contacts: return .contacts(try await contacts.listed())
        case .find(let name, let timeout): return .contact(try await findContact(name, timeout: timeout))
        case .sendMessage(let message): return .messageAccepted(try await send(message))
        case .isPending(let id): return .isPending(try await messenger.waits(id))
        case .messages(let number, let limit):
            let messages = try await messenger.arrivals(after: number, limit: Self.clampedEntryCount(limit))
            // The messages can be read without the names as well.
            let snapshot = try? contacts.snapshot()
            return .messages(messages.map { ReceivedMessage($0, contacts: snapshot) })
        case .sendLine(let text, let conversation):
            return .lineAccepted(id: try await messenger.sendLine(text, in: conversation).id)
        case .conversations: return .conversations(try await messenger.conversations())
        case .history(let conversation, let number, let limit):
            return .chatMessages(
                try await messenger.history(of: conversation, before: number, limit: Self.clampedEntryCount(limit)))
        case .markRead(let conversation):
            try await messenger.markRead(conversation)
            return .done
        case .sendFile(let path, let peer, let isSealed, let timeout):
            return .transferAccepted(try startFile(path, to: peer, isSealed: isSealed, timeout: timeout))
        case .cancelTransfer(let id):
            files.cancel(id)
            return .done
        case .clear(let conversation):
            try await messenger.clear(conversation)
            return .done
        case .search(let text, let conversation, let limit):
            return .chatMessages(try await messenger.search(text, in: conversation, limit: Self.clampedEntryCount(limit)))
        case .setBlocked(let id, let isBlocked): return .contact(try await change(id) { $0.setBlocked($1, isBlocked) })
        case .setFriend(let id, let isFriend):
            let contact = try await change(id) { $0.setFriend($1, isFriend) }
            if contact.software == .phone { messenger.sendFavorite(isFriend, to: id) }
            return .contact(contact)
        case .ping(let id): return .pong(try await ping(id))
        case .trace(let id, let limit): return .trace(messenger.trace(id, limit: Self.clampedEntryCount(limit)))
        case .verificationLink:
            guard let link = messenger.verificationAddress() else {
                throw ControlFailure(.unavailable, "this machine's name does not fit into a verification link")
            }
            return .text(link)
        case .verify(let link): return .contact(try await verify(link))
        case .subscribe, .receiveLinks, .subscribeReceiving: return .done
        case .claimLink(let number):
            guard linkOffers.claim(number) else { throw ControlFailure(.refused, "the node serves this link itself") }
            return .done
        case .answer(let number, let answer):
            guard feed?.answer(number, answer) == true else {
                throw ControlFailure(.refused, "this question is no longer open")
            }
            return .done
        case .handOver:
            guard properties.purpose != .daemon else {
                throw ControlFailure(.refused, "this node does not hand its role over")
            }
            guard properties.purpose != .command || files.isEmpty else {
                throw ControlFailure(.refused, "this node sends a file, which would be cut off")
            }
            handOverContinuation.yield()
            return .done
        case .stop:
            publish(.notice("`nearshare mesh stop` ends this node"))
            node.beginShutdown()
            return .done
        }
    }

    private static func clampedEntryCount(_ limit: Int) -> Int { min(max(limit, 0), maximumReplyEntryCount) }

    /// The timeout of the answer to an offered file.
    private static func clampedAnswerTimeout(_ timeout: Duration?) -> Duration {
        clamp(timeout ?? answerTimeout, from: allowedTimeouts.lowerBound)
    }

    private static func clamp(_ timeout: Duration, from minimum: Duration) -> Duration {
        min(max(timeout, minimum), allowedTimeouts.upperBound)
    }

    // MARK: Contacts

    private func findContact(_ name: String, timeout: Duration) async throws -> Contact {
        // A blocked peer is refused at once, without a search.
        if try await contacts.knownContact(name) == nil, let contact = try contacts.snapshot().remembered(name),
            contact.trustStatus.isBlocked
        {
            throw Self.blocked(contact)
        }
        do {
            let contact = try await contacts.find(name, timeout: Self.clamp(timeout, from: .zero))
            guard !contact.trustStatus.isBlocked else { throw Self.blocked(contact) }
            return contact
        } catch NodeError.notFound(let text, let nearby) {
            if let contact = try contacts.snapshot().remembered(text) {
                throw ControlFailure(
                    .peerNotFound,
                    "\(contact.name.shown) (\(contact.id)) is known as \(contact.trustStatus.label), but is not nearby, and the "
                        + "keys to encrypt messages are missing; run `nearshare mesh run` on both machines while they are near each "
                        + "other, or import its keys with `nearshare keys import`")
            }
            guard nearby.isEmpty else { throw NodeError.notFound(text, nearby: nearby) }
            throw ControlFailure(
                .peerNotFound,
                "\(TerminalText.escaped(text)) is not known to this machine, and no peers are nearby; run `nearshare mesh run` on the peer's machine, or "
                    + "`nearshare keys import` the keys of a peer that is away")
        }
    }

    private static func blocked(_ contact: Contact) -> ControlFailure {
        ControlFailure(
            .blocked, "\(contact.name.shown) is blocked; `nearshare peers unblock \(contact.id.hex)` unblocks it")
    }

    // MARK: Changes of contacts

    /// Changes the trust in a peer. One that is not known yet proves its key first.
    /// - Parameter change: returns false when the peer is not known.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    private func change(
        _ id: PeerID, _ change: @escaping @Sendable (inout TrustStore, Fingerprint) -> Bool
    ) async throws -> Contact {
        let contact = try contacts.snapshot().contact(id)
        guard contact.software != .blueChat else {
            throw ControlFailure(
                .refused, "\(contact.name.shown) has no key: every peer that uses its address counts as the same one")
        }
        if try contacts.snapshot().fingerprint(of: id) == nil {
            guard let peer = await messenger.authenticatedPeer(id, timeout: Self.reachabilityTimeout) else {
                throw ControlFailure(
                    .peerNotFound, "\(contact.name.shown) has not proven its key, and is not in range; try again when it is")
            }
            try contacts.recordContact(with: peer, named: contact.name)
        }
        guard try contacts.change(id, change) else {
            throw ControlFailure(.storage, "the address book is full; `nearshare peers forget` makes room")
        }
        publish(.contacts(try await contacts.listed()))
        return try contacts.snapshot().contact(id)
    }

    @_optimize(none)
    private func ping(_ id: PeerID) async throws -> PingReport {
        guard let result = await messenger.ping(id) else {
            throw ControlFailure(.unavailable, "no answer from \(try contacts.snapshot().contact(id).name.shown)")
        }
        let snapshot = try contacts.snapshot()
        return PingReport(
            milliseconds: Int(result.time.nanoseconds / 1_000_000),
            hops: result.hops,
            nextHop: result.nextHop.map { snapshot.contact($0) })
    }

    // MARK: Verification

    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
    @_optimize(none)
    private func verify(_ link: String) async throws -> Contact {
        let code: MeshVerificationCode
        do throws(MalformedInput) {
            code = try MeshVerificationCode.decode(address: link, now: SystemClock.wall())
        } catch {
            throw ControlFailure(.refused, error.description)
        }
        guard let key = code.agreementKey else { throw ControlFailure(.refused, "the link has no valid key") }
        let id = Fingerprint(of: key).peerID
        guard id != node.id else { throw ControlFailure(.refused, "this is the link of this machine; paste the peer's") }
        let contact = try contacts.snapshot().contact(id)
        guard !contact.trustStatus.isBlocked else { throw Self.blocked(contact) }
        let peer = try await messenger.find(id.hex, timeout: Self.reachabilityTimeout)
        guard let proven = await messenger.verify(code) else {
            throw ControlFailure(
                .unavailable, "\(peer.name.shown) has not proven that it holds the keys of the link; ask for a new one")
        }
        try contacts.recordVerification(of: proven, named: peer.name)
        publish(.contacts(try await contacts.listed()))
        return try contacts.snapshot().contact(id)
    }

    // MARK: Sending

    private func startFile(_ path: String, to peer: PeerID, isSealed: Bool, timeout: Duration?) throws -> TransferID {
        let source = try FileSource(paths: [path], detector: detector)
        try refuseTooLarge(source, to: peer)
        let transfer = try messenger.send(source, to: peer, isSealed: isSealed, timeout: Self.clampedAnswerTimeout(timeout))
        follow(transfer, source, to: peer, as: .transfer(transfer.id))
        return transfer.id
    }

    private func follow(_ transfer: Transfer, _ source: FileSource, to peer: PeerID, as id: TransferStatus.ID) {
        let name = source.offer.items.first.map { String(decoding: $0.name.bytes, as: UTF8.self) } ?? ""
        let size = source.offer.totalSize
        files.add(
            transfer,
            TransferStatus(
                id: id, isIncoming: false, peer: peer, name: name, done: 0, total: size,
                detail: size.flatMap { durationText(forSending: $0, to: peer) }))
    }

    private func refuseTooLarge(_ source: FileSource, to peer: PeerID) throws {
        guard let size = source.offer.totalSize, let item = source.offer.items.first, item.kind != .folder,
            let limit = messenger.peers.first(where: { $0.id == peer })?.contentLimit, size > limit
        else { return }
        let (file, name) = (item.name.shown, try contacts.snapshot().contact(peer).name.shown)
        throw ControlFailure(
            .tooLarge,
            "\(file) has \(size.asByteCount), and the mesh carries at most \(UInt64(limit).asByteCount) to \(name); "
                + "it can be sent when both are on one network")
    }

    /// A message about the duration of a file transfer; nil for a short one.
    private func durationText(forSending byteCount: UInt64, to peer: PeerID) -> String? {
        guard let (time, needsRadio) = messenger.estimate(byteCount: byteCount, to: peer), time >= .seconds(2) else {
            return nil
        }
        let limit = UInt64(MessageRule.recommendedRadioFileByteCount)
        let advice =
            needsRadio && byteCount > limit
            ? ", as it goes over Bluetooth; up to \(limit.asByteCount) is best with Bluetooth" : ""
        return "\(time.asClock) at least\(advice)"
    }

    private func send(_ message: MessageSubmission) async throws -> BundleID {
        guard case .structured(let content) = message.content else {
            throw ControlFailure(.refused, "this node does not support that kind of message; update it")
        }
        let route = try MessageRoute(message.mode, to: message.receiver)
        if message.requiresSession, let receiver = message.receiver, !messenger.secureSessions.contains(receiver) {
            throw ControlFailure(
                .unavailable,
                "there is no secure session with \(try contacts.snapshot().contact(receiver).name.shown), or it has expired")
        }
        guard let path = message.file else {
            return try await retryUntilReachable { () throws(MessengerError) in
                try self.messenger.send(
                    content, using: route, isEncrypted: message.isEncrypted, isPrivate: message.isPrivate)
            }
        }
        // Checked before the file is opened.
        guard case .direct(let peer) = route else { throw MessageRule.fileNeedsDirectMode(message.mode) }
        let source = try FileSource(paths: [path], detector: detector)
        let (id, transfer) = try await retryUntilReachable { () throws(MessengerError) in
            try self.messenger.send(
                content, with: source, to: peer, isEncrypted: message.isEncrypted,
                timeout: Self.clampedAnswerTimeout(message.timeout))
        }
        follow(transfer, source, to: peer, as: .message(id))
        return id
    }

    /// Repeats `body` at each event of the messenger while the receiver's keys are missing: these arrive shortly after the
    /// name.
    private func retryUntilReachable<Result: Sendable>(
        _ body: @escaping @Sendable () throws(MessengerError) -> Result
    ) async throws -> Result {
        let events = messenger.events()
        @Sendable func attempt() throws(MessengerError) -> Result? {
            do throws(MessengerError) {
                return try body()
            } catch {
                switch error {
                case .rule(.receiverNotInRange), .rule(.receiverKeyUnknown), .rule(.receiverTakesNone): return nil
                default: throw error
                }
            }
        }
        if let result = try attempt() { return result }
        let result = try await withTimeout(Self.reachabilityTimeout) { () throws -> Result? in
            for await _ in events { if let result = try attempt() { return result } }
            return nil
        }
        try Task.checkCancellation()
        return try (result ?? nil) ?? body()
    }

    // MARK: Status

    private func currentStatus() throws -> NodeStatus {
        let snapshot = try contacts.snapshot()
        let neighbours = messenger.peers.map { peer in
            NodeStatus.Neighbour(contact: snapshot.contact(peer.id), isDirect: peer.isDirect)
        }
        return NodeStatus(
            id: node.id, name: node.name, process: getpid(),
            uptime: Int((SystemClock.monotonic() - started).components.seconds), isDaemon: properties.purpose == .daemon,
            profile: NodeStatus.Profile(messenger.settings.profile, name: properties.profileName), port: properties.port,
            neighbours: neighbours.sorted { $0.contact.name.claimed < $1.contact.name.claimed },
            storedBundleCount: messenger.storedBundleCount, sessionLifetime: Int(node.sessionLifetime.components.seconds),
            secureSessions: messenger.secureSessions, bluetooth: bluetooth.withLock { $0 }, inbox: properties.inbox)
    }
}
