internal import Logging
internal import NearshareBase
internal import NearshareInterfaces

// Lines to and from peers that run BlueChat. The radio reports connections, and sends texts one at a time.
//
//     say ──► stored as waiting ──► connected? ──► one thread for each peer: a text, confirmed, the next ──► delivered
//                                  └─ waits until the peer is connected again
extension Messenger {
    /// The peers that are currently connected.
    package var blueChatPeers: [BlueChatPeer] { blueChat.connectedPeers }

    /// Exchanges texts over BlueChat until the node stops. Returns at once without a radio.
    func runBlueChat(on node: Node) async {
        let radio: any ChatRadio
        do throws(NodeError) {
            radio = try await node.openChatRadio()
        } catch {
            return node.settings.log.debug("no BlueChat: \(error)")
        }
        let events = radio.join(as: node.name)
        await firstResult(
            of: {
                // One after the other, as the store blocks, and a text must not precede its author.
                for await event in events {
                    do throws(ThreadError) {
                        try await BlockingThread.run { self.handle(event, radio) }
                    } catch {
                        self.node.log.error("an event of BlueChat is dropped: \(error)")
                    }
                }
            }, { _ = await self.mesh.stopping.value })
    }

    // MARK: Receiving

    private func handle(_ event: ChatRadioEvent, _ radio: any ChatRadio) {
        let now = node.clock()
        switch event {
        case .found(let address, let name):
            guard let peer = admitPeer(at: address, named: name, over: radio, now: now) else { return }
            subscribers.publish(.peerChanged(peer.id))
            attempt { () throws(StorageError) in try sendOverBlueChat(to: peer.id) }
        case .gone(let address):
            guard let id = blueChat.lose(address) else { return }
            subscribers.publish(.peerChanged(id))
        case .text(let text, let address):
            guard let peer = admitPeer(at: address, named: nil, over: radio, now: now) else {
                return node.log.debug("a text over BlueChat is dropped: its author is not admitted")
            }
            guard blueChat.admitsText(from: peer.id, now: now) else {
                return node.log.debug("a text over BlueChat exceeds the rate limit, and is dropped")
            }
            guard text.utf8.count <= BlueChatPeers.maximumTextByteCount, text.contains(where: { !$0.isWhitespace }) else {
                return
            }
            attempt { () throws(StorageError) in
                try storeLine(
                    ChatMessage(
                        // No bundle has an ID of this form.
                        id: "bluechat-\(Hex.encode(node.random(16)))", conversation: .peer(peer.id), author: peer.id,
                        authorName: peer.name, text: text, when: node.wallClock(), status: .delivered))
            }
        }
    }

    private func admitPeer(
        at address: LinkAddress, named name: DisplayName?, over radio: any ChatRadio, now: MonotonicInstant
    ) -> BlueChatPeer? {
        let id = BlueChatPeers.id(of: address)
        // An address could be chosen whose ID is that of a peer with a key, to enter its conversation.
        guard endpointKeys(of: id) == nil, mesh.read({ $0.peer(id) }) == nil else { return nil }
        return blueChat.admit(id, at: address, name, over: radio, now: now)
    }

    // MARK: Sending

    /// Queues all waiting lines for a peer, in their order, and starts to send them.
    func sendOverBlueChat(to peer: PeerID) throws(StorageError) {
        for line in try store.pendingMessages()
        where line.message.conversation == .peer(peer) && claims.claim(line.message.id, parts: []) {
            if !blueChat.enqueue(line.message, to: peer) { claims.release(line.message.id) }
        }
        guard blueChat.beginSending(to: peer) else { return }
        mesh.start { [self] in
            do {
                try await BlockingThread.run { self.sendEnqueued(to: peer) }
            } catch {
                node.log.error("lines over BlueChat wait: \(error)")
                for id in blueChat.abandonQueue(of: peer, link: nil).ids { claims.release(id) }
            }
        }
    }

    /// Blocks until the queue is empty or the connection ends.
    private func sendEnqueued(to peer: PeerID) {
        while let next = blueChat.next(to: peer) {
            do throws(LinkError) {
                try send(next)
            } catch {
                node.log.debug("a line is kept for later: \(error)")
                let (ids, hasReconnected) = blueChat.abandonQueue(of: peer, link: next.link)
                for id in [next.message.id] + ids { claims.release(id) }
                if hasReconnected { attempt { () throws(StorageError) in try sendOverBlueChat(to: peer) } }
                return
            }
            claims.release(next.message.id)
        }
    }

    private func send(_ next: BlueChatPeers.Sending) throws(LinkError) {
        // The line may have been sent between its selection and its claim, or removed since.
        let stored: ChatMessage?
        do throws(StorageError) {
            stored = try store.message(next.message.id)
        } catch {
            throw LinkError(.unavailable, error.description)
        }
        guard let message = stored, message.status < .delivered else { return }
        let texts = message.text.split(maximumByteCount: BlueChatPeers.maximumTextByteCount)
        for (index, text) in texts.enumerated().dropFirst(next.sentCount) {
            try next.radio.send(text, to: next.address)
            blueChat.recordSent(index + 1, of: message.id, to: next.peer)
        }
        attempt { () throws(StorageError) in try updateStatus(of: message, to: .delivered) }
    }
}
