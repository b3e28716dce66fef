package import NearshareBase
internal import NearshareCrypto

// Received frames: their checks, and their dispatch to the parts of the router.
extension MeshRouter {
    /// Processes a frame that arrived on a link. The work is bounded for any content, and causes at most one frame for each
    /// other link.
    package mutating func receive(_ bytes: ArraySlice<UInt8>, from link: MeshLinkID, now: Moment) {
        guard links[budget: link]?.admitFrame(now: now.monotonic) == true else { return }
        guard let frame = try? MeshFrame(decoding: bytes) else {
            links[budget: link]?.bytes.charge(Double(bytes.count))
            links[budget: link]?.malformedFrameCount += 1
            return
        }
        // Compressed payloads cost their original size (R2).
        links[budget: link]?.bytes.charge(Double(max(bytes.count, frame.packet.payload.count)))
        receive(frame, from: link, now: now)
        sendDueFragments(now: now)
    }

    private mutating func receive(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.sender != id, packet.sender != .broadcast else { return }
        let isSyncResponse = sync.isResponse(packet, from: peers.neighbours(on: link), now: now)
        guard isSyncResponse || isTimely(packet, isReassembled: false, now: now) else {
            reportClockSkew(frame, from: link, now: now)
            return
        }
        let key = PacketKey(of: packet)
        guard !history.isDuplicate(key, packet, isSyncResponse: isSyncResponse) else {
            relays.recordCopy(key, on: link)
            recordNeighbour(packet, ttl: packet.ttl, on: link, now: now)
            return
        }
        let handling = handle(frame, from: link, fragment: nil, now: now)
        guard handling != .rejected else { return }
        history.record(key, packet, isHandled: handling == .handled, now: now)
        if packet.recipient != id, !isSyncResponse { relay(frame, key, from: link, now: now) }
    }

    private func isTimely(_ packet: MeshPacket, isReassembled: Bool, now: Moment) -> Bool {
        TimestampWindow.window(for: packet, isReassembled: isReassembled).contains(packet.timestamp, now: now.wall)
    }

    private mutating func reportClockSkew(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.type == .announce, packet.ttl == MeshPacket.maximumTTL, timers.isClockWarningDue(now: now.monotonic),
            let announcement = try? MeshAnnouncement(decoding: packet.payload),
            let key = try? SigningPublicKey(announcement.signingKey), isSigned(frame, by: key, from: link, now: now)
        else { return }
        timers.recordClockWarning(now: now.monotonic)
        let wall = now.wall.unixMilliseconds
        let distance = max(packet.timestamp, wall) - min(packet.timestamp, wall)
        emit(.clockSkewDetected(from: packet.sender, by: .milliseconds(Int64(clamping: distance))))
    }

    // MARK: Dispatch

    /// The fragments from which a packet was reassembled. The packet itself is never relayed, because its fragments were.
    struct FragmentOrigin {
        let id: MeshFragment.ID
        let ttl: UInt8
    }

    enum Handling {
        /// Not authentic: neither recorded nor relayed.
        case rejected
        case handled
        /// Not known to this node, or for another one.
        case notForThisNode
    }

    private mutating func handle(
        _ frame: MeshFrame, from link: MeshLinkID, fragment: FragmentOrigin?, now: Moment
    ) -> Handling {
        let packet = frame.packet
        let isForThisNode = packet.recipient == id
        let isForEveryone = !packet.isDirected
        switch packet.type {
        case .announce: return handleAnnouncement(frame, ttl: fragment?.ttl ?? packet.ttl, from: link, now: now)
        case .message where isForEveryone: return handleMessage(frame, from: link, now: now)
        case .leave where isForEveryone: return handleLeave(frame, from: link, now: now)
        case .noiseHandshake where isForThisNode:
            handleHandshake(frame, from: link, now: now)
            return .handled
        case .noiseEncrypted where isForThisNode:
            handleSealed(frame, from: link, fragmentID: fragment?.id, now: now)
            return .handled
        case .fragment where isForThisNode || isForEveryone:
            return handleFragment(packet, from: link, inside: fragment, now: now)
        case .fileTransfer where isForThisNode || isForEveryone:
            return handleUnsealedFile(frame, from: link, fragmentID: fragment?.id, now: now)
        case .requestSync:
            answerSyncRequest(frame, from: link, now: now)
            return .handled
        case .ping where isForThisNode: return answerPing(packet, from: link, now: now)
        case .pong where isForThisNode:
            guard let ping = try? MeshPing(decoding: packet.payload) else { return .rejected }
            emit(.pong(from: packet.sender, nonce: ping.nonce))
            return .handled
        case .bundle where isForThisNode: return handleBundlePacket(frame, from: link, now: now)
        default: return .notForThisNode
        }
    }

    // MARK: Signatures

    enum SignatureCheck {
        case valid
        /// Also returned when the link's budget is used up.
        case invalid
        /// The sender has not announced a key.
        case unknownSender
    }

    mutating func checkSignature(of frame: MeshFrame, from link: MeshLinkID, now: Moment) -> SignatureCheck {
        guard let key = peers[frame.packet.sender]?.signingKey else { return .unknownSender }
        return isSigned(frame, by: key, from: link, now: now) ? .valid : .invalid
    }

    /// Checks a signature at the cost of the link on which the frame was received (M2, R9).
    /// - Returns: false also when the link's budget is used up.
    mutating func isSigned(_ frame: MeshFrame, by key: SigningPublicKey, from link: MeshLinkID, now: Moment) -> Bool {
        guard frame.packet.signature != nil,
            links[budget: link]?.admitSignature(byteCount: frame.packet.payload.count, now: now.monotonic) == true
        else { return false }
        return frame.isSigned(by: key, using: &node.compressor)
    }

    // MARK: Announcements

    private mutating func handleAnnouncement(
        _ frame: MeshFrame, ttl: UInt8, from link: MeshLinkID, now: Moment
    ) -> Handling {
        let packet = frame.packet
        let sender = packet.sender
        guard packet.payload.count <= Self.maximumAnnouncementByteCount,
            let announcement = try? MeshAnnouncement(decoding: packet.payload),
            AnnouncementVerdict(announcement, sender: sender, timestamp: packet.timestamp, now: now.wall, own: id) == .accept,
            let agreementKey = try? AgreementPublicKey(announcement.noiseKey),
            let signingKey = try? SigningPublicKey(announcement.signingKey),
            let name = DisplayName(truncating: announcement.nickname),
            peers.permits(signingKey, for: sender), isSigned(frame, by: signingKey, from: link, now: now)
        else { return .rejected }
        // Identities cost nothing: a link adds new ones at a limited rate, and known ones stay (R6).
        guard peers[sender]?.agreementKey != nil || links[budget: link]?.newPeers.consume(now: now.monotonic) == true else {
            return .rejected
        }

        let before = peers.peer(sender)
        guard ensureRecord(sender, now: now.monotonic) else { return .rejected }
        peers.pin(signingKey, for: sender, now: now.monotonic)
        recordNeighbour(packet, ttl: ttl, on: link, now: now)
        guard
            peers.apply(
                announcement, name: name, agreementKey: agreementKey, timestamp: packet.timestamp, from: sender)
        else { return .handled }
        sync.insert(frame)
        if let peer = peers.peer(sender), peer != before { emit(.peerChanged(peer)) }
        return .handled
    }

    /// Makes the sender of an unrelayed announcement a neighbour: it is at the other end of the link.
    private mutating func recordNeighbour(_ packet: MeshPacket, ttl: UInt8, on link: MeshLinkID, now: Moment) {
        guard packet.type == .announce, ttl >= MeshPacket.maximumTTL, links.contains(link) else { return }
        switch peers.addLink(link, to: packet.sender) {
        case .unchanged: return
        case .newLink: sync.requestSoon(on: link, now: now.monotonic)
        case .newNeighbour(let peer):
            sync.requestSoon(on: link, now: now.monotonic)
            emit(.peerChanged(peer))
        }
    }

    private mutating func handleLeave(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumLeaveByteCount else { return .rejected }
        switch checkSignature(of: frame, from: link, now: now) {
        case .unknownSender: return .notForThisNode
        case .invalid: return .rejected
        case .valid:
            // A packet from before the peer's latest announcement has no effect (M3).
            if let record = peers[packet.sender], packet.timestamp > record.announcementTimestamp { forget(packet.sender) }
            return .handled
        }
    }

    // MARK: Public messages

    private mutating func handleMessage(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumTextByteCount,
            let text = String(validating: packet.payload, as: UTF8.self)
        else { return .rejected }
        let check = checkSignature(of: frame, from: link, now: now)
        guard check != .unknownSender, let sender = peers.peer(packet.sender) else { return .notForThisNode }
        guard check == .valid, peers.admitPublicMessage(from: packet.sender, now: now.monotonic) else { return .rejected }
        sync.insert(frame)
        emit(
            .publicMessage(
                from: sender,
                id: DerivedMessageID.idOfPublicMessage(sender: packet.sender, timestamp: packet.timestamp, text: text),
                text: text,
                sent: WallTime(milliseconds: Int64(clamping: packet.timestamp))))
        return .handled
    }

    /// Only a neighbour that has signed the request gets an answer.
    private mutating func answerSyncRequest(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let sender = frame.packet.sender
        guard frame.packet.ttl == 0, let record = peers[sender], record.links.contains(link), let key = record.signingKey,
            isSigned(frame, by: key, from: link, now: now),
            let request = try? MeshSyncRequest(decoding: frame.packet.payload)
        else { return }
        for missing in sync.answer(request, of: sender, now: now.monotonic) {
            var packet = missing.packet
            packet.ttl = 0
            packet.isSyncResponse = true
            // The signature covers neither field, so it stays valid.
            guard let bytes = try? packet.encoded(using: &node.compressor) else { continue }
            write(bytes, of: packet, on: link, origin: .relayed)
        }
    }

    private mutating func answerPing(_ packet: MeshPacket, from link: MeshLinkID, now: Moment) -> Handling {
        // An answer costs a signature.
        guard let ping = try? MeshPing(decoding: packet.payload),
            links[budget: link]?.signatures.consume(now: now.monotonic) == true
        else { return .rejected }
        let pong = MeshPacket(
            type: .pong, timestamp: node.nextTimestamp(at: now), sender: id, recipient: packet.sender,
            payload: ping.encoded[...])
        send(pong, isSigned: true)
        return .handled
    }

    // MARK: Bundles

    /// A bundle packet is opaque here: the program decodes it.
    private mutating func handleBundlePacket(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard node.capabilities.contains(.bundles), packet.payload.count <= Self.maximumBundlePacketByteCount else {
            return .rejected
        }
        if peers[packet.sender]?.links.contains(link) != true {
            switch checkSignature(of: frame, from: link, now: now) {
            case .unknownSender: return .notForThisNode
            case .invalid: return .rejected
            case .valid: break
            }
        }
        emit(.bundlePacket(Array(packet.payload), from: packet.sender))
        return .handled
    }

    // MARK: Fragments

    private mutating func handleFragment(
        _ packet: MeshPacket, from link: MeshLinkID, inside outer: FragmentOrigin?, now: Moment
    ) -> Handling {
        guard let fragment = try? MeshFragment(decoding: packet.payload) else { return .rejected }
        let isExpected = incoming.acceptedFile(fragment.id, from: packet.sender) != nil
        switch assembler.add(fragment, from: packet.sender, on: link, isExpected: isExpected, now: now.monotonic) {
        case .started, .stored:
            let count = assembler.progress(of: fragment.id, from: packet.sender)?.received ?? 0
            reportFragment(fragment, from: packet.sender, receivedCount: count)
            return .handled
        case .oversized: return .rejected
        case .complete(let bytes):
            reportFragment(fragment, from: packet.sender, receivedCount: fragment.total)
            handleReassembled(bytes, of: fragment, in: packet, from: link, inside: outer, now: now)
            return .handled
        }
    }

    private mutating func reportFragment(_ fragment: MeshFragment, from sender: PeerID, receivedCount: Int) {
        guard let progress = incoming.recordFragment(fragment, from: sender, receivedCount: receivedCount) else { return }
        emit(.fragmentsReceived(progress))
    }

    private mutating func handleReassembled(
        _ bytes: [UInt8], of fragment: MeshFragment, in packet: MeshPacket, from link: MeshLinkID,
        inside outer: FragmentOrigin?,
        now: Moment
    ) {
        // A relay may have had to cut a fragment once more, but never twice.
        guard let whole = try? MeshFrame(decodingReassembled: bytes), whole.packet.sender == packet.sender,
            whole.packet.type != .fragment || outer == nil, isTimely(whole.packet, isReassembled: true, now: now)
        else { return }
        let key = PacketKey(of: whole.packet)
        guard whole.packet.type == .fragment || !history.isDuplicate(key, whole.packet, isSyncResponse: false) else { return }
        let origin = FragmentOrigin(id: fragment.id, ttl: outer?.ttl ?? packet.ttl)
        if handle(whole, from: link, fragment: origin, now: now) == .handled, whole.packet.type != .fragment {
            history.record(key, whole.packet, now: now)
        }
    }

    // MARK: Relaying

    private mutating func relay(_ frame: MeshFrame, _ key: PacketKey, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        let context = RelayContext(
            type: packet.type, ttl: packet.ttl, hasRecipient: packet.recipient != nil, degree: peers.degree)
        guard settings.isRelaying, let decision = RelayDecision(context) else { return }
        let targets = routing.links(for: packet, excluding: link)
        guard !targets.isEmpty, relays.hasRoom(for: frame.bytes) else { return }
        var bytes = frame.bytes(withTTL: decision.ttl)
        if packet.isPaddedOnAir { bytes = MeshPadding.padded(bytes) }
        relays.insert(
            RelayQueue.Relay(frame: bytes, packet: packet, links: targets), key, size: frame.bytes.count,
            due: now.monotonic + node.randomDelay(for: decision))
    }

    private static let maximumTextByteCount = 60_000
    /// Six fields of 255 bytes, and some to spare.
    private static let maximumAnnouncementByteCount = 2048
    private static let maximumLeaveByteCount = 1024
}
