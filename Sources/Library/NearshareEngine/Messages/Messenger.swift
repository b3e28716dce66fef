internal import Logging
package import NearshareBase
internal import NearshareBundles
package import NearshareInterfaces
internal import NearshareMesh
internal import Synchronization

/// Sends and receives messages, and stores conversations, as long as the node runs. Created by ``Node/startMessenger(_:)``.
///
///     say ──► keys known? ──► sealed ──► line and its bundles stored ──► BundleDriver ──► sent, delivered
///             └─ in range without bundles (a phone) ──► line stored ──► text in the mesh ──► delivered, read
///             └─ otherwise ──► line stored as waiting, until the peer is in range
///
/// Everything is durable before it is sent, so a process that is killed continues where it was: a line that no store of bundles
/// holds is sent again, and receivers recognise lines by their IDs.
package final class Messenger: Sendable {
    private struct State {
        var inputs = MessengerInputQueue()
        var expiry: LineExpirySchedule
        var isStopping = false
    }

    package let settings: MessengerSettings
    let mesh: MeshDriver
    let node: NodeSettings
    let subscribers = Broadcast<MessengerEvent>()
    let store: any ConversationStore
    let messages: BundleDriver
    /// Queues the events of bundles until ``start()``.
    private let relay = BundleEventRelay()
    let blueChat = BlueChatPeers()
    /// Held while lines are selected and dispatched: a line that is just being stored would otherwise be found waiting, and
    /// sent twice.
    let dispatching = Mutex(())
    private let state: Monitor<State>
    /// Lines that are being sent as texts.
    let claims = LineClaims()
    private let fallbacks = Mutex(DirectFallbacks())
    /// Rate limit of sessions with the signers of messages that everyone can read.
    let signerSessions = Mutex(RateWindow())

    /// - Throws: `StorageError` when the stores cannot be read.
    init(_ mesh: MeshDriver, _ node: NodeSettings, _ settings: MessengerSettings) throws(StorageError) {
        self.mesh = mesh
        self.node = node
        self.settings = settings
        store = settings.conversations
        state = Monitor(
            State(
                expiry: LineExpirySchedule(
                    standard: settings.messageLifetime, settings: try settings.conversations.lifetimes())))
        messages = try mesh.startBundles(profile: settings.profile, store: settings.bundles) { [relay] in relay.receive($0) }
    }

    /// - Throws: `StorageError` when the store cannot be read.
    func start() throws(StorageError) {
        // Before the first line of this process, and before the first peer is discovered.
        let unfinished = try store.pendingMessages()
        state.update { $0.inputs.resume(unfinished) }
        mesh.messageHandler.withLock { $0 = Handler { [weak self] in self?.receive($0) ?? false } }
        // Earlier ones would have no subscriber: the node listens already, and a message may arrive at once.
        relay.attach { [weak self] in self?.receive($0) }
        mesh.start { [self] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask {
                    do {
                        try await BlockingThread.run { self.work() }
                    } catch {
                        self.node.log.error("messages: \(error)")
                        // A text that cannot be stored must not be acknowledged.
                        self.mesh.messageHandler.withLock { $0 = nil }
                    }
                }
                group.addTask {
                    _ = await self.mesh.stopping.value
                    self.state.update { $0.isStopping = true }
                }
            }
            subscribers.finish()
        }
    }

    // MARK: Events

    /// Events from now on, until the node stops. A slow subscriber loses the oldest.
    package func events() -> AsyncStream<MessengerEvent> { subscribers.subscribe() }

    /// Stored bundles, this node's own and others'.
    package var storedBundleCount: Int { messages.bundleCount }

    /// The latest decisions of this node about packets and bundles, the oldest first.
    /// - Parameter prefix: the beginning of the ids; empty for all.
    package func trace(_ prefix: String, limit: Int) -> [TraceEntry] { mesh.trace(prefix, limit: limit) }

    /// Sends a message. Its progress follows among ``events()``.
    /// - Parameters:
    ///   - isEncrypted: nil for encrypted, except for broadcasts.
    ///   - isPrivate: forwarding nodes learn neither the sender nor the receiver.
    package func send(
        _ content: StructuredValue, using route: MessageRoute, isEncrypted: Bool? = nil, isPrivate: Bool = false
    ) throws(MessengerError) -> BundleID {
        try submit(.structured(content), using: route, isEncrypted: isEncrypted, isPrivate: isPrivate, fileByteCount: nil)
    }

    /// Sends a message with a file to a peer in range. The receiver's user is asked about the file as about any other.
    /// - Parameters:
    ///   - file: one file, of at most 5 MiB.
    ///   - timeout: the file is withdrawn when it is not answered within this time.
    package func send(
        _ content: StructuredValue, with file: any ResourceSource, to peer: PeerID, isEncrypted: Bool? = nil,
        timeout: Duration = .seconds(60)
    ) throws(MessengerError) -> (id: BundleID, transfer: Transfer) {
        guard let meshPeer = mesh.read({ $0.peer(peer) }) else { throw .rule(.receiverNotInRange) }
        let name: String
        do throws(NodeError) {
            // Before the message is sent.
            name = String(decoding: try MeshSender.singleFile(of: file.offer).name.bytes, as: UTF8.self)
        } catch {
            throw .file(error)
        }
        let id = try submit(
            .besideFile(content, name: name), using: .direct(peer), isEncrypted: isEncrypted, isPrivate: false,
            fileByteCount: Int(clamping: file.offer.totalSize ?? 0))
        do {
            return (id, try mesh.send(file, to: meshPeer, timeout: timeout))
        } catch {
            throw .file(error)
        }
    }

    /// Offers a file to a peer in the mesh, or sends it to everyone.
    /// - Parameters:
    ///   - peer: ``PeerID/broadcast`` for everyone.
    ///   - isEncrypted: see ``MeshDriver/send(_:to:isEncrypted:timeout:)``.
    ///   - timeout: the file is withdrawn when it is not answered within this time.
    /// - Throws: ``NodeError``, also when the peer is not known.
    package func send(
        _ file: any ResourceSource, to peer: PeerID, isEncrypted: Bool = true, timeout: Duration = .seconds(60)
    ) throws(NodeError) -> Transfer {
        if peer == .broadcast {
            guard mesh.peers.contains(where: \.isDirect) else {
                throw .unreachable("no peers are nearby; files for everyone are not stored")
            }
            return try mesh.send(file, to: nil, timeout: timeout)
        }
        guard let meshPeer = mesh.read({ $0.peer(peer) }) else {
            throw .unreachable("the peer is not in range; files can only be sent to peers in range")
        }
        return try mesh.send(file, to: meshPeer, isEncrypted: isEncrypted, timeout: timeout)
    }

    private func submit(
        _ content: BundleContent, using route: MessageRoute, isEncrypted: Bool?, isPrivate: Bool, fileByteCount: Int?
    ) throws(MessengerError) -> BundleID {
        let prepared: PreparedBundle
        let isEncrypted = isEncrypted ?? (route.receiver != nil)
        do throws(MessageError) {
            var receiver: EndpointKeys?
            if let id = route.receiver {
                receiver = endpointKeys(of: id)
                guard receiver != nil else {
                    if mesh.read({ $0.peer(id) }) != nil { throw MessageError.receiverTakesNone }
                    throw route.mode == .direct ? MessageError.receiverNotInRange : MessageError.receiverKeyUnknown
                }
            }
            prepared = try prepare(
                MessageRequest(
                    // A mesh message goes to a receiver in range first as well, and keeps one ID, so that it is received once.
                    content, mode: route.mode == .full ? .mesh : route.mode, hasReceiver: receiver != nil,
                    isEncrypted: isEncrypted, isPrivate: isPrivate, fileByteCount: fileByteCount), to: receiver)
        } catch {
            throw .rule(error)
        }
        if isEncrypted, !isPrivate, let line = line(of: content, id: prepared.id, using: route) {
            do throws(StorageError) {
                // Before events about the bundle.
                try storeLine(line, parts: [OutgoingPart(id: prepared.id.hex, isBundle: true)])
            } catch {
                throw .storage(error)
            }
        }
        messages.submit(prepared)
        return prepared.id
    }

    /// The line as which the receiver shows a message in its conversation with this node; nil for another message, and for one
    /// that must not be sent again like a line.
    private func line(of content: BundleContent, id: BundleID, using route: MessageRoute) -> ChatMessage? {
        guard route.mode != .direct, let peer = route.receiver, case .structured(let value) = content,
            let chat = ChatContent(value), chat.value == value, case .line(let given, let text, written: nil) = chat,
            text.contains(where: { !$0.isWhitespace }), text.utf8.count <= ChatMessage.maximumTextByteCount
        else { return nil }
        return ChatMessage(
            id: given ?? id.hex, conversation: .peer(peer), author: nil, authorName: node.name, text: text,
            when: node.wallClock(), status: .waiting)
    }

    /// Stores a line, and sends it now or when a peer that can receive it is in range.
    /// - Parameter text: of 1 to ``ChatMessage/maximumTextByteCount`` bytes.
    package func sendLine(_ text: String, in conversation: Conversation) async throws(MessengerError) -> ChatMessage {
        guard text.contains(where: { !$0.isWhitespace }) else { throw .nothingToSay }
        guard text.utf8.count <= ChatMessage.maximumTextByteCount else {
            throw .tooLong(limit: ChatMessage.maximumTextByteCount)
        }
        if case .peer = conversation, ChatContent.isFavorite(text) != nil { throw .reservedText }
        return try await stored { () throws(StorageError) in
            var message = ChatMessage(
                id: DerivedMessageID.uuid(from: self.node.random(16)), conversation: conversation, author: nil,
                authorName: self.node.name,
                text: text, when: self.node.wallClock(), status: .waiting)
            return try self.dispatching.withLock { _ throws(StorageError) in
                let plan = self.plan(for: message)
                message.number = try self.store.insert(message, parts: plan.parts, isFriend: false) ?? 0
                self.subscribers.publish(.chatMessage(message))
                try self.perform(plan, for: message)
                return message
            }
        }
    }

    // MARK: The thread

    /// - Returns: false for a text that is to be offered instead, see ``MessengerSettings/acceptsTexts``.
    private func receive(_ event: MeshMessageEvent) -> Bool {
        // A phone's app sends without asking first: its texts are lines, as in its own screen.
        if case .privateText(let peer, _, _) = event, !settings.acceptsTexts(),
            mesh.read({ $0.peer(peer.id)?.software }) == .nearshare
        {
            return false
        }
        state.update { $0.inputs.append(event) }
        return true
    }

    private func work() {
        while true {
            let (inputs, isRemovalDue) = state.waitWithDeadlines {
                state, _ -> MonitorWait<([MessengerInputQueue.Input], Bool)> in
                let now = node.moment()
                let isRemovalDue = state.expiry.isDue(at: now)
                // Received inputs are still stored.
                guard isRemovalDue || !state.inputs.isEmpty || state.isStopping else {
                    return .waiting(untilNanoseconds: state.expiry.deadline(at: now)?.nanoseconds)
                }
                if isRemovalDue { state.expiry.recordStart() }
                return .ready((state.inputs.dequeue(), isRemovalDue))
            }
            if isRemovalDue { removeExpiredLines() }
            guard !inputs.isEmpty || isRemovalDue else { return }
            for input in inputs {
                attempt { () throws(StorageError) in
                    switch input {
                    case .event(let event): try process(event)
                    case .resume(let lines): try resume(lines)
                    case .renew(let bundles): try renew(bundles)
                    }
                }
            }
        }
    }

    private func removeExpiredLines() {
        let now = node.wallClock()
        do throws(StorageError) {
            let expiry = try store.removeExpiredMessages(standard: settings.messageLifetime, now: now)
            state.update { $0.expiry.recordEnd(expiry, at: node.clock()) }
            subscribers.publish(.expired(expiry.removed, at: now))
        } catch {
            state.update { $0.expiry.recordFailure(at: node.clock()) }
            node.log.error("lines whose lifetime is over are not removed yet: \(error)")
        }
    }

    /// Schedules the removal of a line that was stored, or whose status has changed.
    func scheduleRemoval(of message: ChatMessage) {
        // It is scheduled when it is delivered or given up.
        guard !message.isPending else { return }
        scheduleRemoval(in: message.conversation, at: message.when)
    }

    /// Schedules the removal of what was stored in a conversation.
    /// - Parameter time: that of the line, of the arrival of the bundle, or of a text that is stored elsewhere.
    package func scheduleRemoval(in conversation: Conversation, at time: WallTime) {
        state.update { $0.expiry.add(in: conversation, at: time) }
    }

    /// The lifetime of the lines of a conversation on this machine. A removal that has become due while the machine was suspended, or
    /// because the clock was set, starts now.
    package func lifetime(of conversation: Conversation) -> ConversationLifetime {
        state.update { $0.expiry.lifetime(of: conversation) }
    }

    /// Sets the lifetime of the lines of a conversation on this machine. Older ones are removed at once; the copies of peers stay.
    package func setLifetime(
        of conversation: Conversation, to setting: LifetimeSetting
    ) async throws(MessengerError) -> ConversationLifetime {
        try await stored { () throws(StorageError) -> ConversationLifetime in
            try self.store.setLifetime(of: conversation, to: setting)
            return self.state.update { state -> ConversationLifetime in
                state.expiry.set(setting, of: conversation)
                return state.expiry.lifetime(of: conversation)
            }
        }
    }

    func attempt(_ body: () throws(StorageError) -> Void) {
        do throws(StorageError) {
            try body()
        } catch {
            node.log.error("\(error)")
        }
    }

    /// Prepares a message, and its fallback if it goes directly and could go by mesh.
    func prepare(_ request: MessageRequest, to receiver: EndpointKeys?) throws(MessageError) -> PreparedBundle {
        let prepared = try messages.prepare(request, to: receiver)
        if request.mode == .full, prepared.isDirect, let receiver {
            fallbacks.withLock { $0.add(.init(request: request, receiver: receiver), for: prepared.id) }
        }
        return prepared
    }

    /// The ID under which a message was announced.
    func original(of id: BundleID) -> BundleID { fallbacks.withLock { $0.original(of: id) } }

    /// Forgets a message whose progress has ended.
    func finish(_ id: BundleID) {
        fallbacks.withLock { $0.finish(id) }
    }

    /// Records that a bundle replaces another one, under the same announced ID.
    func replace(_ id: BundleID, by successor: BundleID) {
        fallbacks.withLock { $0.replace($0.original(of: id), by: successor) }
    }

    /// Enqueues the bundles of this node that were created while the clock was ahead, for the messenger's thread.
    func enqueueRenewal(of bundles: [BundleID]) {
        state.update { $0.inputs.renew(bundles) }
    }

    /// Sends a direct message by mesh that was not acknowledged.
    /// - Returns: false when it has no fallback.
    func sendByMesh(insteadOf id: BundleID) -> Bool {
        guard let fallback = fallbacks.withLock({ $0.remove(for: id) }) else { return false }
        var request = fallback.request
        request.mode = .mesh
        guard let prepared = try? messages.prepare(request, to: fallback.receiver) else { return false }
        fallbacks.withLock { $0.replace(id, by: prepared.id) }
        messages.submit(prepared)
        return true
    }
}

extension Node {
    /// Sends, receives and forwards messages, and stores conversations, until the node shuts down.
    ///
    /// A node that listens is discovered by others; any other discovers them.
    /// - Throws: `StorageError` when the stores cannot be read.
    package func startMessenger(_ settings: MessengerSettings) throws(StorageError) -> Messenger {
        try startMessengerWithEvents(settings).messenger
    }

    /// Does the same, and returns the events from the first one on.
    package func startMessengerWithEvents(
        _ settings: MessengerSettings
    ) throws(StorageError) -> (messenger: Messenger, events: AsyncStream<MessengerEvent>) {
        let messenger = try Messenger(joinMesh(), self.settings, settings)
        let events = messenger.events()
        try messenger.start()
        if settings.usesBlueChat, hasRadio { messenger.mesh.start { [self] in await messenger.runBlueChat(on: self) } }
        return (messenger, events)
    }
}
