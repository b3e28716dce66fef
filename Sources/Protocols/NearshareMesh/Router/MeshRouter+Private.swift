package import NearshareBase
internal import NearshareCrypto

// Sessions with single peers, and what is said inside them (bitchat specification, sections 8 and 9).
extension MeshRouter {
    // MARK: What people want

    /// Sends a text to one peer; a session is made first where there is none. The peer's app says when it has arrived.
    /// - Parameter messageID: of the sender's choice, at most 255 bytes; by custom an upper-case UUID.
    package mutating func sendPrivateMessage(
        _ text: String, id messageID: String, to peer: PeerID, now: Moment
    ) throws(MeshSendError) {
        guard peers[peer] != nil else { throw .unknownPeer }
        guard text.utf8.count <= MeshPrivateMessage.maximumTextByteCount else {
            throw .textTooLong(limit: MeshPrivateMessage.maximumTextByteCount)
        }
        guard peers[peer]!.unanswered.count < Self.maximumWaitingCount else { throw .queueFull }
        let payload: [UInt8]
        do {
            payload = try MeshNoisePayload.privateMessage(MeshPrivateMessage(id: messageID, text: text)).encoded()
        } catch {
            throw .malformed(error)
        }
        peers[peer]!.unanswered.append(Unanswered(id: messageID, payload: payload, sent: now.monotonic))
        sendSealed(payload, to: peer, now: now)
    }

    /// Tells the sender of a message that it has been taken: kept where a person finds it. Until then it comes again, and after this
    /// a copy that comes is answered by itself.
    package mutating func acknowledge(_ messageID: String, of peer: PeerID, now: Moment) {
        guard peers[peer] != nil else { return }
        peers[peer]!.messageIDs.append(messageID)
        if peers[peer]!.messageIDs.count > Self.maximumTakenCount { peers[peer]!.messageIDs.removeFirst() }
        sendSealed(.delivered(messageID: messageID), to: peer, now: now)
    }

    /// Tells the sender of a message that a person has seen it.
    package mutating func acknowledgeRead(_ messageID: String, of peer: PeerID, now: Moment) {
        sendSealed(.readReceipt(messageID: messageID), to: peer, now: now)
    }

    /// Asks a peer whose verification code was scanned to prove that it holds both keys.
    package mutating func verify(_ challenge: MeshVerification.Challenge, with peer: PeerID, now: Moment) {
        sendSealed(.verifyChallenge(challenge), to: peer, now: now)
    }

    /// Sends a text to everybody. It is signed, and readable by all.
    package mutating func sendPublicMessage(_ text: String, now: Moment) throws(MeshSendError) {
        guard text.utf8.count <= Self.maximumPublicTextByteCount else {
            throw .textTooLong(limit: Self.maximumPublicTextByteCount)
        }
        let packet = MeshPacket(
            version: .v2, type: .message, timestamp: timestamp(now), sender: id, payload: Array(text.utf8)[...])
        // Phones expect version 1 wherever it can hold the text.
        var compatible = packet
        compatible.version = .v1
        send((try? compatible.encoded()) == nil ? packet : compatible, signing: true)
    }

    /// Asks a peer for a sign of life; `nonce` comes back in ``MeshEvent/pong(from:nonce:)``.
    package mutating func ping(_ peer: PeerID, nonce: [UInt8], now: Moment) {
        let ping = MeshPing(nonce: nonce, originTTL: MeshPacket.maximumTTL)
        let packet = MeshPacket(
            type: .ping, timestamp: timestamp(now), sender: id, recipient: peer, payload: ping.encoded[...])
        send(packet, signing: true)
    }

    // MARK: Sessions

    /// Begins a handshake, unless a session or a handshake is there: ``MeshEvent/sessionEstablished(_:)`` tells of its end.
    package mutating func ensureSession(with peer: PeerID, now: Moment) {
        guard makeRecord(peer, now: now.monotonic), !peers[peer]!.session.isEstablished else { return }
        startHandshake(with: peer, now: now)
    }

    private mutating func startHandshake(with peer: PeerID, now: Moment) {
        guard !peers[peer]!.session.isInitiating,
            let message = peers[peer]!.session.start(now: now.monotonic, ephemeral: randomBytes(32))
        else { return }
        sendHandshake(message, to: peer, now: now)
    }

    /// - Parameter everywhere: who claims to be that neighbour has not answered.
    private mutating func sendHandshake(_ message: [UInt8], to peer: PeerID, everywhere: Bool = false, now: Moment) {
        let packet = MeshPacket(
            type: .noiseHandshake, timestamp: timestamp(now), sender: id, recipient: peer, payload: message[...])
        // Signed, so that nobody can use up what the peer may begin.
        send(packet, signing: true, on: everywhere ? Array(links.keys) : nil)
    }

    mutating func handleHandshake(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let peer = frame.packet.sender
        let isVouched = peers[peer]?.signingKey.map { isSigned(frame, by: $0, from: link, now: now) } ?? false
        guard isVouched || links[link]?.handshakes.consume(now: now.monotonic) == true, makeRecord(peer, now: now.monotonic)
        else { return }
        let reaction = peers[peer]!.session.receive(
            handshake: frame.packet.payload, isVouched: isVouched, now: now.monotonic, ephemeral: randomBytes(32))
        switch reaction {
        case .ignore: return
        case .reply(let message): sendHandshake(message, to: peer, now: now)
        case .established(let proven, let reply):
            if let reply { sendHandshake(reply, to: peer, now: now) }
            peers[peer]!.state = nil
            peers[peer]!.sentState = nil
            peers[peer]!.provenLink = link
            peers[peer]!.noiseKey = proven.key
            peers[peer]!.lastHeard = now.monotonic
            sendState(to: peer, now: now)
            events.append(.sessionEstablished(proven))
            sendWaiting(to: peer, now: now)
            let early = peers[peer]!.early
            peers[peer]!.early = []
            for (frame, link) in early { handleSealed(frame, from: link, fragmentID: nil, now: now) }
        }
    }

    /// Once in a session, and again when the peer's does not come or comes again: one of the two got lost.
    mutating func sendState(to peer: PeerID, now: Moment) {
        guard peers[peer]!.sentState.map({ now.monotonic - $0 >= Self.stateInterval }) ?? true else { return }
        peers[peer]!.sentState = now.monotonic
        let state = MeshPeerState(capabilities: capabilities, signingKey: identity.signingKey.publicKey.bytes)
        sendSealed(.peerState(state), to: peer, now: now)
    }

    mutating func sendSealed(_ payload: MeshNoisePayload, to peer: PeerID, everywhere: Bool = false, now: Moment) {
        // Whatever has no bound of its own was checked where it came from.
        guard let bytes = try? payload.encoded() else { return }
        sendSealed(bytes, to: peer, everywhere: everywhere, now: now)
    }

    /// Seals and queues in one step, so that counters leave in their order. Without a session it waits for one.
    /// - Parameter everywhere: the peer has not answered, so it may not be where we think.
    mutating func sendSealed(_ payload: [UInt8], to peer: PeerID, everywhere: Bool = false, now: Moment) {
        guard makeRecord(peer, now: now.monotonic) else { return }
        guard !isSendingFile(toPhone: peer) else {
            if peers[peer]!.waiting.count < Self.maximumWaitingCount { peers[peer]!.waiting.append(payload) }
            return
        }
        guard let sealed = try? peers[peer]!.session.seal(payload, now: now.monotonic) else {
            if peers[peer]!.waiting.count < Self.maximumWaitingCount { peers[peer]!.waiting.append(payload) }
            startHandshake(with: peer, now: now)
            return
        }
        send(sealedPacket(sealed, to: peer, now: now), signing: true, on: everywhere ? Array(links.keys) : nil)
    }

    /// The windows of phones refuse some of what comes late, so nothing may overtake a file that was sealed before it
    /// (section 8.3).
    func isSendingFile(toPhone peer: PeerID) -> Bool {
        outgoing.contains { $0.key.peer == peer && $0.value.phase == .sending && !$0.value.isConfirmed }
    }

    /// What waited for a session, or for a file to be sent.
    mutating func sendWaiting(to peer: PeerID, now: Moment) {
        guard let waiting = peers[peer]?.waiting, !waiting.isEmpty else { return }
        peers[peer]!.waiting = []
        for payload in waiting { sendSealed(payload, to: peer, now: now) }
    }

    /// - Parameter version: phones write files in version 2, all else in version 1.
    func sealedPacket(
        _ sealed: [UInt8], to peer: PeerID, version: MeshPacket.Version = .v1, timestamp: UInt64
    ) -> MeshPacket {
        MeshPacket(
            version: version, type: .noiseEncrypted, timestamp: timestamp, sender: id, recipient: peer, payload: sealed[...])
    }

    private mutating func sealedPacket(_ sealed: [UInt8], to peer: PeerID, now: Moment) -> MeshPacket {
        sealedPacket(sealed, to: peer, timestamp: timestamp(now))
    }

    // MARK: What comes sealed

    mutating func handleSealed(
        _ frame: MeshFrame, from link: MeshLinkID, fragmentID: MeshFragment.ID?, now: Moment
    ) {
        let packet = frame.packet
        let peer = packet.sender
        // Whom nobody has heard of has no session; anybody can write any sender on a packet.
        guard peers[peer] != nil else { return }
        let plaintext: [UInt8]
        do {
            plaintext = try peers[peer]!.session.open(packet.payload, now: now.monotonic)
        } catch {
            recover(frame, from: link, now: now)
            return
        }
        // Only now, as others may write the peer's name on what they make up. Their share is that of their link.
        guard peers[peer]!.sealed.consume(now: now.monotonic), let proven = peers[peer]!.session.peer else { return }
        peers[peer]!.lastHeard = now.monotonic
        peers[peer]!.provenLink = link
        if let carry = carry(inSession: plaintext) { return events.append(.bundlePacket(carry, from: peer)) }
        guard let payload = try? MeshNoisePayload(decoding: plaintext[...]) else { return }
        switch payload {
        case .peerState(let state): handleState(state, of: peer, now: now)
        case .privateMessage(let message):
            guard !peers[peer]!.messageIDs.contains(message.id) else {
                return sendSealed(.delivered(messageID: message.id), to: peer, now: now)
            }
            events.append(.privateMessage(from: proven, id: message.id, text: message.text))
        case .delivered(let id):
            peers[peer]!.unanswered.removeAll { $0.id == id }
            events.append(.delivered(messageID: id, by: proven))
        case .readReceipt(let id):
            peers[peer]!.unanswered.removeAll { $0.id == id }
            events.append(.read(messageID: id, by: proven))
        case .file(let bytes): receivedFile(bytes, from: peer, proven: proven, fragmentID: fragmentID, now: now)
        case .fileControl(let control): handleControl(control, from: proven, now: now)
        case .verifyChallenge(let challenge):
            // Only for ourselves: nobody is to get our signature under somebody else's key.
            guard challenge.noiseKeyHex.lowercased() == Hex.encode(identity.agreementKey.publicKey.bytes) else { return }
            let signature = identity.signingKey.signature(for: MeshVerification.signedBytes(challenge))
            sendSealed(
                .verifyResponse(MeshVerification.Response(challenge: challenge, signature: signature)), to: peer, now: now)
        case .verifyResponse(let response): events.append(.verificationResponse(response, by: proven))
        // Live speech is passed on, not played.
        case .voiceFrame: return
        }
    }

    /// What is sealed for a session that is none here: one that is about to begin, or that the peer has and we have lost.
    private mutating func recover(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let peer = frame.packet.sender
        if peers[peer]!.session.isResponding {
            guard peers[peer]!.early.count < Self.maximumEarlyCount,
                frame.packet.payload.count <= Self.maximumEarlyByteCount
            else { return }
            peers[peer]!.early.append((frame, link))
            if let answer = peers[peer]!.session.repeatedAnswer(now: now.monotonic) {
                sendHandshake(answer, to: peer, now: now)
            }
            return
        }
        // Nearshare signs what it seals, so what has no signature of such a peer is a stranger's (M3).
        if let key = peers[peer]!.signingKey, speaksControl(peer), !isSigned(frame, by: key, from: link, now: now) { return }
        peers[peer]!.session.noteFailure()
        guard peers[peer]!.session.shouldStartAnew,
            peers[peer]!.recovered.map({ now.monotonic - $0 >= Self.recoveryInterval }) ?? true,
            links[link]?.handshakes.consume(now: now.monotonic) == true
        else { return }
        peers[peer]!.recovered = now.monotonic
        startHandshake(with: peer, now: now)
    }

    private mutating func handleState(_ state: MeshPeerState, of peer: PeerID, now: Moment) {
        guard let key = try? SigningPublicKey(state.signingKey) else { return }
        // Said under a proven key, it outranks what was announced.
        peers[peer]!.signingKey = key
        pins.insert(key, of: peer)
        let isRepeated = peers[peer]!.state == state
        peers[peer]!.state = state
        if isRepeated || peers[peer]!.sentState == nil { sendState(to: peer, now: now) }
        if let changed = self.peer(peer) { events.append(.peerChanged(changed)) }
        sessionIsReady(with: peer, now: now)
    }

    /// Handshakes that wait for an answer ask again.
    mutating func repeatHandshakes(now: Moment) {
        for peer in peers.keys {
            guard let message = peers[peer]!.session.repetition(now: now.monotonic) else { continue }
            sendHandshake(message, to: peer, everywhere: true, now: now)
        }
    }

    /// Messages that nobody has answered go once more, in the session that is there by then.
    mutating func retryMessages(now: Moment) {
        for peer in peers.keys {
            guard let record = peers[peer], !record.unanswered.isEmpty else { continue }
            for (index, message) in record.unanswered.enumerated().reversed() {
                guard now.monotonic - message.sent >= Self.answerTimeout else { continue }
                peers[peer]!.unanswered[index].sent = now.monotonic
                peers[peer]!.unanswered[index].attempts += 1
                if message.attempts >= Self.maximumAttempts {
                    peers[peer]!.unanswered.remove(at: index)
                    events.append(.undelivered(messageID: message.id, to: peer))
                } else if record.session.isEstablished {
                    sendSealed(message.payload, to: peer, everywhere: true, now: now)
                } else {
                    ensureSession(with: peer, now: now)
                }
            }
        }
    }

    private static let maximumWaitingCount = 64
    private static let maximumTakenCount = 256
    private static let maximumEarlyCount = 8
    private static let maximumEarlyByteCount = 4096
    /// Between two handshakes that begin because something could not be opened.
    private static let recoveryInterval = Duration.seconds(30)
    private static let stateInterval = Duration.seconds(2)
    private static let answerTimeout = Duration.seconds(5)
    private static let maximumAttempts = 5
    private static let maximumPublicTextByteCount = 60_000
}
