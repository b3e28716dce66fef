package import NearshareBase
internal import NearshareCrypto

extension MeshRouter {
    /// A frame has come. Whatever is in it: bounded work, and at most one frame to each other link for it.
    package mutating func receive(_ bytes: ArraySlice<UInt8>, from link: MeshLinkID, now: Moment) {
        guard links[link] != nil, links[link]!.frames.consume(now: now.monotonic),
            links[link]!.bytes.consume(now: now.monotonic)
        else { return }
        guard let frame = try? MeshFrame(decoding: bytes) else {
            links[link]!.bytes.charge(Double(bytes.count))
            links[link]!.malformedCount += 1
            return
        }
        // What is inflated costs what it has become (R2).
        links[link]!.bytes.charge(Double(max(bytes.count, frame.packet.payload.count)))
        take(frame, from: link, now: now)
        sendDueFragments(now: now.monotonic)
    }

    private mutating func take(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.sender != id, packet.sender != .everybody else { return }
        let isAnswer = isSyncAnswer(packet, from: link, now: now)
        guard isAnswer || isTimely(packet, isAssembled: false, now: now) else {
            noteClock(frame, from: link, now: now)
            return
        }
        let key = PacketKey(of: packet)
        guard !isRepeated(packet, key, isAnswer: isAnswer) else {
            // Whoever says it has it.
            waitingRelays[key]?.insert(link)
            noteNeighbour(packet, ttl: packet.ttl, on: link, now: now)
            return
        }
        let handling = handle(frame, from: link, fragment: nil, now: now)
        guard handling != .refused else { return }
        remember(key, packet, isHandled: handling == .handled, now: now)
        let isOurs = packet.recipient == id
        if !isOurs, !isAnswer { relay(frame, key, from: link, now: now) }
    }

    private mutating func remember(_ key: PacketKey, _ packet: MeshPacket, isHandled: Bool = true, now: Moment) {
        switch packet.type {
        case .fragment: seenFragments.insert(key, at: now)
        // One that could not be read yet, for want of a key, may be asked for later.
        case .message where isHandled: seenMessages.insert(key, at: now)
        default: seen.insert(key, at: now)
        }
    }

    /// Fragments that are forgotten may come again: a file is under way for long, and its pieces are worth little by themselves.
    private func isRepeated(_ packet: MeshPacket, _ key: PacketKey, isAnswer: Bool) -> Bool {
        switch packet.type {
        case .fragment: seenFragments.contains(key)
        // However old they are, as neighbours are asked for old ones.
        case .message:
            seenMessages.contains(key) || seenMessages.isForgotten(timestamp: packet.timestamp)
                || (!isAnswer && seen.contains(key))
        default: seen.contains(key) || (!isAnswer && seen.isForgotten(timestamp: packet.timestamp))
        }
    }

    /// Sent at most two minutes ago, by a clock at most two minutes off (section 3), also when it came in fragments. Something
    /// large takes longer to come.
    private func isTimely(_ packet: MeshPacket, isAssembled: Bool, now: Moment) -> Bool {
        let isLong = packet.type == .fragment || (isAssembled && [.fileTransfer, .noiseEncrypted].contains(packet.type))
        return isBetween(packet.timestamp, isLong ? Self.longestTransfer : Self.clockTolerance, Self.clockTolerance, now: now)
    }

    /// Sent at most `past` ago, and at most `future` ahead.
    func isBetween(_ timestamp: UInt64, _ past: Duration, _ future: Duration, now: Moment) -> Bool {
        let wall = UInt64(max(0, now.wall.milliseconds))
        return timestamp > wall
            ? timestamp - wall <= UInt64(future.components.seconds) * 1000
            : wall - timestamp <= UInt64(past.components.seconds) * 1000
    }

    private mutating func noteClock(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.type == .announce, packet.ttl == MeshPacket.maximumTTL,
            toldOfClock.map({ now.monotonic - $0 > .seconds(600) }) ?? true,
            let announcement = try? MeshAnnouncement(decoding: packet.payload),
            let key = try? SigningPublicKey(announcement.signingKey), isSigned(frame, by: key, from: link, now: now)
        else { return }
        toldOfClock = now.monotonic
        let wall = UInt64(max(0, now.wall.milliseconds))
        let distance = max(packet.timestamp, wall) - min(packet.timestamp, wall)
        events.append(.clockSkewDetected(from: packet.sender, by: .milliseconds(Int64(clamping: distance))))
    }

    /// What a packet was put together from: it is never passed on, and came as far as its fragments did.
    struct Fragments {
        let id: MeshFragment.ID
        let ttl: UInt8
    }

    enum Handling {
        /// Not genuine: not remembered, not passed on.
        case refused
        case handled
        /// Nothing that this node understands, or for somebody else.
        case notForUs
    }

    mutating func handle(
        _ frame: MeshFrame, from link: MeshLinkID, fragment: Fragments?, now: Moment
    ) -> Handling {
        let packet = frame.packet
        let isForUs = packet.recipient == id
        let isForAll = !packet.isDirected
        switch packet.type {
        case .announce: return handleAnnouncement(frame, ttl: fragment?.ttl ?? packet.ttl, from: link, now: now)
        case .message where isForAll: return handleMessage(frame, from: link, now: now)
        case .leave where isForAll:
            guard packet.payload.count <= Self.maximumLeaveByteCount else { return .refused }
            guard let isGenuine = isGenuine(frame, from: link, now: now) else { return .notForUs }
            guard isGenuine else { return .refused }
            // One from before the peer came back ends nothing (M3).
            if packet.timestamp > peers[packet.sender]!.announced { forget(packet.sender) }
            return .handled
        case .noiseHandshake where isForUs:
            handleHandshake(frame, from: link, now: now)
            return .handled
        case .noiseEncrypted where isForUs:
            handleSealed(frame, from: link, fragmentID: fragment?.id, now: now)
            return .handled
        case .fragment where isForUs || isForAll: return handleFragment(packet, from: link, inside: fragment, now: now)
        case .fileTransfer where isForUs || isForAll:
            guard let isGenuine = isGenuine(frame, from: link, now: now) else { return .notForUs }
            guard isGenuine else { return .refused }
            // Who can seal a file does; then nobody has asked it for one that isn't (K12).
            let canSeal = peers[packet.sender]?.state?.capabilities.contains(.privateMedia) ?? false
            if isForUs, canSeal || speaksControl(packet.sender) { return .handled }
            receivedFile(packet.payload, from: packet.sender, proven: nil, fragmentID: fragment?.id, now: now)
            return .handled
        case .requestSync:
            answerSyncRequest(frame, from: link, now: now)
            return .handled
        case .ping where isForUs:
            guard let ping = try? MeshPing(decoding: packet.payload) else { return .refused }
            // An answer costs a signature.
            guard links[link]?.signatures.consume(now: now.monotonic) == true else { return .refused }
            let pong = MeshPacket(
                type: .pong, timestamp: timestamp(now), sender: id, recipient: packet.sender, payload: ping.encoded[...])
            send(pong, signing: true)
            return .handled
        case .pong where isForUs:
            guard let ping = try? MeshPing(decoding: packet.payload) else { return .refused }
            events.append(.pong(from: packet.sender, nonce: ping.nonce))
            return .handled
        case .bundle where isForUs: return handleCarry(frame, from: link, now: now)
        default: return .notForUs
        }
    }

    // MARK: Who somebody is

    /// nil when the sender has not announced a key yet.
    mutating func isGenuine(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Bool? {
        guard let key = peers[frame.packet.sender]?.signingKey else { return nil }
        return isSigned(frame, by: key, from: link, now: now)
    }

    /// Checking costs us more than making up a signature costs others, and more for longer packets, so each link has a share
    /// (M2, R9).
    /// - Returns: false also when the link has used up its share.
    mutating func isSigned(_ frame: MeshFrame, by key: SigningPublicKey, from link: MeshLinkID, now: Moment) -> Bool {
        guard frame.packet.signature != nil, links[link]?.signatures.consume(now: now.monotonic) == true else { return false }
        links[link]!.signatures.charge(Double(frame.packet.payload.count / Self.bytesPerSignature))
        return frame.isSigned(by: key)
    }

    private mutating func handleAnnouncement(
        _ frame: MeshFrame, ttl: UInt8, from link: MeshLinkID, now: Moment
    ) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumAnnouncementByteCount,
            let announcement = try? MeshAnnouncement(decoding: packet.payload),
            AnnouncementVerdict(
                announcement, sender: packet.sender, timestamp: packet.timestamp, now: now.wall, own: id) == .accept,
            let noiseKey = try? AgreementPublicKey(announcement.noiseKey),
            let signingKey = try? SigningPublicKey(announcement.signingKey),
            let name = DisplayName(truncating: announcement.nickname)
        else { return .refused }
        // The first key that was accepted stays, until the peer proves another inside a session (K2).
        if let pinned = pins[packet.sender], pinned != signingKey { return .refused }
        guard isSigned(frame, by: signingKey, from: link, now: now) else { return .refused }
        // Identities cost nothing: a link brings so many new ones, and those who are known stay (R6).
        guard peers[packet.sender]?.noiseKey != nil || links[link]?.newcomers.consume(now: now.monotonic) == true else {
            return .refused
        }

        let before = peer(packet.sender)
        guard makeRecord(packet.sender, now: now.monotonic) else { return .refused }
        pins.insert(signingKey, of: packet.sender)
        peers[packet.sender]!.signingKey = signingKey
        peers[packet.sender]!.lastHeard = now.monotonic
        noteNeighbour(packet, ttl: ttl, on: link, now: now)
        // An older one that comes later, or again, changes nothing back (D5).
        guard packet.timestamp > peers[packet.sender]!.announced else { return .handled }
        peers[packet.sender]!.announced = packet.timestamp
        peers[packet.sender]!.name = name
        peers[packet.sender]!.noiseKey = noiseKey
        peers[packet.sender]!.capabilities = announcement.capabilities
        store.insert(frame)
        if let peer = peer(packet.sender), peer != before { events.append(.peerChanged(peer)) }
        return .handled
    }

    /// An announcement that nobody has passed on yet comes from the other end of the link (section 4). Somebody may replay
    /// one within its two minutes: what is for that peer then goes there as well, and nothing is taken away from the real one.
    private mutating func noteNeighbour(_ packet: MeshPacket, ttl: UInt8, on link: MeshLinkID, now: Moment) {
        guard packet.type == .announce, ttl >= MeshPacket.maximumTTL, peers[packet.sender]?.signingKey != nil,
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
            let idle = peers.filter { $0.value.links.isEmpty && !$0.value.session.isEstablished && !isNeeded($0.key) }
            // First those who have never announced themselves: anybody can write any sender on a packet.
            let nameless = idle.filter { $0.value.noiseKey == nil }
            let oldest = (nameless.isEmpty ? idle : nameless).min { $0.value.lastHeard < $1.value.lastHeard }?.key
            guard let oldest else { return false }
            forget(oldest)
        }
        peers[id] = PeerRecord(
            lastHeard: now, session: MeshPeerSession(own: identity, peerID: id, lifetime: settings.sessionLifetime),
            offers: TokenBucket(capacity: 32, perSecond: 2, now: now),
            sealed: TokenBucket(capacity: settings.sealedBurst, perSecond: settings.sealedPerSecond, now: now),
            messages: TokenBucket(capacity: settings.messageBurst, perSecond: settings.messagesPerSecond, now: now))
        return true
    }

    // MARK: Public messages

    private mutating func handleMessage(
        _ frame: MeshFrame, from link: MeshLinkID, now: Moment
    ) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumTextByteCount,
            let text = String(validating: packet.payload, as: UTF8.self)
        else { return .refused }
        guard let isGenuine = isGenuine(frame, from: link, now: now), let sender = peer(packet.sender) else { return .notForUs }
        guard isGenuine, peers[packet.sender]!.messages.consume(now: now.monotonic) else { return .refused }
        store.insert(frame)
        let messageID = DerivedMessageID.publicMessage(sender: packet.sender, timestamp: packet.timestamp, text: text)
        events.append(
            .publicMessage(
                from: sender, id: messageID, text: text, sent: WallTime(milliseconds: Int64(clamping: packet.timestamp))))
        return .handled
    }

    // MARK: Fragments

    private mutating func handleFragment(
        _ packet: MeshPacket, from link: MeshLinkID, inside outer: Fragments?, now: Moment
    ) -> Handling {
        guard let fragment = try? MeshFragment(decoding: packet.payload) else { return .refused }
        let file = expectedFile(fragment.id, from: packet.sender)
        switch assembler.add(fragment, from: packet.sender, on: link, isExpected: file != nil, now: now.monotonic) {
        case .started, .stored: noteReceived(fragment, from: packet.sender)
        case .oversized: return .refused
        case .complete(let bytes):
            noteReceived(fragment, from: packet.sender, isWhole: true)
            // A relay may have had to cut a fragment once more, but nobody twice.
            guard let whole = try? MeshFrame(decodingReassembled: bytes), whole.packet.sender == packet.sender,
                whole.packet.type != .fragment || outer == nil, isTimely(whole.packet, isAssembled: true, now: now)
            else { return .handled }
            let key = PacketKey(of: whole.packet)
            guard whole.packet.type == .fragment || !isRepeated(whole.packet, key, isAnswer: false) else { return .handled }
            let fragments = Fragments(id: fragment.id, ttl: outer?.ttl ?? packet.ttl)
            if handle(whole, from: link, fragment: fragments, now: now) == .handled, whole.packet.type != .fragment {
                remember(key, whole.packet, now: now)
            }
        }
        return .handled
    }

    // MARK: Passing on

    private mutating func relay(_ frame: MeshFrame, _ key: PacketKey, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        let context = RelayContext(
            type: packet.type, ttl: packet.ttl, hasRecipient: packet.recipient != nil, degree: degree)
        guard settings.isRelaying, let rule = RelayDecision(context) else { return }
        let targets = route(of: packet, besides: link)
        let cost = frame.bytes.count + Self.relayOverhead
        guard !targets.isEmpty, relayByteCount + cost <= Self.maximumRelayByteCount else { return }
        var bytes = frame.bytes(withTTL: rule.ttl)
        if packet.isPaddedOnAir { bytes = MeshPadding.padded(bytes) }
        relayByteCount += cost
        waitingRelays[key] = []
        relays.insert(
            Relay(frame: bytes, key: key, links: targets, packet: packet, cost: cost),
            at: now.monotonic + rule.delay(using: &random))
    }

    private static let maximumTextByteCount = 60_000
    /// Six fields of 255 bytes and some to spare.
    private static let maximumAnnouncementByteCount = 2048
    private static let maximumLeaveByteCount = 1024
    /// So much of a payload costs as much as a signature.
    private static let bytesPerSignature = 16_384
    /// How far clocks may differ, and how long a packet may be under way (section 3).
    static let clockTolerance = Duration.seconds(120)
    private static let longestTransfer = Duration.seconds(900)
    /// Until it has heard who asks.
    private static let neighbourSyncPause = Duration.milliseconds(100)
    private static let maximumRelayByteCount = 8 << 20
    /// What a waiting packet takes besides its bytes.
    private static let relayOverhead = 512
}
