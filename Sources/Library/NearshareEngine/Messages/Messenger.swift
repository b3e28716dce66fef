internal import Logging
package import NearshareBase
package import NearshareBundles
package import NearshareInterfaces
package import NearshareMesh
internal import Synchronization

/// Messages and conversations of this node, as long as it runs: sends, receives, carries for others, and keeps what was said.
/// Made by ``Node/startMessenger(_:)``.
///
///     say ──► kept as waiting ──► keys known? ──► sealed ──► what it goes out as is noted ──► carrier ──► sent, delivered
///                                  └─ near, and doesn't carry (a phone) ──► text in the mesh ──► delivered, read
///                                  └─ neither ──► waits until they come
///
/// Everything is written down before it is done, so a process that is killed goes on where it was: a line that no carrier has is given
/// to one again, and receivers know lines by their ids.
package final class Messenger: Sendable {
    private struct State {
        var inputs: [Input] = []
        var isStopping = false
        /// Texts to phones that are on their way: not given to the mesh a second time.
        var onTheirWay: Set<String> = []
        /// What went directly, and goes by the mesh if nobody acknowledges it.
        var direct: [BundleID: Fallback] = [:]
        /// What goes by the mesh after all, and the ids under which it is known here.
        var originals: [BundleID: BundleID] = [:]
    }

    private struct Fallback: Sendable {
        let request: MessageRequest
        let receiver: EndpointKeys
    }

    private enum Input: Sendable {
        case text(MeshText)
        case resume([PendingMessage])
    }

    /// How it was started.
    package let settings: MessengerSettings
    let mesh: MeshDriver
    let node: NodeSettings
    let listeners = Broadcast<MessengerEvent>()
    let store: any ConversationStore
    let blueChat = BlueChatPeople()
    /// Held from when a line is looked up until it is on its way: else one that is just being said would also be found waiting, and
    /// go twice.
    let dispatching = Mutex(())
    private let state = Monitor(State())
    private let carrier = Mutex<BundleDriver?>(nil)

    private static let maximumInputCount = 4_096

    init(_ mesh: MeshDriver, _ node: NodeSettings, _ settings: MessengerSettings) throws(StorageError) {
        self.mesh = mesh
        self.node = node
        self.settings = settings
        store = settings.conversations
    }

    /// - Throws: `StorageError` when what is kept can't be read.
    func start() throws(StorageError) {
        let messages = try mesh.startBundles(profile: settings.profile, store: settings.carried) { [weak self] in
            self?.take($0)
        }
        carrier.withLock { $0 = messages }
        // Before anything is said here, and before anybody is heard of.
        let unfinished = try store.pendingMessages()
        state.update { $0.inputs.append(.resume(unfinished)) }
        mesh.texts.withLock { $0 = { [weak self] in self?.receive($0) ?? false } }
        mesh.start { [self] in
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await BlockingThread.run { self.work() } }
                group.addTask {
                    _ = await self.mesh.stopping.value
                    self.state.update { $0.isStopping = true }
                }
            }
            listeners.finish()
        }
    }

    // MARK: What people use

    /// What happens from now on, until the node stops. Who listens too slowly loses what is oldest.
    package func events() -> AsyncStream<MessengerEvent> { listeners.subscribe() }

    /// Everybody who is heard of in the mesh.
    package var peers: [MeshPeer] { mesh.peers }

    /// Waits until somebody is heard of in the mesh whom `text` means: an id, a name, or the beginning of one.
    /// - Throws: ``PeerLookupError``.
    package func find(_ text: String, timeout: Duration) async throws -> MeshPeer {
        try await mesh.find(text, timeout: timeout)
    }

    /// How many messages this node carries, its own and others'.
    package var carriedCount: Int { messages.carriedCount }

    /// Peers with whom there is a session that counts as secure.
    package var secureSessions: [PeerID] { mesh.read { $0.peersWithSession } }

    /// Whom messages can be sealed for: by the settings' keys, or by those that were announced in the mesh.
    package func contact(_ id: PeerID) -> EndpointKeys? {
        // Who is near and doesn't carry can't open them, whatever keys there are.
        if let peer = mesh.read({ $0.peer(id) }), peer.capabilities?.contains(.bundles) != true { return nil }
        // Anybody can announce another's agreement key beside a signing key of their own.
        return settings.contact(id) ?? messages.contact(id)
    }

    /// How long a file of so many bytes takes to somebody at least, where that can be told, and whether it takes a Bluetooth hop.
    package func estimate(byteCount: UInt64, to id: PeerID) -> (time: Duration, needsRadio: Bool)? {
        guard let (peer, needsRadio) = mesh.read({ router in router.peer(id).map { ($0, router.needsRadio(to: id)) } }),
            let time = mesh.estimate(byteCount: byteCount, to: peer)
        else { return nil }
        return (time, needsRadio)
    }

    /// The keys that somebody who is heard of in the mesh has announced, and whether they have proven, inside a session, that both
    /// are theirs; nil for those who don't carry.
    package func announcedKeys(of id: PeerID) -> (contact: EndpointKeys, isProven: Bool)? {
        guard let peer = mesh.read({ $0.peer(id) }), peer.capabilities?.contains(.bundles) == true,
            let contact = messages.contact(id)
        else { return nil }
        return (contact, mesh.read { $0.hasAuthenticatedKeys(id) })
    }

    /// Makes a session with somebody who is heard of in the mesh, unless there is one, so that their keys are proven.
    package func secure(_ id: PeerID) {
        mesh.update { router, now in
            if router.peer(id) != nil { router.ensureSession(with: id, now: now) }
        }
    }

    /// Sends a message, or says which rule it breaks. It has its id at once; what becomes of it follows among ``events()``.
    /// - Parameters:
    ///   - isEncrypted: nil for encrypted, but for broadcasts.
    ///   - isPrivate: carriers learn neither who sent it nor whom it is for.
    package func send(
        _ content: StructuredValue, using route: MessageRoute, isEncrypted: Bool? = nil, isPrivate: Bool = false
    ) throws(MessengerError) -> BundleID {
        try submit(.structured(content), using: route, isEncrypted: isEncrypted, isPrivate: isPrivate, fileByteCount: nil)
    }

    /// Sends a message with a file beside it, to somebody in range. The receiver is asked for the file as for any other.
    /// - Parameters:
    ///   - file: one file, of at most 5 MiB.
    ///   - timeout: when nobody has answered after that, the file is withdrawn.
    package func send(
        _ content: StructuredValue, with file: any ResourceSource, to peer: PeerID, isEncrypted: Bool? = nil,
        timeout: Duration = .seconds(60)
    ) throws(MessengerError) -> (id: BundleID, transfer: Transfer) {
        guard let meshPeer = mesh.read({ $0.peer(peer) }) else { throw .rule(.receiverNotInRange) }
        let name = file.offer.items.first.map { String(decoding: $0.name.bytes, as: UTF8.self) } ?? ""
        let id = try submit(
            .besideFile(content, name: name), using: .direct(peer), isEncrypted: isEncrypted, isPrivate: false,
            fileByteCount: Int(clamping: file.offer.totalSize ?? 0))
        do {
            return (id, try mesh.send(file, to: meshPeer, timeout: timeout))
        } catch {
            throw .file(error)
        }
    }

    /// Offers a file to somebody in the mesh.
    /// - Parameter timeout: when nobody has answered after that, it is withdrawn.
    /// - Throws: ``NodeError``, also when they aren't heard of.
    package func send(
        _ file: any ResourceSource, to peer: PeerID, timeout: Duration = .seconds(60)
    ) throws(NodeError) -> Transfer {
        guard let meshPeer = mesh.read({ $0.peer(peer) }) else {
            throw .unreachable("they are not in range; files go to those who are")
        }
        return try mesh.send(file, to: meshPeer, timeout: timeout)
    }

    private func submit(
        _ content: BundleContent, using route: MessageRoute, isEncrypted: Bool?, isPrivate: Bool, fileByteCount: Int?
    ) throws(MessengerError) -> BundleID {
        do throws(MessageRule) {
            var receiver: EndpointKeys?
            if let id = route.receiver {
                receiver = contact(id)
                guard receiver != nil else {
                    if mesh.read({ $0.peer(id) }) != nil { throw MessageRule.receiverTakesNone }
                    throw route.mode == .direct ? MessageRule.receiverNotInRange : MessageRule.receiverKeyUnknown
                }
            }
            let prepared = try prepare(
                MessageRequest(
                    // By the mesh it goes to its receiver first as well; and it has one id on all ways, so that it comes once.
                    content, mode: route.mode == .full ? .mesh : route.mode, hasReceiver: receiver != nil,
                    isEncrypted: isEncrypted ?? (receiver != nil),
                    isPrivate: isPrivate, fileByteCount: fileByteCount), to: receiver)
            messages.submit(prepared)
            return prepared.id
        } catch {
            throw .rule(error)
        }
    }

    /// Says something. The line is kept before this returns; it goes now, or when somebody comes who can take it.
    /// - Parameter text: of 1 to ``ChatMessage/maximumTextByteCount`` bytes.
    package func say(_ text: String, in conversation: Conversation) async throws(MessengerError) -> ChatMessage {
        guard text.contains(where: { !$0.isWhitespace }) else { throw .nothingToSay }
        guard text.utf8.count <= ChatMessage.maximumTextByteCount else {
            throw .tooLong(limit: ChatMessage.maximumTextByteCount)
        }
        return try await stored { () throws(StorageError) in
            var entry = ChatMessage(
                id: Hex.encode(self.node.random(16)), conversation: conversation, author: nil, authorName: self.node.name,
                text: text, when: self.node.wallClock(), status: .waiting)
            return try self.dispatching.withLock { _ throws(StorageError) in
                entry.number = try self.store.insert(entry) ?? 0
                self.listeners.publish(.entry(entry))
                try self.dispatch(entry)
                return entry
            }
        }
    }

    /// The person has seen what is in a conversation; those who wrote it are told, unless the settings say otherwise.
    package func markRead(_ conversation: Conversation) async throws(MessengerError) {
        try await stored { () throws(StorageError) in
            let ids = try self.store.markRead(conversation)
            if case .peer(let peer) = conversation, self.settings.sendsReadMarks { self.tellRead(ids, to: peer) }
        }
    }

    /// Conversations with a line in them, the one with the newest first.
    package func conversations() async throws(MessengerError) -> [ConversationSummary] {
        try await stored { () throws(StorageError) in try self.store.conversations() }
    }

    /// The newest lines before a number, the oldest of them first.
    package func history(
        of conversation: Conversation, before number: Int? = nil, limit: Int = 100
    ) async throws(MessengerError) -> [ChatMessage] {
        try await stored { () throws(StorageError) in
            try self.store.entries(of: conversation, before: number, limit: limit)
        }
    }

    /// Messages that have come, after a number, the oldest first.
    package func arrivals(after number: Int = 0, limit: Int = 1_000) async throws(MessengerError) -> [ReceivedBundle] {
        try await stored { () throws(StorageError) in try self.store.arrivals(after: number, limit: limit) }
    }

    /// Whether a message of ours is still kept, to be handed to others.
    package func waits(_ id: BundleID) async -> Bool {
        await BlockingThread.run { self.messages.isKept(id) }
    }

    /// The store's calls block, so each has a thread for as long as it takes.
    private func stored<Result: Sendable>(
        _ body: @escaping @Sendable () throws(StorageError) -> Result
    ) async throws(MessengerError) -> Result {
        let result = await BlockingThread.run { () -> Swift.Result<Result, StorageError> in
            do throws(StorageError) {
                return .success(try body())
            } catch {
                return .failure(error)
            }
        }
        switch result {
        case .success(let value): return value
        case .failure(let error): throw .storage(error)
        }
    }

    /// Set before anybody holds this.
    var messages: BundleDriver { carrier.withLock { $0! } }

    // MARK: The thread

    /// - Returns: false for a text that is to be offered instead, see ``MessengerSettings/acceptsTexts``.
    private func receive(_ text: MeshText) -> Bool {
        if case .toUs = text, !settings.acceptsTexts() { return false }
        state.update { state in
            // A flood waits its turn in the links' own buffers.
            if state.inputs.count < Self.maximumInputCount { state.inputs.append(.text(text)) }
        }
        return true
    }

    private func work() {
        while true {
            let inputs = state.wait { state -> [Input]? in
                // What has come is still kept: its sender was told that it has arrived.
                guard !state.inputs.isEmpty || state.isStopping else { return nil }
                defer { state.inputs = [] }
                return state.inputs
            }
            guard !inputs.isEmpty else { return }
            for input in inputs {
                attempt { () throws(StorageError) in
                    switch input {
                    case .text(let text): try process(text)
                    case .resume(let lines): try resume(lines)
                    }
                }
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

    /// As the carrier does; what goes directly although it need not is kept for another way.
    func prepare(_ request: MessageRequest, to receiver: EndpointKeys?) throws(MessageRule) -> BundleDriver.Prepared {
        let prepared = try messages.prepare(request, to: receiver)
        if request.mode == .full, prepared.isDirect, let receiver {
            state.withLock { $0.direct[prepared.id] = Fallback(request: request, receiver: receiver) }
        }
        return prepared
    }

    /// The id under which a message is known here.
    func original(of id: BundleID) -> BundleID { state.withLock { $0.originals[id] ?? id } }

    /// Nothing more will be told of a message.
    func finish(_ id: BundleID) {
        state.withLock { state in
            state.direct[id] = nil
            state.originals[id] = nil
        }
    }

    /// Somebody seemed to be in range, and has not answered.
    /// - Returns: whether the message goes by the mesh now.
    func sendAnotherWay(_ id: BundleID) -> Bool {
        guard let fallback = state.withLock({ $0.direct.removeValue(forKey: id) }) else { return false }
        var request = fallback.request
        request.mode = .mesh
        guard let prepared = try? messages.prepare(request, to: fallback.receiver) else { return false }
        state.withLock { $0.originals[prepared.id] = id }
        messages.submit(prepared)
        return true
    }

    /// A text to a phone begins or ends being on its way.
    /// - Returns: false when it is already.
    func claim(_ id: String) -> Bool { state.withLock { $0.onTheirWay.insert(id).inserted } }

    func release(_ id: String) { state.withLock { _ = $0.onTheirWay.remove(id) } }
}

extension Node {
    /// Sends, receives and carries messages, and keeps conversations, until the node shuts down.
    ///
    /// A node that receives is found by others; one that does not finds them.
    /// - Throws: `StorageError` when what is kept can't be read.
    package func startMessenger(_ settings: MessengerSettings) throws(StorageError) -> Messenger {
        let messenger = try Messenger(joinMesh(), self.settings, settings)
        try messenger.start()
        if settings.usesBlueChat, hasRadio { messenger.mesh.start { [self] in await messenger.talk(over: self) } }
        return messenger
    }
}
