internal import NearshareBase
internal import NearshareCrypto
internal import NearshareSecurity
internal import NearshareWire

extension MeshRouter {
    /// A frame has come. Whatever is in it: bounded work, and at most one frame to each other link for it.
    public mutating func receive(_ bytes: ArraySlice<UInt8>, from link: MeshLinkID, now: MeshMoment) {
        guard links[link] != nil, links[link]!.frames.take(now: now.monotonic) else { return }
        guard let frame = try? MeshFrame(decoding: bytes) else {
            links[link]!.malformedCount += 1
            return
        }
        take(frame, from: link, now: now)
        sendDueFragments(now: now.monotonic)
    }

    private mutating func take(_ frame: MeshFrame, from link: MeshLinkID, now: MeshMoment) {
        let packet = frame.packet
        guard packet.sender != id, packet.sender != .everybody else { return }
        let isAnswer = isSyncAnswer(packet, from: link, now: now)
        guard isAnswer || isTimely(packet, now: now) else {
            noteClock(frame, from: link, now: now)
            return
        }
        let packetID = MeshPacketID(of: packet)
        guard !isRepeated(packet, packetID, isAnswer: isAnswer) else {
            // Heard from somebody else before we passed it on: where there are many, that was enough.
            if degree > 2 { waitingRelays.remove(packetID) }
            noteNeighbour(packet, on: link, now: now)
            return
        }
        switch handle(frame, from: link, fragmentID: nil, now: now) {
        case .refused: return
        case .handled, .notForUs: break
        }
        if packet.type == .fragment {
            seenFragments.insert(packetID, at: now)
        } else {
            seen.insert(packetID, at: now)
        }
        let isOurs = packet.recipient == id
        if !isOurs, !isAnswer { relay(frame, packetID, from: link, now: now) }
    }

    private func isRepeated(_ packet: MeshPacket, _ packetID: MeshPacketID, isAnswer: Bool) -> Bool {
        if packet.type == .fragment { return seenFragments.contains(packetID) }
        return seen.contains(packetID) || (!isAnswer && seen.isForgotten(timestamp: packet.timestamp))
    }

    /// Sent at most two minutes ago, by a clock at most two minutes off (section 3); pieces of something large take longer to
    /// come.
    private func isTimely(_ packet: MeshPacket, now: MeshMoment) -> Bool {
        distance(packet, now) <= (packet.type == .fragment ? 900_000 : 120_000)
    }

    private func distance(_ packet: MeshPacket, _ now: MeshMoment) -> UInt64 {
        let wall = UInt64(max(0, now.wall.milliseconds))
        return packet.timestamp > wall ? packet.timestamp - wall : wall - packet.timestamp
    }

    private mutating func noteClock(_ frame: MeshFrame, from link: MeshLinkID, now: MeshMoment) {
        guard frame.packet.type == .announce, frame.packet.ttl == MeshPacket.maximumTTL,
            toldOfClock.map({ now.monotonic - $0 > .seconds(600) }) ?? true,
            let announcement = try? MeshAnnouncement(decoding: frame.packet.payload),
            let key = try? SigningPublicKey(announcement.signingKey), links[link]!.signatures.take(now: now.monotonic),
            frame.isSigned(by: key)
        else { return }
        toldOfClock = now.monotonic
        events.append(
            .clockDiffers(from: frame.packet.sender, by: .milliseconds(Int64(clamping: distance(frame.packet, now)))))
    }

    enum Handling {
        /// Not genuine: not remembered, not passed on.
        case refused
        case handled
        /// Nothing that this node understands, or for somebody else.
        case notForUs
    }

    /// - Parameter fragmentID: what it was put together from; such a packet is never passed on.
    mutating func handle(
        _ frame: MeshFrame, from link: MeshLinkID, fragmentID: MeshFragment.ID?, now: MeshMoment
    ) -> Handling {
        let packet = frame.packet
        let isForUs = packet.recipient == id
        let isForAll = !packet.isDirected
        switch packet.type {
        case .announce: return handleAnnouncement(frame, from: link, now: now)
        case .message where isForAll: return handleMessage(frame, from: link, now: now)
        case .leave where isForAll:
            guard let isGenuine = isGenuine(frame, from: link, now: now) else { return .notForUs }
            guard isGenuine else { return .refused }
            forget(packet.sender)
            return .handled
        case .noiseHandshake where isForUs:
            handleHandshake(packet, now: now)
            return .handled
        case .noiseEncrypted where isForUs:
            handleSealed(packet, fragmentID: fragmentID, now: now)
            return .handled
        case .fragment where isForUs || isForAll:
            return handleFragment(packet, from: link, isNested: fragmentID != nil, now: now)
        case .fileTransfer where isForUs || isForAll:
            guard let isGenuine = isGenuine(frame, from: link, now: now) else { return .notForUs }
            guard isGenuine else { return .refused }
            receivedFile(packet.payload, from: packet.sender, proven: nil, fragmentID: fragmentID, now: now)
            return .handled
        case .requestSync:
            answerSyncRequest(frame, from: link, now: now)
            return .handled
        case .ping where isForUs:
            guard let ping = try? MeshPing(decoding: packet.payload) else { return .refused }
            let pong = MeshPacket(
                type: .pong, timestamp: timestamp(now), sender: id, recipient: packet.sender, payload: ping.encoded[...])
            send(pong, signing: true)
            return .handled
        case .pong where isForUs:
            guard let ping = try? MeshPing(decoding: packet.payload) else { return .refused }
            events.append(.pong(from: packet.sender, nonce: ping.nonce))
            return .handled
        default: return .notForUs
        }
    }

    // MARK: Who somebody is

    /// nil when the sender has not announced a key yet.
    private mutating func isGenuine(_ frame: MeshFrame, from link: MeshLinkID, now: MeshMoment) -> Bool? {
        guard let key = peers[frame.packet.sender]?.signingKey else { return nil }
        guard links[link]?.signatures.take(now: now.monotonic) == true else { return false }
        return frame.isSigned(by: key)
    }

    private mutating func handleAnnouncement(_ frame: MeshFrame, from link: MeshLinkID, now: MeshMoment) -> Handling {
        let packet = frame.packet
        guard let announcement = try? MeshAnnouncement(decoding: packet.payload),
            AnnouncementVerdict(
                announcement, sender: packet.sender, timestamp: packet.timestamp, now: now.wall, own: id) == .accept,
            let noiseKey = try? AgreementPublicKey(announcement.noiseKey),
            let signingKey = try? SigningPublicKey(announcement.signingKey),
            let name = DisplayName(truncating: announcement.nickname)
        else { return .refused }
        // The first key that was accepted stays, until the peer proves another inside a session (K2).
        if let pinned = peers[packet.sender]?.signingKey, pinned != signingKey { return .refused }
        guard links[link]?.signatures.take(now: now.monotonic) == true, frame.isSigned(by: signingKey) else { return .refused }

        let before = peer(packet.sender)
        guard makeRecord(packet.sender, now: now.monotonic) else { return .refused }
        peers[packet.sender]!.name = name
        peers[packet.sender]!.noiseKey = noiseKey
        peers[packet.sender]!.signingKey = signingKey
        peers[packet.sender]!.capabilities = announcement.capabilities
        peers[packet.sender]!.lastHeard = now.monotonic
        noteNeighbour(packet, on: link, now: now)
        store.insert(frame, id: MeshPacketID(of: packet))
        if let peer = peer(packet.sender), peer != before { events.append(.peerChanged(peer)) }
        return .handled
    }

    /// An announcement that nobody has passed on yet comes from the other end of the link (section 4). Somebody may replay
    /// one within its two minutes: what is for that peer then goes there as well, and nothing is taken away from the real one.
    private mutating func noteNeighbour(_ packet: MeshPacket, on link: MeshLinkID, now: MeshMoment) {
        guard packet.type == .announce, packet.ttl >= MeshPacket.maximumTTL, peers[packet.sender]?.signingKey != nil,
            links[link] != nil, peers[packet.sender]!.links.count < 4
        else { return }
        let wasDirect = !peers[packet.sender]!.links.isEmpty
        guard peers[packet.sender]!.links.insert(link).inserted else { return }
        // A new neighbour knows others; not only when they announce themselves next should we.
        links[link]!.nextSyncRequest = min(links[link]!.nextSyncRequest, now.monotonic + Self.neighbourSyncPause)
        guard !wasDirect, let peer = peer(packet.sender) else { return }
        events.append(.peerChanged(peer))
    }

    /// - Returns: false when there are too many peers already (R6).
    mutating func makeRecord(_ id: PeerID, now: MonotonicInstant) -> Bool {
        guard peers[id] == nil else { return true }
        if peers.count >= Self.maximumPeerCount {
            let idle = peers.filter { $0.value.links.isEmpty && !$0.value.session.isEstablished }
            guard let oldest = idle.min(by: { $0.value.lastHeard < $1.value.lastHeard })?.key else { return false }
            forget(oldest)
        }
        peers[id] = PeerRecord(lastHeard: now, session: MeshPeerSession(own: identity, peerID: id))
        return true
    }

    // MARK: Public messages

    private mutating func handleMessage(_ frame: MeshFrame, from link: MeshLinkID, now: MeshMoment) -> Handling {
        let packet = frame.packet
        guard let isGenuine = isGenuine(frame, from: link, now: now), let sender = peer(packet.sender) else { return .notForUs }
        guard isGenuine, packet.payload.count <= Self.maximumTextByteCount,
            let text = String(validating: packet.payload, as: UTF8.self)
        else { return .refused }
        store.insert(frame, id: MeshPacketID(of: packet))
        let messageID = MeshMessageNames.publicMessageID(sender: packet.sender, timestamp: packet.timestamp, text: text)
        events.append(
            .publicMessage(
                from: sender, id: messageID, text: text, sent: WallTime(milliseconds: Int64(clamping: packet.timestamp))))
        return .handled
    }

    // MARK: Fragments

    private mutating func handleFragment(
        _ packet: MeshPacket, from link: MeshLinkID, isNested: Bool, now: MeshMoment
    ) -> Handling {
        guard let fragment = try? MeshFragment(decoding: packet.payload) else { return .refused }
        switch assembler.add(fragment, from: packet.sender, now: now.monotonic) {
        case .started, .stored: noteReceived(fragment, from: packet.sender)
        case .oversized: return .refused
        case .complete(let bytes):
            noteReceived(fragment, from: packet.sender, isWhole: true)
            guard let whole = try? MeshFrame(decodingAssembled: bytes), whole.packet.sender == packet.sender,
                // A relay may have had to cut a fragment once more, but nobody twice.
                whole.packet.type != .fragment || !isNested
            else { return .handled }
            let packetID = MeshPacketID(of: whole.packet)
            guard whole.packet.type == .fragment || !seen.contains(packetID) else { return .handled }
            if handle(whole, from: link, fragmentID: fragment.id, now: now) == .handled, whole.packet.type != .fragment {
                seen.insert(packetID, at: now)
            }
        }
        return .handled
    }

    // MARK: Passing on

    private mutating func relay(_ frame: MeshFrame, _ packetID: MeshPacketID, from link: MeshLinkID, now: MeshMoment) {
        let packet = frame.packet
        let context = RelayContext(
            type: packet.type, ttl: packet.ttl, hasRecipient: packet.recipient != nil, degree: degree)
        guard settings.isRelaying, let rule = RelayRule(context) else { return }
        let targets = route(of: packet, besides: link)
        guard !targets.isEmpty, relayByteCount + frame.bytes.count <= Self.maximumRelayByteCount else { return }
        var bytes = frame.bytes(withTTL: rule.ttl)
        if packet.isPaddedOnAir { bytes = MeshPadding.padded(bytes) }
        relayByteCount += bytes.count
        waitingRelays.insert(packetID)
        relays.insert(
            Relay(frame: bytes, packetID: packetID, links: targets, packet: packet),
            at: now.monotonic + rule.delay(using: &random))
    }

    private static let maximumTextByteCount = 60_000
    /// Until it has heard who asks.
    private static let neighbourSyncPause = Duration.milliseconds(100)
    private static let maximumRelayByteCount = 8 << 20
}
