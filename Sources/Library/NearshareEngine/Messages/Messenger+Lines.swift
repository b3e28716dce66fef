internal import Logging
internal import NearshareBase
internal import NearshareBundles
internal import NearshareCrypto
internal import NearshareInterfaces
internal import NearshareMesh

// How lines get to others, and how theirs become lines here.
extension Messenger {
    // MARK: Going out

    /// Gives a line to whoever can take it. What can't be given to anybody waits.
    func dispatch(_ entry: ChatMessage) throws(StorageError) {
        switch entry.conversation {
        case .everybody: try dispatchToEverybody(entry)
        case .peer(let peer):
            if let contact = contact(peer) {
                try dispatchCarried(entry, to: contact)
            } else if mesh.read({ $0.peer(peer) }) != nil {
                try dispatchInMesh(entry, to: peer)
            } else if blueChat.isNear(peer) {
                try sendPlainly(to: peer)
            }
        }
    }

    private func dispatchCarried(_ entry: ChatMessage, to contact: EndpointKeys) throws(StorageError) {
        let prepared: [BundleDriver.Prepared]
        do {
            prepared = try ChatContent.cut(entry.text, id: entry.id).map { (content) throws(MessageRule) in
                try prepare(
                    MessageRequest(.structured(content.value), mode: .full, hasReceiver: true, isEncrypted: true), to: contact)
            }
        } catch {
            return try tellIfMarked(entry, .failed, error.description)
        }
        // Noted before it is sent: what becomes of it may be told at once.
        try store.recordParts(
            prepared.map { OutgoingPart(id: $0.id.hex, isBundle: true) }, of: entry.id, in: entry.conversation)
        for message in prepared { messages.submit(message) }
    }

    /// To somebody who is near and doesn't carry, as a phone: in texts of their own size.
    private func dispatchInMesh(_ entry: ChatMessage, to peer: PeerID) throws(StorageError) {
        guard claim(entry.id) else { return }
        let texts = MeshDriver.split(entry.text, limit: MeshPrivateMessage.maximumTextByteCount)
        let ids = texts.indices.map { $0 == 0 ? entry.id : "\(entry.id)-\($0)" }
        try store.recordParts(ids.map { OutgoingPart(id: $0, isBundle: false) }, of: entry.id, in: entry.conversation)
        do throws(MeshSendError) {
            for (id, text) in zip(ids, texts) {
                try mesh.update { (router, now) throws(MeshSendError) in
                    try router.sendPrivateMessage(text, id: id, to: peer, now: now)
                }
            }
        } catch {
            // Too much waits for them already, or they left in this moment: it goes when they come again.
            node.log.debug("a line waits: \(error)")
            release(entry.id)
        }
    }

    private func dispatchToEverybody(_ entry: ChatMessage) throws(StorageError) {
        // Nobody acknowledges it; but with nobody there it would only be said to the wind.
        guard mesh.read({ router in router.knownPeers.contains(where: \.isDirect) }) else { return }
        var reason: String?
        do throws(MeshSendError) {
            try mesh.update { (router, now) throws(MeshSendError) in try router.sendPublicMessage(entry.text, now: now) }
        } catch {
            reason = error.description
        }
        try tellIfMarked(entry, reason == nil ? .sent : .failed, reason)
    }

    func tellIfMarked(_ entry: ChatMessage, _ mark: MessageStatus, _ reason: String? = nil) throws(StorageError) {
        guard try store.updateStatus(of: entry.id, in: entry.conversation, to: mark) else { return }
        var entry = entry
        entry.status = mark
        listeners.publish(.marked(entry, reason: reason))
    }

    private func advance(_ part: String, to mark: MessageStatus, _ reason: String? = nil) throws(StorageError) {
        if let entry = try store.updatePart(part, to: mark) { listeners.publish(.marked(entry, reason: reason)) }
    }

    /// Tells somebody that their lines were read.
    func tellRead(_ ids: [String], to peer: PeerID) {
        guard !ids.isEmpty else { return }
        guard let contact = contact(peer) else {
            return mesh.update { router, now in
                for id in ids where router.peer(peer) != nil { router.acknowledgeRead(id, of: peer, now: now) }
            }
        }
        for start in stride(from: 0, to: ids.count, by: ChatContent.readCount) {
            let content = ChatContent.read(Array(ids[start..<min(start + ChatContent.readCount, ids.count)]))
            // Nobody misses a mark that finds no way in half an hour.
            let prepared = try? messages.prepare(
                MessageRequest(.structured(content.value), mode: .full, hasReceiver: true, isEncrypted: true), to: contact,
                profile: .shortReach)
            if let prepared { messages.submit(prepared) }
        }
    }

    /// After a start: what was on its way when the last process ended, and is not kept by its carrier, goes once more.
    func resume(_ lines: [PendingMessage]) throws(StorageError) {
        for line in lines {
            // Said once; nobody says when all have heard it.
            if line.entry.conversation == .everybody, line.entry.status >= .sent { continue }
            let carried = line.parts.filter(\.isBundle)
            let isKept = !carried.isEmpty && carried.contains { BundleID(hex: $0.id).map(messages.isKept) ?? false }
            if !isKept { try dispatch(line.entry) }
        }
    }

    /// Somebody is there: what waits for them goes.
    private func sendWaiting(to peer: PeerID) throws(StorageError) {
        guard mesh.read({ $0.peer(peer) }) != nil || contact(peer) != nil else { return }
        try dispatching.withLock { _ throws(StorageError) in
            for line in try store.pendingMessages() {
                switch line.entry.conversation {
                case .peer(peer) where !line.parts.contains(where: \.isBundle): try dispatch(line.entry)
                case .everybody where line.entry.status < .sent: try dispatch(line.entry)
                default: break
                }
            }
        }
    }

    // MARK: What becomes of carried messages

    /// On the carrier's thread: nothing follows from the event before this returns.
    func take(_ event: BundleDriverEvent) {
        attempt { () throws(StorageError) in
            switch event {
            case .sent(let carried):
                let id = original(of: carried)
                try advance(id.hex, to: .sent)
                listeners.publish(.changed(id, .sent))
            case .delivered(let carried):
                let id = original(of: carried)
                finish(carried)
                try advance(id.hex, to: .delivered)
                listeners.publish(.changed(id, .delivered))
            case .failed(let carried, let why):
                if sendAnotherWay(carried) { return }
                let id = original(of: carried)
                finish(carried)
                try advance(id.hex, to: .failed, why)
                listeners.publish(.changed(id, .failed(why)))
            case .received(let message): try take(message)
            case .neighbourAppeared(let id): listeners.publish(.peerChanged(id))
            }
        }
    }

    private func take(_ message: ReceivedMeshMessage) throws(StorageError) {
        if message.sender == nil, settings.isBlocked(.signing(message.signer)) { return }
        let content: StructuredValue?
        switch message.content {
        case .structured(let value): content = value
        case .besideFile(let value, name: _): content = value
        case .other: content = nil
        }
        // Whom nobody has proven to be can't take part in a conversation (K2).
        if let sender = message.sender, let content, let chat = ChatContent(content) {
            switch chat {
            case .read(let ids):
                for id in ids { try markRead(id, by: sender.id) }
                return
            case .line(let id, let text):
                // The same line goes out as another message when its sender's process ended before it heard of the first one.
                guard try keep(text, id: id ?? message.id.hex, from: sender) else { return }
            case .part(let id, let index, let count, let text):
                guard let piece = TextFragment(sender: sender.id, textID: id, index: index, count: count, text: text) else {
                    break
                }
                if let whole = try store.addFragment(piece, now: node.wallClock()) { try keep(whole, id: id, from: sender) }
            }
        }
        guard let encoded = try? message.content.encoded() else { return }
        var arrival = ReceivedBundle(
            id: message.id, sender: message.sender?.id, signer: message.signer, content: encoded,
            isForEverybody: message.isForEverybody, created: message.created, received: node.wallClock(), hops: message.hops)
        guard let number = try store.insert(arrival) else { return }
        arrival.number = number
        listeners.publish(.arrived(arrival))
    }

    // MARK: Texts in the mesh

    func process(_ text: MeshText) throws(StorageError) {
        switch text {
        case .toUs(let peer, let id, let text):
            try keep(text, id: id, from: peer)
            // Only now, so that it counts as delivered once it is kept; who is blocked is told the same, and learns nothing.
            mesh.acknowledge(id, of: peer.id)
        case .everybody(let peer, let id, let text):
            guard peer.id != node.identity.peerID, !settings.isBlocked(.announced(peer.id)) else { return }
            try keep(
                ChatMessage(
                    id: id, conversation: .everybody, author: peer.id, authorName: peer.name, text: text,
                    when: node.wallClock(), status: .delivered))
        case .delivered(let id, _):
            release(id)
            try advance(id, to: .delivered)
        case .read(let id, let peer): try markRead(id, by: peer.id)
        case .undelivered(let id, let peer):
            // Its parts go together, under the first one's id.
            release(String(id.prefix { $0 != "-" }))
            node.log.debug("a line waits until \(peer) is heard of again")
        case .peerChanged(let id):
            listeners.publish(.peerChanged(id))
            try sendWaiting(to: id)
        }
    }

    /// - Returns: false when it has come before.
    @discardableResult
    private func keep(_ text: String, id: String, from peer: AuthenticatedPeer) throws(StorageError) -> Bool {
        guard !node.trustStatus(peer, nil).isBlocked, text.contains(where: { !$0.isWhitespace }) else { return true }
        return try keep(
            ChatMessage(
                id: String(decoding: Array(id.utf8.prefix(255)), as: UTF8.self), conversation: .peer(peer.id), author: peer.id,
                authorName: mesh.read { $0.peer(peer.id)?.name }, text: text, when: node.wallClock(), status: .delivered))
    }

    /// - Returns: false when it has come before.
    @discardableResult
    func keep(_ entry: ChatMessage) throws(StorageError) -> Bool {
        guard let number = try store.insert(entry) else { return false }
        var entry = entry
        entry.number = number
        listeners.publish(.entry(entry))
        return true
    }

    /// Only in a conversation with them: nobody marks what was said to others.
    private func markRead(_ id: String, by peer: PeerID) throws(StorageError) {
        guard let entry = try store.entry(id), entry.conversation == .peer(peer) else { return }
        try tellIfMarked(entry, .read)
    }
}
