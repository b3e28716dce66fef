internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh

// Lines of conversations, sent and received.
extension Messenger {
    // MARK: Sending

    /// The transport that is selected for a line.
    enum SendPlan {
        case bundles([PreparedBundle])
        /// To a peer in range without support for bundles, such as a phone: texts of the mesh's own size.
        case texts([MeshPrivateMessage], to: PeerID)
        case publicRoom
        case blueChat(PeerID)
        case rejected(MessageError)
        /// No peer in range can receive it.
        case wait

        /// The messages as which the line is sent. They are stored first, because events about them may follow at once.
        var parts: [OutgoingPart] {
            switch self {
            case .bundles(let prepared): prepared.map { OutgoingPart(id: $0.id.hex, isBundle: true) }
            case .texts(let texts, to: _): texts.map { OutgoingPart(id: $0.id, isBundle: false) }
            case .publicRoom, .blueChat, .rejected, .wait: []
            }
        }
    }

    /// Seals a line for its receiver, or selects another transport. A line that becomes texts is claimed.
    func plan(for message: ChatMessage) -> SendPlan {
        guard case .peer(let peer) = message.conversation else { return .publicRoom }
        if let keys = endpointKeys(of: peer) {
            do throws(MessageError) {
                return .bundles(
                    try ChatContent.split(message.text, id: message.id, written: message.when).map {
                        (content) throws(MessageError) in
                        try prepare(
                            MessageRequest(.structured(content.value), mode: .full, hasReceiver: true, isEncrypted: true),
                            to: keys)
                    })
            } catch {
                return .rejected(error)
            }
        }
        if mesh.read({ $0.peer(peer) }) != nil {
            let texts = message.text.split(maximumByteCount: MeshPrivateMessage.maximumTextByteCount)
                .enumerated().map { number, text in
                    MeshPrivateMessage(
                        id: number == 0 ? message.id : DerivedMessageID.idOfPart(number, of: message.id), text: text)
                }
            guard claims.claim(message.id, parts: texts.map(\.id)) else { return .wait }
            return .texts(texts, to: peer)
        }
        return blueChat.isConnected(peer) ? .blueChat(peer) : .wait
    }

    /// Sends a line, after it is stored with the parts of its plan.
    func perform(_ plan: SendPlan, for message: ChatMessage) throws(StorageError) {
        switch plan {
        case .bundles(let prepared): for bundle in prepared { messages.submit(bundle) }
        case .texts(let texts, let peer): send(texts, of: message, to: peer)
        case .publicRoom: try sendToPublicRoom(message)
        case .blueChat(let peer): try sendOverBlueChat(to: peer)
        case .rejected(let rule): try updateStatus(of: message, to: .failed, reason: rule.description)
        case .wait: break
        }
    }

    /// Sends a stored line that waits.
    private func dispatch(_ message: ChatMessage) throws(StorageError) {
        let plan = plan(for: message)
        if !plan.parts.isEmpty { try store.recordParts(plan.parts, of: message.id, in: message.conversation) }
        try perform(plan, for: message)
    }

    /// Does the same while a peer is in range, which has this node's time: a line that was written while the clock was ahead gets the
    /// present time before.
    private func dispatchInRange(_ message: ChatMessage) throws(StorageError) {
        let now = node.wallClock()
        guard message.when.milliseconds > now.milliseconds + BundleRouter.clockTolerance else { return try dispatch(message) }
        try store.setTime(now, of: message.id, in: message.conversation)
        var message = message
        message.when = now
        try dispatch(message)
    }

    private func send(_ texts: [MeshPrivateMessage], of message: ChatMessage, to peer: PeerID) {
        do throws(MeshSendError) {
            try mesh.update { (router, now) throws(MeshSendError) in
                try router.sendPrivateMessages(texts, to: peer, now: now)
            }
        } catch {
            // The queue of the peer is full, or it has just left: the line is sent when it is in range again.
            node.log.debug("a line is kept for later: \(error)")
            claims.release(message.id)
        }
    }

    private func sendToPublicRoom(_ message: ChatMessage) throws(StorageError) {
        // The public room has no acknowledgements: a line without a neighbour would be lost.
        guard mesh.read({ router in router.announcedPeers.contains(where: \.isDirect) }) else { return }
        var reason: String?
        do throws(MeshSendError) {
            try mesh.update { (router, now) throws(MeshSendError) in try router.sendPublicMessage(message.text, now: now) }
        } catch {
            reason = error.description
        }
        try updateStatus(of: message, to: reason == nil ? .sent : .failed, reason: reason)
    }

    func updateStatus(of message: ChatMessage, to status: MessageStatus, reason: String? = nil) throws(StorageError) {
        guard try store.updateStatus(of: message.id, in: message.conversation, to: status) else { return }
        var message = message
        message.status = status
        subscribers.publish(.chatMessageChanged(message, reason: reason))
        scheduleRemoval(of: message)
    }

    /// - Parameter conversation: the only one in which the part may be; nil for all.
    private func updateStatus(
        ofPart part: OutgoingPart, in conversation: Conversation? = nil, to status: MessageStatus, reason: String? = nil
    ) throws(StorageError) {
        guard let message = try store.updatePart(part, in: conversation, to: status) else { return }
        // The claim lasts until delivery, so that a peer whose announcement changes is not sent the line again: phones
        // acknowledge each text once.
        if message.status >= .delivered { claims.release(message.id) }
        subscribers.publish(.chatMessageChanged(message, reason: reason))
        scheduleRemoval(of: message)
    }

    /// Notifies a peer that its lines were read.
    func sendReadMarks(for ids: [String], to peer: PeerID) {
        guard !ids.isEmpty else { return }
        guard let keys = endpointKeys(of: peer) else {
            return mesh.update { router, now in
                for id in ids where router.peer(peer) != nil { router.acknowledgeRead(id, of: peer, now: now) }
            }
        }
        for content in ChatContent.read(splitting: ids) {
            // A read status is outdated after half an hour.
            let prepared = try? messages.prepare(
                MessageRequest(.structured(content.value), mode: .full, hasReceiver: true, isEncrypted: true), to: keys,
                profile: .shortReach)
            if let prepared { messages.submit(prepared) }
        }
    }

    /// Sends the lines again, after a start, that were being sent when the last process ended, and that no bundle store holds. Those of
    /// direct bundles, too: the process that would have sent these by mesh instead has ended. Receivers drop a line that they have.
    func resume(_ lines: [PendingMessage]) throws(StorageError) {
        for line in lines {
            // The public room has no acknowledgements: it was sent once.
            if line.message.conversation == .publicRoom, line.message.status >= .sent { continue }
            var isStored = false
            for part in line.parts where part.isBundle && !isStored {
                if let id = BundleID(hex: part.id) { isStored = try messages.isStored(id) && !messages.isDirect(id) }
            }
            if !isStored { try dispatch(line.message) }
        }
    }

    /// Sends again what was created while the clock was ahead: receivers refuse it until that time comes. Lines are sealed again, in
    /// their order, and readable messages are signed again. Another sealed message waits for its time.
    func renew(_ bundles: [BundleID]) throws(StorageError) {
        var rest = Set(bundles)
        try dispatching.withLock { _ throws(StorageError) in
            for line in try store.pendingMessages() {
                let old = line.parts.compactMap { $0.isBundle ? BundleID(hex: $0.id) : nil }.filter { rest.contains($0) }
                // Without keys it could not be sealed again, and waits as well.
                guard !old.isEmpty, case .peer(let peer) = line.message.conversation, endpointKeys(of: peer) != nil else {
                    continue
                }
                rest.subtract(old)
                for id in old {
                    finish(id)
                    messages.discard(id)
                }
                try dispatchInRange(line.message)
            }
        }
        var waitingCount = 0
        for id in bundles where rest.contains(id) {
            if messages.isDirect(id) {
                // A direct one is outdated after a minute. Its line was sent again at the start.
                if !sendByMesh(insteadOf: id) { subscribers.publish(.changed(original(of: id), .failed(Self.aheadReason))) }
                finish(id)
                messages.discard(id)
            } else if let successor = try messages.redate(id) {
                replace(id, by: successor)
            } else if try messages.isStored(id) {
                waitingCount += 1
            }
        }
        guard waitingCount > 0 else { return }
        node.log.warning(
            """
            \(waitingCount) of this node's messages were created while its clock was ahead, and are sealed with that time; they \
            are delivered when it has come
            """)
    }

    private static let aheadReason = "created while the clock was ahead; send it again"

    /// A peer is in range: sends the lines that wait for it.
    private func sendWaiting(to peer: PeerID) throws(StorageError) {
        let keys = keys(of: peer)
        guard mesh.read({ $0.peer(peer) }) != nil || keys != nil else { return }
        try dispatching.withLock { _ throws(StorageError) in
            for line in try store.pendingMessages() {
                switch line.message.conversation {
                case .peer(peer) where !line.parts.contains(where: \.isBundle): try dispatchInRange(line.message)
                case .peer(peer):
                    guard let keys, isMisaddressed(line, keys.keys) else { continue }
                    // An announcement proves nothing: the peer states its keys in a session first.
                    if keys.areProven { try dispatchInRange(line.message) } else { secure(peer) }
                case .publicRoom where line.message.status < .sent: try dispatchInRange(line.message)
                default: break
                }
            }
        }
    }

    /// Whether a stored bundle of a line is addressed to another endpoint than its receiver's: any peer can announce an endpoint of
    /// its own beside the receiver's agreement key (K2).
    private func isMisaddressed(_ line: PendingMessage, _ keys: EndpointKeys) -> Bool {
        line.parts.contains { part in
            guard let id = BundleID(hex: part.id), let destination = messages.destination(of: id) else { return false }
            return destination != keys.address
        }
    }

    // MARK: Events of bundles

    /// Runs on the driver's thread, before the event has any consequence.
    func receive(_ event: BundleDriverEvent) {
        attempt { () throws(StorageError) in
            switch event {
            case .sent(let bundle):
                let id = original(of: bundle)
                try updateStatus(ofPart: part(id), to: .sent)
                subscribers.publish(.changed(id, .sent))
            case .delivered(let bundle):
                let id = original(of: bundle)
                finish(bundle)
                try updateStatus(ofPart: part(id), to: .delivered)
                subscribers.publish(.changed(id, .delivered))
            case .failed(let bundle, let why):
                if sendByMesh(insteadOf: bundle) { return }
                let id = original(of: bundle)
                finish(bundle)
                try updateStatus(ofPart: part(id), to: .failed, reason: why)
                subscribers.publish(.changed(id, .failed(why)))
            // On the other thread, after the lines that no store of bundles holds.
            case .createdAhead(let bundles): enqueueRenewal(of: bundles)
            case .received(let message): try storeArrival(message)
            case .neighbourAppeared(let id): subscribers.publish(.peerChanged(id))
            }
        }
    }

    private func part(_ bundle: BundleID) -> OutgoingPart { OutgoingPart(id: bundle.hex, isBundle: true) }

    private func storeArrival(_ message: ReceivedMeshMessage) throws(StorageError) {
        if message.sender == nil {
            if settings.isBlocked(.signing(message.signer)) { return }
            let owners = owners(of: message.signer)
            // One of the address book, or one in range.
            if owners.contains(where: { settings.isBlocked(.announced($0)) }) { return }
            secureSigner(among: owners)
        }
        if let sender = message.sender, node.trustStatus(sender, nil).isBlocked { return }
        let content: StructuredValue?
        switch message.content {
        case .structured(let value): content = value
        case .besideFile(let value, name: _): content = value
        case .other: content = nil
        }
        // An unauthenticated sender cannot take part in a conversation (K2).
        if let sender = message.sender, let content, let chat = ChatContent(content) {
            switch chat {
            case .read(let ids):
                for id in ids { try markRead(id, by: sender.id) }
                return
            case .line(let id, let text, let written):
                // A sender that was killed sends the same line again, as another bundle.
                guard
                    try storeLine(
                        text, id: id ?? message.id.hex, from: sender, isBundle: true,
                        written: Self.timeOfWriting(written, of: message))
                else { return }
            case .part(let id, let index, let count, let text, let written):
                guard let piece = TextFragment(sender: sender.id, textID: id, index: index, count: count, text: text) else {
                    break
                }
                let isFriend = node.friends().contains(sender.id)
                switch try store.addFragment(piece, isFriend: isFriend, now: node.wallClock()) {
                case .incomplete: break
                case .whole(let whole):
                    try storeLine(
                        whole, id: id, from: sender, isBundle: true, written: Self.timeOfWriting(written, of: message))
                // Sent again as another bundle, like a whole line.
                case .repetition: return
                }
            }
        }
        guard let encoded = try? message.content.encoded() else { return }
        var arrival = ReceivedBundle(
            id: message.id, sender: message.sender?.id, signer: message.signer, content: encoded,
            isForEveryone: message.isForEveryone, created: message.created, received: node.wallClock(), hops: message.hops)
        let isFriend = message.sender.map { node.friends().contains($0.id) } ?? false
        guard let number = try store.insert(arrival, isFriend: isFriend) else { return }
        arrival.number = number
        subscribers.publish(.arrived(arrival))
        if !arrival.isForEveryone, let sender = arrival.sender { scheduleRemoval(in: .peer(sender), at: arrival.received) }
    }

    /// The peers in the mesh that announce a signing key, which may belong to none of them.
    private func owners(of signer: EndpointID) -> [PeerID] {
        mesh.read { router in
            router.announcedPeers.map(\.id).filter { id in router.keys(of: id).map { EndpointID(of: $0.signingKey) } == signer }
        }
    }

    /// Establishes a session with the peer that announces the key of a message that everyone can read: it proves the key, and lists
    /// show its name from then on. At a limited rate, because each message may have another key.
    /// - Parameter owners: the peers that announce the key.
    private func secureSigner(among owners: [PeerID]) {
        guard let owner = owners.first(where: { id in !mesh.read { $0.hasProvenSigningKey(id) } }),
            signerSessions.withLock({
                $0.admit(atMost: Self.signerSessionsPerMinute, within: .seconds(60), now: node.clock())
            })
        else { return }
        secure(owner)
    }

    // MARK: Texts of the mesh

    func process(_ text: MeshMessageEvent) throws(StorageError) {
        switch text {
        case .privateText(let peer, let id, let text):
            // A blocked peer's text is not delivered, and no receipt says that it was.
            guard !node.trustStatus(peer, nil).isBlocked else { return }
            try storeLine(text, id: id, from: peer)
            // After it is stored.
            mesh.receiver.acknowledge(id, of: peer.id)
        case .publicText(let peer, let id, let text, _):
            guard peer.id != node.identity.peerID, !settings.isBlocked(.announced(peer.id)) else { return }
            // Any peer can announce a friend's agreement key beside a signing key of its own (K14).
            let claimsFriend = node.friends().contains(peer.id)
            let isDoubtful = claimsFriend && !mesh.read { $0.hasProvenSigningKey(peer.id) }
            if isDoubtful { secure(peer.id) }
            try storeLine(
                ChatMessage(
                    id: id, conversation: .publicRoom, author: peer.id,
                    authorName: isDoubtful ? DisplayName(truncating: "(not proven) \(peer.name.claimed)") : peer.name,
                    text: text,
                    when: node.wallClock(), status: .delivered),
                isFriend: claimsFriend && !isDoubtful)
        // No peer acknowledges what was sent to another (B5).
        case .delivered(let id, let peer):
            try updateStatus(ofPart: OutgoingPart(id: id, isBundle: false), in: .peer(peer.id), to: .delivered)
        case .read(let id, let peer): try markRead(id, by: peer.id)
        case .favorite(let isFavorite, let peer):
            guard !node.trustStatus(peer, nil).isBlocked else { return }
            subscribers.publish(.favorite(isFavorite, by: peer))
        case .clockDiffers(let peer, let difference):
            // The announcement may be replayed, so it is no more than a reason: the lines still wait.
            let reason = "the clocks differ by \(difference.components.seconds) s; set both clocks"
            for line in try store.pendingMessages()
            where line.message.conversation == .peer(peer) && line.message.status == .waiting {
                subscribers.publish(.chatMessageChanged(line.message, reason: reason))
            }
        case .undelivered(let id, let peer):
            claims.release(withPart: id)
            node.log.debug("a line waits until \(peer) is in range again")
        case .peerChanged(let id):
            subscribers.publish(.peerChanged(id))
            try sendWaiting(to: id)
            try renewSession(with: id)
        }
    }

    /// Establishes a session with a phone in range that has a conversation with this node: the phone's own session may have outlived a
    /// restart of this node, which could not open the next text then, and phones do not send it again.
    private func renewSession(with id: PeerID) throws(StorageError) {
        guard mesh.read({ $0.peer(id) != nil && $0.authenticatedPeer(id) == nil }), endpointKeys(of: id) == nil,
            !settings.isBlocked(.announced(id)),
            try hasConversation(with: id)
        else { return }
        secure(id)
    }

    /// Whether a peer has a conversation with this node, or may have had one whose lines were removed at the end of their lifetime: the
    /// user has set that lifetime, or the default one is limited and the user knows the peer.
    private func hasConversation(with id: PeerID) throws(StorageError) -> Bool {
        let lifetime = lifetime(of: .peer(id))
        if lifetime.setting != .standard || lifetime.current != nil && mesh.read({ $0.isContact(id) }) { return true }
        return try !store.messages(of: .peer(id), before: nil, limit: 1).isEmpty
    }

    /// The time of writing that a sender states: not after the creation of the bundle, nor long before it. Without one, or with
    /// another, that of the creation.
    private static func timeOfWriting(_ stated: WallTime?, of message: ReceivedMeshMessage) -> WallTime {
        guard let stated, stated.milliseconds >= 0, stated <= message.created,
            message.created.milliseconds - stated.milliseconds <= maximumWaitingTime
        else { return message.created }
        return stated
    }

    /// Limit on sessions with the signers of messages that everyone can read.
    private static let signerSessionsPerMinute = 8
    /// 30 days, in milliseconds. An older time of writing is not shown.
    private static let maximumWaitingTime: Int64 = 30 * 86_400_000

    /// - Returns: false for a duplicate.
    @discardableResult
    private func storeLine(
        _ text: String, id: String, from peer: AuthenticatedPeer, isBundle: Bool = false, written: WallTime? = nil
    ) throws(StorageError) -> Bool {
        guard !node.trustStatus(peer, nil).isBlocked, text.contains(where: { !$0.isWhitespace }) else { return true }
        return try storeLine(
            ChatMessage(
                id: String(decoding: Array(id.utf8.prefix(255)), as: UTF8.self), conversation: .peer(peer.id), author: peer.id,
                authorName: mesh.read { $0.peer(peer.id)?.name }, text: text, when: node.wallClock(), status: .delivered,
                written: written),
            isBundle: isBundle, isFriend: node.friends().contains(peer.id))
    }

    /// - Returns: false for a duplicate.
    @discardableResult
    func storeLine(
        _ message: ChatMessage, parts: [OutgoingPart] = [], isBundle: Bool = false, isFriend: Bool = false
    ) throws(StorageError) -> Bool {
        guard let number = try store.insert(message, parts: parts, isFriend: isFriend) else { return false }
        var message = message
        message.number = number
        subscribers.publish(.chatMessage(message, isBundle: isBundle))
        scheduleRemoval(of: message)
        return true
    }

    /// Marks a line as read in the conversation with this peer: no peer marks lines for others.
    private func markRead(_ id: String, by peer: PeerID) throws(StorageError) {
        guard let message = try store.message(id), message.conversation == .peer(peer) else { return }
        claims.release(id)
        try updateStatus(of: message, to: .read)
    }
}
