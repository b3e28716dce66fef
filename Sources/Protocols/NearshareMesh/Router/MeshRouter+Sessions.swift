package import NearshareBase
internal import NearshareCrypto

// Sessions with single peers, and the messages inside them (bitchat specification, sections 8 and 9).
extension MeshRouter {
    // MARK: Requests of the program

    /// Sends a text to one peer, after a handshake if there is no session. The peer's app sends a receipt for it.
    /// - Parameter messageID: chosen by the sender, at most 255 bytes; by convention an upper-case UUID.
    package mutating func sendPrivateMessage(
        _ text: String, id messageID: String, to peer: PeerID, now: Moment
    ) throws(MeshSendError) {
        try sendPrivateMessages([MeshPrivateMessage(id: messageID, text: text)], to: peer, now: now)
    }

    /// Sends the parts of a text to one peer, in their order: all of them, or none where one cannot be sent.
    package mutating func sendPrivateMessages(
        _ messages: [MeshPrivateMessage], to peer: PeerID, now: Moment
    ) throws(MeshSendError) {
        guard peers[peer] != nil else { throw .unknownPeer }
        // More would never fit, however long the program waits.
        let fitting = messages.prefix(PrivateMessages.maximumPendingCount)
        guard fitting.count == messages.count else {
            throw .textTooLong(limit: fitting.reduce(0) { $0 + $1.text.utf8.count })
        }
        var payloads: [[UInt8]] = []
        for message in messages {
            guard message.text.utf8.count <= MeshPrivateMessage.maximumTextByteCount else {
                throw .textTooLong(limit: MeshPrivateMessage.maximumTextByteCount)
            }
            do {
                payloads.append(try MeshNoisePayload.privateMessage(message).encoded())
            } catch {
                throw .malformed(error)
            }
        }
        guard privateMessages.hasRoom(for: peer, messageCount: messages.count) else { throw .queueFull }
        // Relays of phones delay each packet by a random time, and phones show texts as they come.
        let isOrdered = peers.peer(peer)?.isDirect != true
        for (message, payload) in zip(messages, payloads) {
            let isDue = privateMessages.insert(payload, id: message.id, to: peer, isOrdered: isOrdered, now: now.monotonic)
            if isDue { sendSealed(payload, to: peer, now: now) }
        }
    }

    /// Sends a receipt for a message that the program has stored for the user. Before that the message is repeated; afterwards
    /// the router alone answers a copy.
    package mutating func acknowledge(_ messageID: String, of peer: PeerID, now: Moment) {
        guard peers[peer] != nil else { return }
        privateMessages.recordAcknowledgement(messageID, of: peer)
        sendSealed(.delivered(messageID: messageID), to: peer, now: now)
    }

    /// Sends a receipt for a message that the user has seen.
    package mutating func acknowledgeRead(_ messageID: String, of peer: PeerID, now: Moment) {
        sendSealed(.readReceipt(messageID: messageID), to: peer, now: now)
    }

    /// Asks a peer whose verification code was scanned to prove that it holds both keys.
    package mutating func verify(_ challenge: MeshVerification.Challenge, with peer: PeerID, now: Moment) {
        sendSealed(.verifyChallenge(challenge), to: peer, now: now)
    }

    /// Starts a handshake, unless there is a session or a handshake already. Its success is reported as
    /// ``MeshEvent/sessionEstablished(_:)``.
    package mutating func ensureSession(with peer: PeerID, now: Moment) {
        guard ensureRecord(peer, now: now.monotonic), !sessions.isEstablished(peer) else { return }
        startHandshake(with: peer, now: now)
    }

    // MARK: Handshakes

    private mutating func startHandshake(with peer: PeerID, now: Moment) {
        guard !sessions.isInitiating(peer),
            let message = sessions.start(with: peer, now: now.monotonic, ephemeral: node.randomBytes(count: 32))
        else { return }
        sendHandshake(message, to: peer, now: now)
    }

    /// - Parameter onAllLinks: on all links, because the neighbour that claims to be the peer has not answered.
    mutating func sendHandshake(_ message: [UInt8], to peer: PeerID, onAllLinks: Bool = false, now: Moment) {
        let packet = MeshPacket(
            type: .noiseHandshake, timestamp: node.nextTimestamp(at: now), sender: id, recipient: peer, payload: message[...])
        // Signed, so that no forger can use up this node's share of handshakes at the peer.
        send(packet, isSigned: true, on: onAllLinks ? Array(links.ids) : nil)
    }

    mutating func handleHandshake(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let peer = frame.packet.sender
        let isSignedByPeer =
            peers[peer]?.signingKey.map {
                verifySignature(of: frame, by: $0, from: link, at: .directedSignatures, now: now)
            } ?? false
        guard isSignedByPeer || links.budgets.consume(.handshakes, on: link, now: now.monotonic),
            ensureRecord(peer, from: link, now: now.monotonic)
        else { return }
        let reaction = sessions.receive(
            handshake: frame.packet.payload, from: peer,
            isSigned: isSignedByPeer || peers.provenNeighbour(on: link) == peer, on: link, now: now.monotonic,
            ephemeral: node.randomBytes(count: 32))
        switch reaction {
        case .ignore: return
        case .reply(let message): sendHandshake(message, to: peer, now: now)
        case .established(let authenticated, let reply):
            if let reply { sendHandshake(reply, to: peer, now: now) }
            peers.beginSession(with: peer, key: authenticated.key, over: link, now: now.monotonic)
            if frame.packet.ttl >= MeshPacket.maximumTTL { recordProof(of: peer, on: link) }
            sendPeerState(to: peer, now: now)
            emit(.sessionEstablished(authenticated))
            deliverTexts(of: peer, now: now)
            sendQueued(to: peer, now: now)
            privateMessages.repeatSoon(to: peer, now: now.monotonic)
            for early in sessions.drainBuffered(of: peer) {
                _ = handleSealed(early.frame, from: early.link, fragmentID: nil, now: now)
            }
        }
    }

    /// States this node's capabilities and signing key inside the session, unless it did so recently.
    mutating func sendPeerState(to peer: PeerID, now: Moment) {
        guard sessions.admitPeerState(to: peer, now: now.monotonic) else { return }
        let state = MeshPeerState(
            capabilities: node.capabilities, signingKey: node.identity.signingKey.publicKey.bytes,
            fragmentLimit: UInt16(clamping: MeshFragment.maximumCount))
        sendSealed(.peerState(state), to: peer, now: now)
    }

    // MARK: Sealing

    mutating func sendSealed(_ payload: MeshNoisePayload, to peer: PeerID, onAllLinks: Bool = false, now: Moment) {
        // Payloads without a bound of their own were checked by their creators.
        guard let bytes = try? payload.encoded() else { return }
        sendSealed(bytes, to: peer, onAllLinks: onAllLinks, now: now)
    }

    /// Seals and queues in one step, so that counters are sent in order. Without a session the payload waits for one.
    /// - Parameter onAllLinks: on all links, because the peer has not answered and may not be where it was last heard.
    mutating func sendSealed(_ payload: [UInt8], to peer: PeerID, onAllLinks: Bool = false, now: Moment) {
        guard ensureRecord(peer, now: now.monotonic) else { return }
        guard !outgoingFiles.isSendingToPhone(peer) else { return sessions.queue(payload, for: peer, now: now.monotonic) }
        guard let sealed = sessions.sealOrQueue(payload, for: peer, now: now.monotonic) else {
            return startHandshake(with: peer, now: now)
        }
        let packet = MeshPacket(
            type: .noiseEncrypted, timestamp: node.nextTimestamp(at: now), sender: id, recipient: peer, payload: sealed[...])
        send(packet, isSigned: true, on: onAllLinks ? Array(links.ids) : nil)
    }

    /// Sends the payloads that waited for a session, or for a file to a phone to end.
    mutating func sendQueued(to peer: PeerID, now: Moment) {
        for payload in sessions.drainQueue(of: peer) { sendSealed(payload, to: peer, now: now) }
    }

    // MARK: Sealed messages

    mutating func handleSealed(
        _ frame: MeshFrame, from link: MeshLinkID, fragmentID: MeshFragment.ID?, now: Moment
    ) -> Handling {
        let peer = frame.packet.sender
        // An unknown peer has no session; any node can put any sender id on a packet.
        guard peers[peer] != nil else { return .handled }
        switch sessions.open(frame.packet.payload, from: peer, now: now.monotonic) {
        case .failed:
            handleUndecryptable(frame, from: link, now: now)
            return .undecryptable
        case .dropped(let counter): deliverTexts(of: peer, after: counter, now: now)
        case .opened(let message, let authenticated):
            // The message may be the one for which a later text waits.
            defer { deliverTexts(of: peer, after: message.counter, now: now) }
            peers.recordAuthenticated(peer, over: link, now: now.monotonic)
            if fragmentID == nil, frame.packet.ttl >= MeshPacket.maximumTTL { recordProof(of: peer, on: link) }
            if let packet = bundlePacket(inSession: message.plaintext) {
                if admitBundlePacket(byteCount: packet.count, of: peer, on: link, now: now) {
                    emit(.bundlePacket(packet, from: peer))
                }
                return .handled
            }
            // Senders repeat texts and files that are not acknowledged.
            guard peers.isContact(peer) || links.budgets.consume(.sealedPayloads, on: link, now: now.monotonic),
                let payload = try? MeshNoisePayload(decoding: message.plaintext[...])
            else { return .handled }
            // A link changes no order. What a neighbour has sealed before may be a file, which takes its time.
            let counter = frame.packet.ttl >= MeshPacket.maximumTTL ? nil : message.counter
            handle(payload, counter: counter, from: authenticated, over: link, fragmentID: fragmentID, now: now)
        }
        return .handled
    }

    private mutating func receive(
        _ text: MeshPrivateMessage, counter: UInt32?, from peer: AuthenticatedPeer, now: Moment
    ) {
        guard !privateMessages.isAcknowledged(text.id, of: peer.id) else {
            return sendSealed(.delivered(messageID: text.id), to: peer.id, now: now)
        }
        sessions.insert(.init(peer: peer, message: text), counter: counter, of: peer.id, now: now.monotonic)
    }

    private mutating func deliverTexts(of peer: PeerID, after counter: UInt32? = nil, now: Moment) {
        for text in sessions.popTexts(of: peer, after: counter, now: now.monotonic) {
            emit(.privateMessage(from: text.peer, id: text.message.id, text: text.message.text))
        }
    }

    /// Delivers the texts that have waited long enough for an earlier message.
    mutating func deliverDueTexts(now: Moment) {
        for peer in sessions.peersWithDueTexts(now: now.monotonic) { deliverTexts(of: peer, now: now) }
    }

    /// - Parameter counter: that of a message before which others may still arrive; nil for any other one.
    private mutating func handle(
        _ payload: MeshNoisePayload, counter: UInt32?, from peer: AuthenticatedPeer, over link: MeshLinkID,
        fragmentID: MeshFragment.ID?, now: Moment
    ) {
        switch payload {
        case .peerState(let state): handlePeerState(state, of: peer.id, over: link, now: now)
        case .privateMessage(let text): receive(text, counter: counter, from: peer, now: now)
        case .delivered(let id):
            recordReceipt(id, from: peer.id, now: now)
            emit(.delivered(messageID: id, by: peer))
        case .readReceipt(let id):
            recordReceipt(id, from: peer.id, now: now)
            emit(.read(messageID: id, by: peer))
        case .file(let bytes):
            receiveFile(bytes, from: peer.id, authenticated: peer, fragmentID: fragmentID, now: now)
        case .fileControl(let control): handle(control, from: peer, now: now)
        case .verifyChallenge(let challenge):
            // Only for this node's own key: no peer gets a signature under another key.
            guard challenge.noiseKeyHex.lowercased() == Hex.encode(node.identity.agreementKey.publicKey.bytes) else { return }
            let signature = node.identity.signingKey.signature(for: MeshVerification.signedBytes(challenge))
            sendSealed(
                .verifyResponse(MeshVerification.Response(challenge: challenge, signature: signature)), to: peer.id, now: now)
        case .verifyResponse(let response): emit(.verificationResponse(response, by: peer))
        // Live speech is relayed, not played.
        case .voiceFrame: return
        }
    }

    /// Handles a message that belongs to no session of this node: the session is about to be established, or this node has lost
    /// it.
    private mutating func handleUndecryptable(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let peer = frame.packet.sender
        if sessions.isResponding(peer) {
            if let answer = sessions.bufferUntilEstablished(frame, over: link, now: now.monotonic) {
                sendHandshake(answer, to: peer, now: now)
            }
            return
        }
        // Nearshare signs what it seals, so an unsigned message of such a peer is forged (M3).
        if let record = peers[peer], record.supports(.fileOffers), let key = record.signingKey,
            !verifySignature(of: frame, by: key, from: link, at: .directedSignatures, now: now)
        {
            return
        }
        guard sessions.recordFailure(of: peer, now: now.monotonic),
            links.budgets.consume(.handshakes, on: link, now: now.monotonic)
        else { return }
        sessions.recordRenewal(with: peer, now: now.monotonic)
        startHandshake(with: peer, now: now)
    }

    private mutating func recordReceipt(_ messageID: String, from peer: PeerID, now: Moment) {
        guard let next = privateMessages.recordReceipt(messageID, from: peer, now: now.monotonic) else { return }
        sendSealed(next, to: peer, now: now)
    }

    private mutating func handlePeerState(_ state: MeshPeerState, of id: PeerID, over link: MeshLinkID, now: Moment) {
        guard let key = try? SigningPublicKey(state.signingKey) else { return }
        if peers.hasStated(state, signingKey: key, id) { return sendPeerState(to: id, now: now) }
        let genuine = peers.apply(state, signingKey: key, of: id)
        if let genuine { acceptProven(genuine, from: link, now: now) }
        if !sessions.hasSentPeerState(to: id) { sendPeerState(to: id, now: now) }
        if let changed = peers.peer(id) { emit(.peerChanged(changed)) }
        sendWaitingFiles(to: id, now: now)
    }

    // MARK: Time

    /// Sends unacknowledged messages again, in the current session.
    mutating func retryMessages(now: Moment) {
        let isBusy = { [outgoingFiles] in outgoingFiles.isSendingToPhone($0) }
        for reaction in privateMessages.advance(to: now.monotonic, excluding: isBusy) {
            switch reaction {
            case .failed(let messageID, let peer): emit(.undelivered(messageID: messageID, to: peer))
            case .resend(let payload, let peer):
                if sessions.isEstablished(peer) {
                    sendSealed(payload, to: peer, onAllLinks: true, now: now)
                } else {
                    ensureSession(with: peer, now: now)
                }
            }
        }
    }
}
