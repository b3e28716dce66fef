package import NearshareBase
internal import NearshareCrypto

// Received frames: their checks, and their dispatch to the parts of the router.
extension MeshRouter {
    /// Processes a frame that arrived on a link. Relays a packet to each other link once, and again only for copies with a
    /// higher ttl (``receiveHigherCopy(_:_:from:now:)``), at most three times; all other work is bounded by ``LinkBudgets``.
    package mutating func receive(_ bytes: ArraySlice<UInt8>, from link: MeshLinkID, now: Moment) {
        guard
            links.budgets.admitFrame(
                byteCount: bytes.count, isPlain: MeshFrame.isPlain(bytes), isUnrelayed: MeshFrame.isUnrelayed(bytes),
                on: link, now: now.monotonic),
            admitDecoding(bytes, from: link, now: now)
        else {
            unreadFrameCount += 1
            return
        }
        let frame = try? MeshFrame(decoding: bytes)
        links.budgets.charge(.bytes, Double(bytes.count), on: link, now: now.monotonic)
        chargeInflation(of: bytes, frame, from: link, now: now)
        guard let frame else { return links.recordMalformedFrame(on: link) }
        receive(frame, from: link, now: now)
        sendDueFragments(now: now)
    }

    /// Whether a frame is not compressed, or its link may have more bytes inflated.
    private mutating func admitDecoding(_ bytes: ArraySlice<UInt8>, from link: MeshLinkID, now: Moment) -> Bool {
        !MeshFrame.isCompressed(bytes) || links.budgets.consume(.inflatedBytes, on: link, now: now.monotonic)
    }

    /// Accounts for what decoding a frame has made of its bytes.
    private mutating func chargeInflation(
        of bytes: ArraySlice<UInt8>, _ frame: MeshFrame?, from link: MeshLinkID, now: Moment
    ) {
        let inflatedByteCount = MeshFrame.decodedByteCount(of: bytes, frame) - bytes.count
        links.budgets.charge(.inflatedBytes, Double(inflatedByteCount), on: link, now: now.monotonic)
    }

    private mutating func receive(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.sender != id, packet.sender != .broadcast else { return }
        let isSyncResponse = sync.isResponse(packet, from: peers.claimants(on: link), now: now)
        let packetID = MeshPacketID(of: packet)
        guard isSyncResponse || isTimely(packet, isReassembled: false, now: now) else {
            trace.record(.outsideTimeWindow(on: link), packet, id: packetID, at: now.wall)
            reportClockSkew(frame, from: link, now: now)
            return
        }
        let key = PacketKey(of: packet, id: packetID)
        guard !isDuplicate(key, packet, from: link, isSyncResponse: isSyncResponse, now: now) else {
            trace.record(.duplicate(on: link), packet, id: packetID, at: now.wall)
            relays.recordCopy(key, on: link)
            recordNeighbourClaim(packet, ttl: packet.ttl, on: link, now: now)
            receiveContestedFragment(packet, from: link, now: now)
            receiveHigherCopy(frame, key, from: link, now: now)
            return
        }
        let handling = handle(frame, from: link, fragment: nil, now: now)
        let decision: PacketTrace.Decision =
            switch handling {
            case .rejected: .rejected(on: link)
            case .handled, .undecryptable: .handled(on: link, ttl: packet.ttl)
            case .unverified: .unverified(on: link, ttl: packet.ttl)
            }
        trace.record(decision, packet, id: packetID, at: now.wall)
        guard handling != .rejected else { return }
        record(key, packet, from: link, isAuthentic: handling == .handled && packet.isPublic, now: now)
        if packet.recipient != id, !isSyncResponse {
            relay(frame, key, from: link, isAuthentic: handling == .handled && packet.isPublic, now: now)
        }
    }

    private func isDuplicate(
        _ key: PacketKey, _ packet: MeshPacket, from link: MeshLinkID, isSyncResponse: Bool, now: Moment
    ) -> Bool {
        history.isDuplicate(
            key, packet, from: source(of: link), isKnown: peers.isContact(packet.sender), isSyncResponse: isSyncResponse,
            now: now.monotonic)
    }

    private mutating func record(
        _ key: PacketKey, _ packet: MeshPacket, from link: MeshLinkID, isAuthentic: Bool, now: Moment
    ) {
        history.record(
            key, packet, from: source(of: link), isKnown: peers.isContact(packet.sender), isAuthentic: isAuthentic, now: now)
    }

    /// The host at the other end of a link.
    private func source(of link: MeshLinkID) -> PacketSource { links.source(of: link).map(PacketSource.host) ?? .gone }

    private func isTimely(_ packet: MeshPacket, isReassembled: Bool, now: Moment) -> Bool {
        TimestampWindow.window(for: packet, isReassembled: isReassembled).contains(packet.timestamp, now: now.wall)
    }

    /// Reports an announcement outside the window: the sender's clock or this one is wrong. Not so where it has another's id or a key
    /// that contradicts the pinned one, and where the sender has announced itself in time: then it is forged or replayed (M14).
    private mutating func reportClockSkew(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard packet.type == .announce, packet.ttl == MeshPacket.maximumTTL,
            timers.isClockWarningDue(about: packet.sender, now: now.monotonic),
            !hasTimelyAnnouncement(of: packet.sender, now: now),
            packet.payload.count <= Self.maximumAnnouncementByteCount,
            let announcement = try? MeshAnnouncement(decoding: packet.payload),
            AnnouncementVerdict(announcement, sender: packet.sender, timestamp: packet.timestamp, now: now.wall, own: id)
                != .senderMismatch,
            let key = try? SigningPublicKey(announcement.signingKey),
            peers.pinVerdict(on: key, of: packet.sender) == .accepted, verifySignature(of: frame, by: key, from: link, now: now)
        else { return }
        timers.recordClockWarning(about: packet.sender, now: now.monotonic)
        let wall = now.wall.unixMilliseconds
        let distance = max(packet.timestamp, wall) - min(packet.timestamp, wall)
        emit(.clockSkewDetected(from: packet.sender, by: .milliseconds(Int64(clamping: distance))))
    }

    /// Whether the latest announcement of a peer was in time, and has arrived within the length of the window.
    private func hasTimelyAnnouncement(of peer: PeerID, now: Moment) -> Bool {
        guard let latest = peers[peer]?.announcement, let received = latest.received else { return false }
        return TimestampWindow.hasRecent(latest.timestamp, receivedBefore: now.monotonic - received, now: now.wall)
    }

    // MARK: Dispatch

    /// The id and the ttl of the fragments from which a packet was reassembled. The packet itself is never relayed, because its
    /// fragments were.
    struct FragmentOrigin {
        let id: MeshFragment.ID
        let ttl: UInt8
    }

    enum Handling {
        /// Not authentic, malformed, a repetition, contested, or beyond a limit: neither recorded nor relayed.
        case rejected
        case handled
        /// A sealed packet that no session could open: handled, but its fragments may be forged.
        case undecryptable
        /// A packet for another node, of an unknown type, or of an unknown sender: relayed without a check of its content.
        case unverified
    }

    private mutating func handle(
        _ frame: MeshFrame, from link: MeshLinkID, fragment: FragmentOrigin?, now: Moment
    ) -> Handling {
        let packet = frame.packet
        let isForThisNode = packet.recipient == id
        let isForEveryone = !packet.isDirected
        switch packet.type {
        case .announce: return handleAnnouncement(frame, ttl: fragment?.ttl ?? packet.ttl, from: link, now: now)
        case .message where isForEveryone: return handlePublicMessage(frame, from: link, now: now)
        case .leave where isForEveryone: return handleLeave(frame, from: link, now: now)
        case .noiseHandshake where isForThisNode:
            handleHandshake(frame, from: link, now: now)
            return .handled
        case .noiseEncrypted where isForThisNode:
            return handleSealed(frame, from: link, fragmentID: fragment?.id, now: now)
        case .fragment where isForThisNode || isForEveryone:
            let handling = handleFragment(packet, from: link, inside: fragment, now: now)
            // No signature is checked before the packet is whole.
            if isForEveryone, fragment == nil, handling == .handled,
                links.budgets.consume(.storedFragments, on: link, now: now.monotonic)
            {
                storeForSync(frame, from: link)
            }
            return handling
        case .fileTransfer where isForThisNode || isForEveryone:
            return handleUnsealedFile(frame, from: link, fragmentID: fragment?.id, now: now)
        case .requestSync:
            answerSyncRequest(frame, from: link, now: now)
            return .handled
        case .ping where isForThisNode: return answerPing(packet, from: link, now: now)
        case .pong where isForThisNode: return handlePong(frame, from: link, now: now)
        case .bundle where isForThisNode: return handleBundlePacket(frame, from: link, now: now)
        default: return .unverified
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

    mutating func checkSignature(
        of frame: MeshFrame, from link: MeshLinkID, at cost: LinkWork = .signatures,
        now: Moment
    ) -> SignatureCheck {
        guard let key = peers[frame.packet.sender]?.signingKey else { return .unknownSender }
        return verifySignature(of: frame, by: key, from: link, at: cost, now: now) ? .valid : .invalid
    }

    /// Checks a signature at the cost of the link on which the frame was received (M2, R9).
    /// - Parameter cost: the bucket of packets of this kind, so that none uses up another's.
    /// - Returns: false also when the link's budget is used up, for signatures or for compressing payloads again (M20).
    mutating func verifySignature(
        of frame: MeshFrame, by key: SigningPublicKey, from link: MeshLinkID,
        at cost: LinkWork = .signatures, now: Moment
    ) -> Bool {
        // Answers to this node must not use up the rate of what the neighbour itself has to say.
        let cost = cost == .signatures && frame.packet.isSyncResponse ? .syncedSignatures : cost
        guard frame.packet.signature != nil,
            links.budgets.admitSignature(cost, byteCount: frame.packet.payload.count, on: link, now: now.monotonic)
        else { return false }
        if frame.isSignedAsReceived(by: key, using: &node.compressor) { return true }
        guard let byteCount = frame.recompressedByteCount,
            links.budgets.admitRecompression(byteCount: byteCount, on: link, now: now.monotonic)
        else { return false }
        let isSigned = frame.isSignedRecompressed(by: key, using: &node.compressor)
        links.budgets.chargeRecompression(byteCount: byteCount, isSigned: isSigned, on: link, now: now.monotonic)
        return isSigned
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
            let name = DisplayName(truncating: announcement.nickname)
        else { return .rejected }
        let isUnrelayed = ttl == MeshPacket.maximumTTL
        guard
            !peers.isRepetition(
                announcement, name: name, of: sender, on: link, isUnrelayed: isUnrelayed, now: now.monotonic)
        else { return .rejected }
        let pinned = peers.pinVerdict(on: signingKey, of: sender)
        guard pinned != .forged, !peers.hasLeft(sender, since: packet.timestamp, signingKey: signingKey),
            verifySignature(of: frame, by: signingKey, from: link, now: now)
        else { return .rejected }
        if pinned == .contested {
            contest(frame, from: link, now: now)
            return .rejected
        }
        // Identities cost nothing: a link adds new ones at a limited rate, and known ones stay (R6).
        guard
            peers[sender]?.agreementKey != nil || peers.isContact(sender)
                || links.budgets.admitNewPeer(ttl: ttl, on: link, now: now.monotonic)
        else { return .rejected }

        let before = peers.peer(sender)
        guard ensureRecord(sender, from: link, now: now.monotonic) else { return .rejected }
        if peers[sender]?.links.discovery == nil { peers.setDiscoveryLink(link, of: sender) }
        peers.pin(signingKey, for: sender, now: now.monotonic)
        let isNewer = peers.apply(
            announcement, name: name, agreementKey: agreementKey, timestamp: packet.timestamp, from: sender,
            now: now.monotonic)
        recordNeighbourClaim(packet, ttl: ttl, on: link, now: now)
        guard isNewer else { return .handled }
        storeForSync(frame, from: link)
        if ttl > 0 { peers.setHops(MeshPeer.hops(ttl: ttl), of: sender) }
        // Another path alone is no news.
        if let peer = peers.peer(sender), peer.withHops(of: before) != before { emit(.peerChanged(peer)) }
        return .handled
    }

    /// Handles an announcement whose key contradicts an earlier one under the same id. Only the owner of the id can establish a
    /// session, in which it states its key (K2).
    private mutating func contest(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let peer = frame.packet.sender
        guard links.budgets.consume(.handshakes, on: link, now: now.monotonic),
            ensureRecord(peer, from: link, now: now.monotonic)
        else { return }
        peers.contest(peer, by: frame)
        if sessions.isEstablished(peer) {
            sendPeerState(to: peer, now: now)
        } else {
            ensureSession(with: peer, now: now)
        }
    }

    /// Handles the announcement again that a session has proven to be genuine, and relays it: the nodes behind this one have the
    /// forged one.
    mutating func acceptProven(_ announcement: MeshFrame, from link: MeshLinkID, now: Moment) {
        guard handleAnnouncement(announcement, ttl: 0, from: link, now: now) == .handled else { return }
        let key = PacketKey(of: announcement.packet)
        record(key, announcement.packet, from: link, isAuthentic: true, now: now)
        relay(announcement, key, from: link, isAuthentic: true, now: now)
    }

    /// Records that the sender of an unrelayed announcement claims to be at the other end of the link, and asks it to prove that.
    private mutating func recordNeighbourClaim(_ packet: MeshPacket, ttl: UInt8, on link: MeshLinkID, now: Moment) {
        guard packet.type == .announce, ttl >= MeshPacket.maximumTTL, links.contains(link) else { return }
        switch peers.recordClaim(of: packet.sender, on: link) {
        case .unchanged: break
        case .newLink: sync.requestSoon(on: link, now: now.monotonic)
        case .newClaimant(let peer):
            sync.requestSoon(on: link, now: now.monotonic)
            emit(.peerChanged(peer))
        }
        guard peers.mayBeChallenged(packet.sender, on: link) else { return }
        let nonce = node.randomBytes(count: 8)
        if let challenge = peers.challenge(packet.sender, on: link, nonce: nonce, now: now.monotonic) {
            send(challenge, now: now)
        }
    }

    /// Records that a peer has proven its key on a link.
    mutating func recordProof(of id: PeerID, on link: MeshLinkID) {
        guard peers.prove(id, on: link) else { return }
        links.budgets.setKnown(peers.isContact(id), on: link)
        if let peer = peers.peer(id) { emit(.peerChanged(peer)) }
    }

    private mutating func handleLeave(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumLeaveByteCount else { return .rejected }
        switch checkSignature(of: frame, from: link, now: now) {
        case .unknownSender: return .unverified
        case .invalid: return .rejected
        case .valid:
            // A packet from before the peer's latest announcement has no effect (M3).
            if let record = peers[packet.sender], packet.timestamp > record.announcement.timestamp {
                peers.recordLeave(of: packet.sender, at: packet.timestamp)
                perform(outgoingFiles.endUnconfirmed(to: packet.sender), now: now)
                forget(packet.sender)
            }
            return .handled
        }
    }

    // MARK: Public messages

    private mutating func handlePublicMessage(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard packet.payload.count <= Self.maximumPublicTextByteCount,
            let text = String(validating: packet.payload, as: UTF8.self)
        else { return .rejected }
        guard let sender = peers.peer(packet.sender) else { return .unverified }
        let check = checkSignature(of: frame, from: link, now: now)
        guard check != .unknownSender else { return .unverified }
        // A text of few bytes may hold many (R2). What a link brings is shared by all senders behind it.
        guard check == .valid, peers.admitPublicMessage(from: packet.sender, now: now.monotonic),
            peers.isContact(packet.sender)
                || links.budgets.consume(
                    .publicTexts, Double(packet.payload.count + Self.textOverheadByteCount), on: link, now: now.monotonic)
        else { return .rejected }
        storeForSync(frame, from: link)
        // Phones send empty texts, too.
        guard text.contains(where: { !$0.isWhitespace }) else { return .handled }
        emit(
            .publicMessage(
                from: sender,
                id: DerivedMessageID.idOfPublicMessage(sender: packet.sender, timestamp: packet.timestamp, text: text),
                text: text, source: links.source(of: peers[packet.sender]?.links.discovery ?? link)))
        return .handled
    }

    /// Stores a public packet for neighbours that miss it. The packet counts towards the link over which its sender became known:
    /// another neighbour that is faster cannot make it part of its own share.
    mutating func storeForSync(_ frame: MeshFrame, from link: MeshLinkID) {
        let sender = frame.packet.sender
        let link = peers[sender]?.links.discovery ?? link
        sync.insert(frame, from: link, of: links.source(of: link), isKnown: peers.isContact(sender))
    }

    /// Answers a neighbour that has signed its request with the public packets that it misses.
    private mutating func answerSyncRequest(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) {
        let sender = frame.packet.sender
        guard frame.packet.ttl == 0, let record = peers[sender], record.links.claimed.contains(link),
            let key = record.signingKey, let request = try? MeshSyncRequest(decoding: frame.packet.payload),
            verifySignature(of: frame, by: key, from: link, at: .directedSignatures, now: now)
        else { return }
        for missing in sync.answer(request, on: link, now: now.monotonic) {
            var packet = missing.packet
            packet.ttl = 0
            packet.isSyncResponse = true
            // The signature covers neither field, so it stays valid.
            guard let bytes = try? packet.encoded(using: &node.compressor) else { continue }
            write(bytes, of: packet, on: link, origin: .relayed(from: link, isAuthentic: true))
            trace.record(.sentOnRequest(on: link), packet, at: now.wall)
        }
    }

    private mutating func answerPing(_ packet: MeshPacket, from link: MeshLinkID, now: Moment) -> Handling {
        // An answer costs a signature.
        guard let ping = try? MeshPing(decoding: packet.payload),
            links.budgets.consume(.pings, on: link, now: now.monotonic)
        else { return .rejected }
        // A neighbour asks who is at this end of the link.
        let isFromNeighbour = ping.originTTL == 1
        let pong = MeshPacket(
            type: .pong, ttl: isFromNeighbour ? 1 : MeshPacket.maximumTTL, timestamp: node.nextTimestamp(at: now), sender: id,
            recipient: packet.sender, payload: ping.encoded[...])
        send(pong, isSigned: true, on: isFromNeighbour ? [link] : nil)
        return .handled
    }

    private mutating func handlePong(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let peer = frame.packet.sender
        guard let ping = try? MeshPing(decoding: frame.packet.payload) else { return .rejected }
        guard peers.isChallenged(peer, on: link, nonce: ping.nonce) else {
            // Relays know the nonce, and could forge the pong. Nearshare signs its own; a phone may not.
            let mustBeSigned =
                frame.packet.signature != nil || peers[peer]?.announcement.capabilities?.contains(.fileOffers) == true
            guard links.budgets.consume(.pings, on: link, now: now.monotonic),
                !mustBeSigned || checkSignature(of: frame, from: link, at: .directedSignatures, now: now) != .invalid
            else { return .rejected }
            emit(.pong(from: peer, nonce: ping.nonce, hops: MeshPeer.hops(ttl: frame.packet.ttl)))
            return .handled
        }
        guard checkSignature(of: frame, from: link, at: .directedSignatures, now: now) == .valid else { return .rejected }
        recordProof(of: peer, on: link)
        return .handled
    }

    // MARK: Fragments

    private mutating func handleFragment(
        _ packet: MeshPacket, from link: MeshLinkID, inside outer: FragmentOrigin?, now: Moment
    ) -> Handling {
        guard let fragment = try? MeshFragment(decoding: packet.payload) else { return .rejected }
        switch incoming.add(fragment, from: packet.sender, on: link, now: now.monotonic) {
        case .rejected: return .rejected
        case .stored(let progress):
            if let progress { emit(.fragmentsReceived(progress)) }
            return .handled
        case .complete(let bytes, let progress):
            if let progress { emit(.fragmentsReceived(progress)) }
            var next: [UInt8]? = bytes
            while let bytes = next {
                let isGenuine = handleReassembled(bytes, of: fragment, in: packet, from: link, inside: outer, now: now)
                next = incoming.finish(
                    fragment, from: packet.sender, isGenuine: isGenuine,
                    trusting: peers[packet.sender]?.links.reverseRoute ?? link)
            }
            return .handled
        }
    }

    /// Adds a fragment to this link's set although another link brought it first: the other link may have forged further fragments
    /// of the packet.
    private mutating func receiveContestedFragment(_ packet: MeshPacket, from link: MeshLinkID, now: Moment) {
        guard packet.type == .fragment, packet.recipient == id || !packet.isDirected,
            let fragment = try? MeshFragment(decoding: packet.payload), incoming.isContested(fragment, from: packet.sender)
        else { return }
        _ = handleFragment(packet, from: link, inside: nil, now: now)
    }

    /// - Returns: false when the reassembled packet is not known to be the one that its sender fragmented.
    private mutating func handleReassembled(
        _ bytes: [UInt8], of fragment: MeshFragment, in packet: MeshPacket, from link: MeshLinkID,
        inside outer: FragmentOrigin?,
        now: Moment
    ) -> Bool {
        guard admitDecoding(bytes[...], from: link, now: now) else { return false }
        let whole = try? MeshFrame(decodingReassembled: bytes)
        // The bytes of the fragments were charged as they arrived.
        chargeInflation(of: bytes[...], whole, from: link, now: now)
        // A relay may have had to cut a fragment once more, but never twice.
        guard let whole, whole.packet.sender == packet.sender, whole.packet.type != .fragment || outer == nil else {
            return false
        }
        // A forger chooses the timestamp, and what to replay: neither ends the sets of other links.
        guard isTimely(whole.packet, isReassembled: true, now: now) else { return false }
        let key = PacketKey(of: whole.packet)
        guard
            whole.packet.type == .fragment || !isDuplicate(key, whole.packet, from: link, isSyncResponse: false, now: now)
        else {
            return false
        }
        let origin = FragmentOrigin(id: fragment.id, ttl: outer?.ttl ?? packet.ttl)
        let handling = handle(whole, from: link, fragment: origin, now: now)
        guard handling != .rejected else { return false }
        if handling != .unverified, whole.packet.type != .fragment {
            record(key, whole.packet, from: link, isAuthentic: whole.packet.isPublic, now: now)
            // Its fragments were relayed.
            history.recordRelay(of: key, whole.packet, ttl: max(1, min(origin.ttl, MeshPacket.maximumTTL)) - 1)
        }
        return handling != .undecryptable
    }

    // MARK: Relaying

    private mutating func relay(_ frame: MeshFrame, _ key: PacketKey, from link: MeshLinkID, isAuthentic: Bool, now: Moment) {
        let packet = frame.packet
        func drop(_ reason: PacketTrace.Reason) { trace.record(.notRelayed(reason), packet, at: now.wall) }
        guard settings.isRelaying else { return drop(.turnedOff) }
        guard let decision = relayDecision(for: packet) else { return drop(.spent) }
        let targets = routing.links(for: packet, excluding: link)
        guard !targets.isEmpty else { return drop(.noOtherLink) }
        guard relays.hasRoom(for: frame.bytes, from: link) else { return drop(.full) }
        // Most junk is unsigned, and any number of packets with made-up senders can be signed: both have a share of their own.
        let isAuthentic =
            isAuthentic
            || (packet.type != .fragment && checkSignature(of: frame, from: link, at: .relayedSignatures, now: now) == .valid)
        let isForKnownPeer = packet.isDirected && packet.recipient.map { peers[$0] != nil } ?? false
        guard
            isAuthentic && packet.isPublic
                || links.budgets.admitRelay(
                    byteCount: frame.bytes.count, isForKnownPeer: isForKnownPeer, on: link, now: now.monotonic)
        else { return drop(.overRate) }
        trace.record(.relayed(linkCount: targets.count, ttl: decision.ttl), packet, at: now.wall)
        history.recordRelay(of: key, packet, ttl: decision.ttl)
        var bytes = frame.relayedBytes(withTTL: decision.ttl)
        if packet.isPaddedOnWire { bytes = MeshPadding.padded(bytes) }
        var relayed = packet
        relayed.ttl = decision.ttl
        relayed.isSyncResponse = false
        relays.insert(
            RelayQueue.Relay(frame: bytes, packet: relayed, links: targets, from: link, isAuthentic: isAuthentic), key,
            due: now.monotonic + node.randomDelay(for: decision))
    }

    private func relayDecision(for packet: MeshPacket) -> RelayDecision? {
        RelayDecision(
            RelayContext(type: packet.type, ttl: packet.ttl, hasRecipient: packet.recipient != nil, degree: peers.degree))
    }

    /// Raises the ttl of a packet that is recorded already when a copy with a higher ttl arrives. The ttl is not signed: a faster
    /// neighbour could otherwise end a packet's way by lowering it (M18).
    ///
    /// Nothing is delivered again. A packet that still waits for its relay delay is changed there. One that was sent is relayed
    /// again where that gains at least ``minimumTTLGain`` hops, so no packet is relayed more than three times. Copies over longer
    /// paths seldom arrive that early, so honest networks hardly send more.
    private mutating func receiveHigherCopy(_ frame: MeshFrame, _ key: PacketKey, from link: MeshLinkID, now: Moment) {
        let packet = frame.packet
        guard let relayed = history.relayedTTL(of: key, packet), min(packet.ttl, MeshPacket.maximumTTL) > relayed + 1 else {
            return
        }
        let isAuthentic = history.isAuthentic(key, packet)
        if packet.type == .announce, isAuthentic {
            peers.lowerHops(to: MeshPeer.hops(ttl: packet.ttl), of: packet.sender, announcedAt: packet.timestamp)
        }
        guard settings.isRelaying, packet.recipient != id, let decision = relayDecision(for: packet), decision.ttl > relayed
        else {
            return
        }
        let isWorthwhile = relayed == 0 || decision.ttl - relayed >= Self.minimumTTLGain
        let targets = routing.links(for: packet, excluding: link)
        if relays.raiseTTL(of: key, to: decision.ttl, links: isWorthwhile ? targets : nil) {
            history.recordRelay(of: key, packet, ttl: decision.ttl)
            trace.record(.relayed(linkCount: targets.count, ttl: decision.ttl), packet, at: now.wall)
        } else if isWorthwhile {
            relay(frame, key, from: link, isAuthentic: isAuthentic, now: now)
        }
    }

    /// The smallest gain in hops for which a packet is relayed again.
    private static let minimumTTLGain: UInt8 = 2

    /// Six fields of 255 bytes, and some to spare.
    private static let maximumAnnouncementByteCount = 2048
    private static let maximumLeaveByteCount = 1024
    /// Bytes added to the size of a text in its link's budget, for the line of a conversation that it becomes: short texts
    /// cannot fill the store for less than they cost.
    private static let textOverheadByteCount = 256
}
