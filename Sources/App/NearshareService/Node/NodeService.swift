internal import FoundationEssentials
package import Nearshare
internal import NearshareBundles
package import NearshareMesh

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
    private let properties: Properties
    private let feed: ReceiveFeed?
    private let messengerEvents: AsyncStream<MessengerEvent>
    private let controlEvents: ControlEvents
    private let contactUpdater: ContactUpdater
    private let sender: NodeSender
    private let sentTransfers: TransferLog
    private let status: NodeStatusSource
    private let linkOffers = LinkOffers()
    private let requests = RequestGate()

    /// Timeout of requests that run when the role is handed over; most take milliseconds.
    private static let requestTimeout = Duration.seconds(2)
    /// Limit on the time that a request asks to wait.
    private static let maximumTimeout = Duration.seconds(600)

    init(
        machine: LocalMachine, node: Node, messenger: Messenger, messengerEvents: AsyncStream<MessengerEvent>,
        properties: Properties, feed: ReceiveFeed?, events: Broadcast<ControlEvent>,
        observe: @escaping @Sendable (ControlEvent) -> Void
    ) {
        (self.node, self.messenger, self.properties, self.feed) = (node, messenger, properties, feed)
        self.messengerEvents = messengerEvents
        controlEvents = ControlEvents(events, observe: observe)
        contacts = ContactDirectory(machine, messenger: messenger)
        contactUpdater = ContactUpdater(contacts, messenger, controlEvents, ownID: node.id)
        sender = NodeSender(messenger, contacts, machine.detector)
        sentTransfers = TransferLog(of: .sent, in: machine.state)
        status = NodeStatusSource(node: node, messenger: messenger, contacts: contacts, properties: properties)
    }

    /// The server for LocalSend devices; nil for none.
    package var localSend: LocalSendServer? { properties.localSend }

    /// The mesh link over which a peer was heard last, by its share of the rates of its source; nil for none.
    package func linkShare(of id: PeerID) -> MeshLinkShare? { node.linkShare(of: id) }

    // MARK: Events

    package func events() async -> AsyncStream<ControlEvent> { controlEvents.subscribe() }

    package func receiveEvents() async throws(ControlFailure) -> AsyncStream<ReceiveEvent> {
        guard let feed else { throw ControlFailure(.refused, "this node receives nothing") }
        return feed.subscribe()
    }

    package func links() async throws(ControlFailure) -> AsyncStream<OfferedLink> {
        guard properties.purpose != .receiver else { throw ControlFailure(.refused, "this node receives the offers itself") }
        let links = linkOffers.links()
        node.passLinks { [linkOffers] link in await linkOffers.offer(link) }
        return links
    }

    /// Whether no other process continues as this node when it ends.
    package var isEndFinal: Bool { !isHandedOver }

    /// Whether another process is taking the role of this node over, or has done so.
    var isHandedOver: Bool { requests.isClosed }

    /// Waits for the requests that are being replied to, after the last one was admitted.
    func finishRequests() async { await requests.drain(timeout: Self.requestTimeout) }

    /// Yields when another process requests the role.
    var handOverRequests: AsyncStream<Void> { requests.handOverRequests }

    func publish(_ event: ControlEvent) { controlEvents.publish(event) }

    /// Publishes the messenger's events until the node leaves the mesh.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.sender.run { self.publish(.transfer($0)) } }
            group.addTask { await self.contactUpdater.run() }
            for await event in messengerEvents { await handle(event) }
            contactUpdater.finish()
            sender.finish()
        }
        controlEvents.finish()
        linkOffers.finish()
        requests.end()
    }

    /// Waits until it is known whether the radio of a listener can be used.
    func followRadio(of listener: Listener) async { await status.followRadio(of: listener) }

    private func handle(_ event: MessengerEvent) async {
        switch event {
        case .changed(let id, .sent): publish(.messageChanged(id, .sent, detail: nil))
        case .changed(let id, .delivered): publish(.messageChanged(id, .delivered, detail: nil))
        case .changed(let id, .failed(let reason)): publish(.messageChanged(id, .failed, detail: reason))
        case .arrived(let message):
            publish(.received(ReceivedMessage(message, contacts: try? contacts.snapshot())))
        case .chatMessage(let message, let isBundle): publish(.chatMessage(message, isShownAsBundle: isBundle))
        case .chatMessageChanged(let message, let reason):
            recordOutcome(of: message)
            publish(
                .chatMessageChanged(id: message.id, conversation: message.conversation, status: message.status, reason: reason))
        case .expired(let removed, at: let now): finishRemoval(of: removed, at: now)
        case .favorite(let isFavorite, let peer): await contactUpdater.recordFavorite(isFavorite, by: peer)
        case .peerChanged(let id): contactUpdater.recordChange(of: id)
        }
    }

    /// Records in the history that a message which a command has left to this node has been delivered, or has failed.
    private func recordOutcome(of message: ChatMessage) {
        guard message.isLocal, message.status >= .delivered else { return }
        let outcome: RecordedOutcome = message.status == .failed ? .failed : .completed
        do throws(StorageError) {
            try sentTransfers.setOutcome(outcome.rawValue, of: message.id)
        } catch {
            publish(.notice("\(error)"))
        }
    }

    /// Removes the texts whose lifetime is over from the history as well, and publishes what is gone.
    /// - Parameter lines: the conversations of which lines were removed, with the latest time of those.
    private func finishRemoval(of lines: [Conversation: WallTime], at now: WallTime) {
        var removed = lines
        do throws(StorageError) {
            let texts = try sentTransfers.removeExpiredTexts(at: now) { messenger.lifetime(of: .peer($0)).current }
            for (peer, end) in texts.removed { removed[.peer(peer)] = max(removed[.peer(peer)] ?? end, end) }
            for (peer, time) in texts.left { messenger.scheduleRemoval(in: .peer(peer), at: time) }
        } catch {
            publish(.notice("\(error)"))
        }
        for (conversation, end) in removed { publish(.messagesExpired(conversation, until: end)) }
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
        case .status:
            var current = try status.current()
            current.linkReceiverCount = linkOffers.receiverCount
            return .status(current)
        case .contacts: return .contacts(try await contacts.listed())
        case .find(let name, let timeout): return .contact(try await findContact(name, timeout: timeout))
        case .sendMessage(let message):
            if let peer = message.receiver { try prepareToSend(to: peer) }
            return .messageAccepted(try await sender.send(message))
        case .isPending(let id): return .isPending(try await messenger.waits(id))
        case .messages(let number, let limit):
            let messages = try await messenger.arrivals(after: number, limit: Self.clampedEntryCount(limit))
            // The messages can be read without the names as well.
            let snapshot = try? contacts.snapshot()
            let received = messages.map { ReceivedMessage($0, contacts: snapshot) }
            return .messages(Array(received.prefix(Self.fittingCount(of: received))))
        case .sendLine(let text, let conversation):
            if case .peer(let peer) = conversation { try prepareToSend(to: peer) }
            return .lineAccepted(id: try await messenger.sendLine(text, in: conversation).id)
        case .conversations: return .conversations(try await messenger.conversations())
        case .history(let conversation, let number, let limit):
            let messages = try await messenger.history(
                of: conversation, before: number, limit: Self.clampedEntryCount(limit))
            return .chatMessages(
                messages.suffix(Self.fittingCount(of: messages.reversed())),
                lifetime: messenger.lifetime(of: conversation).current)
        case .markRead(let conversation, let notifiesAuthors):
            try await messenger.markRead(conversation, notifiesAuthors: notifiesAuthors)
            return .done
        case .sendFile(let path, let peer, let isEncrypted, let timeout):
            try prepareToSend(to: peer)
            return .transferAccepted(try await sender.startFile(path, to: peer, isEncrypted: isEncrypted, timeout: timeout))
        case .cancelTransfer(let id):
            sender.cancel(id)
            return .done
        case .clear(let conversation):
            try await messenger.clear(conversation)
            if case .peer(let peer) = conversation { try sentTransfers.removeTexts(to: peer) }
            return .done
        case .lifetime(let conversation): return .lifetime(messenger.lifetime(of: conversation))
        case .setLifetime(let conversation, let setting):
            let lifetime = try await messenger.setLifetime(of: conversation, to: setting)
            publish(.lifetimeChanged(conversation, lifetime))
            return .lifetime(lifetime)
        case .search(let text, let conversation, let limit):
            let found = try await messenger.search(text, in: conversation, limit: Self.clampedEntryCount(limit))
            return .chatMessages(found.suffix(Self.fittingCount(of: found.reversed())))
        case .block(let id): return .contact(try await contactUpdater.block(id))
        case .unblock(let name): return .contact(try await contactUpdater.unblock(name))
        case .setFriend(let id, let isFriend):
            let contact = try await contactUpdater.setFriend(id, to: isFriend)
            if contact.software == .phone { messenger.sendFavorite(isFriend, to: id) }
            return .contact(contact)
        case .ping(let id):
            try prepareToSend(to: id)
            return .pong(try await ping(id))
        case .trace(let id, let limit): return .trace(messenger.trace(id, limit: Self.clampedEntryCount(limit)))
        case .verificationLink:
            guard let link = messenger.verificationLink() else {
                throw ControlFailure(.unavailable, "this machine's name does not fit into a verification link")
            }
            return .text(link)
        case .verify(let link): return .contact(try await contactUpdater.verify(link))
        // Only confirmed here: the stream of the subscription follows the reply.
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
                throw ControlFailure(.refused, "this node is not replaced by that of another process")
            }
            guard properties.purpose != .command || sender.closeIfIdle() else {
                throw ControlFailure(.refused, "this node sends a file, which would be cut off")
            }
            requests.requestHandOver()
            return .done
        case .stop:
            publish(.notice("`nearshare mesh stop` ends this node"))
            node.beginShutdown()
            return .done
        }
    }

    private static func clampedEntryCount(_ limit: Int) -> Int { min(max(limit, 0), ControlReply.maximumEntryCount) }

    /// The number of the first entries that fit into one line of the control socket, at least one: a longer line ends the connection.
    private static func fittingCount(of entries: some Collection<some Encodable>) -> Int {
        let encoder = JSONEncoder()
        var bytesLeft = LineLink.maximumLineByteCount * 3 / 4
        let end = entries.firstIndex { entry in
            bytesLeft -= (try? encoder.encode(entry).count) ?? 0
            return bytesLeft < 0
        }
        return max(min(1, entries.count), entries.distance(from: entries.startIndex, to: end ?? entries.endIndex))
    }

    private static func clamp(_ timeout: Duration, from minimum: Duration) -> Duration {
        min(max(timeout, minimum), maximumTimeout)
    }

    // MARK: Contacts

    /// Connects to a peer that was reached before and is no neighbour now, without waiting for it.
    /// - Throws: ``ControlFailure`` for a blocked peer, to which nothing is sent, whatever an open conversation shows.
    private func prepareToSend(to peer: PeerID) throws {
        let contact = try contacts.snapshot().contact(peer)
        guard !contact.trustStatus.isBlocked else { throw ControlFailure.blocked(contact) }
        node.connectMesh(to: peer) { [contacts] in contacts.lastAddress(of: peer) }
    }

    private func findContact(_ name: String, timeout: Duration) async throws -> Contact {
        // Another peer may have this machine's name, and is looked for.
        let own = OwnPeer(node)
        let ownMessage = own.message(about: name)
        if own.hasKey(name), let ownMessage { throw ControlFailure(.refused, ownMessage) }
        // A link to the peer lets the search find it. A blocked peer is refused at once.
        if try await contacts.knownContact(name) == nil, let contact = try contacts.snapshot().remembered(name) {
            try prepareToSend(to: contact.id)
        }
        do {
            let contact = try await contacts.find(name, timeout: Self.clamp(timeout, from: .zero))
            try prepareToSend(to: contact.id)
            return contact
        } catch NodeError.notFound(let text, let nearby) {
            if let ownMessage { throw ControlFailure(.peerNotFound, ownMessage) }
            if nearby.isEmpty, node.hasNoNetwork { throw ControlFailure(.peerNotFound, NetworkNotice.notFound(text)) }
            if let contact = try contacts.snapshot().remembered(text) {
                throw ControlFailure(
                    .peerNotFound,
                    "\(contact.name.identified(by: contact.id)) is known as \(contact.trustStatus.label), but is not nearby, and the "
                        + "keys to encrypt messages are missing; \(ErrorMessage.missingKeysAdvice)")
            }
            guard nearby.isEmpty else {
                let trust = try contacts.snapshot().trust
                throw NodeError.notFound(text, nearby: trust.unblocked(nearby))
            }
            throw ControlFailure(
                .peerNotFound,
                "\(TerminalText.escaped(text)) is not known to this machine, and no peers are nearby; run `nearshare mesh run` on the peer's machine, or "
                    + "`nearshare keys import` the keys of a peer that is away")
        }
    }

    /// Checks whether a peer answers.
    /// - Throws: ``ControlFailure`` when there is no answer.
    // Not optimized: the optimizer of Swift 6.3.1 crashes on such functions.
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
}
