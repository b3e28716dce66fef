package import NearshareBase
internal import NearshareCrypto

// Packets of this node, and frames that are queued in the outboxes of links.
extension MeshRouter {
    // MARK: Public messages and pings

    /// Sends a signed text to everyone.
    package mutating func sendPublicMessage(_ text: String, now: Moment) throws(MeshSendError) {
        guard text.utf8.count <= Self.maximumPublicTextByteCount else {
            throw .textTooLong(limit: Self.maximumPublicTextByteCount)
        }
        let packet = MeshPacket(
            version: .v2, type: .message, timestamp: node.nextTimestamp(at: now), sender: id, payload: Array(text.utf8)[...])
        // Phones expect version 1 wherever it can hold the text.
        var compatible = packet
        compatible.version = .v1
        send((try? compatible.encoded(using: &node.compressor)) == nil ? packet : compatible, isSigned: true)
    }

    /// Asks a peer for an answer; `nonce` returns in ``MeshEvent/pong(from:nonce:)``.
    package mutating func ping(_ peer: PeerID, nonce: [UInt8], now: Moment) {
        let ping = MeshPing(nonce: nonce, originTTL: MeshPacket.maximumTTL)
        send(
            MeshPacket(
                type: .ping, timestamp: node.nextTimestamp(at: now), sender: id, recipient: peer, payload: ping.encoded[...]),
            isSigned: true)
    }

    // MARK: Neighbours

    /// Asks a peer to prove that it is at the other end of a link.
    mutating func send(_ challenge: NeighbourChallenges.Challenge, now: Moment) {
        let ping = MeshPing(nonce: challenge.nonce, originTTL: 1)
        send(
            MeshPacket(
                type: .ping, ttl: 1, timestamp: node.nextTimestamp(at: now), sender: id, recipient: challenge.peer,
                payload: ping.encoded[...]),
            isSigned: false, on: [challenge.link])
    }

    // MARK: Packets

    /// Sends a packet of this node: to its recipient if that is a neighbour, otherwise to everyone.
    /// - Parameter given: the links to use instead.
    mutating func send(_ packet: MeshPacket, isSigned: Bool, on given: [MeshLinkID]? = nil) {
        do {
            let packet = isSigned ? try node.sign(packet) : packet
            if packet.type == .message { sync.insert(try MeshFrame(packet, using: &node.compressor)) }
            let frame = try packet.encoded(isPadded: packet.isPaddedOnWire, using: &node.compressor)
            let targets = given ?? routing.links(for: packet)
            for link in targets { write(frame, of: packet, on: link, origin: .own) }
            // The time of an own packet is that of its creation.
            trace.record(
                .sent(linkCount: targets.count), packet, at: WallTime(milliseconds: Int64(clamping: packet.timestamp)))
        } catch {
            // Packets that are sent this way were checked before. One that still cannot be encoded is lost, as on a radio link.
            return
        }
    }

    /// Queues a frame for a link, in fragments when it is too large for one write.
    mutating func write(_ frame: [UInt8], of packet: MeshPacket, on link: MeshLinkID, origin: FragmentJob.Origin) {
        guard let profile = links.profile(of: link) else { return }
        guard frame.count > profile.maximumFrameByteCount else {
            let priority = LinkOutbox.Priority(of: packet.type, isRelayed: origin.arrival != nil)
            links.enqueue(frame, on: link, priority: priority, origin: origin.outbox)
            return
        }
        guard fragments.hasRoom(for: frame.count, origin: origin) else { return }
        let write = profile.maximumFrameByteCount
        var original = packet
        let routed = MeshFragmentation.chunkByteCount(forLargestWrite: write, route: packet.route)
        // The fragments travel without the route; the packet that they form has it.
        if routed == nil { original.route = [] }
        let chunk = routed ?? MeshFragmentation.chunkByteCount(forLargestWrite: write)
        guard
            let fragmentation = try? MeshFragmentation(
                original, frame: frame, id: node.randomFragmentID(), chunkByteCount: chunk)
        else { return }
        fragments.insert(FragmentJob(fragmentation, byteCount: frame.count, origin: origin, to: .link(link)))
    }

    mutating func sendDueFragments(now: Moment) {
        while !fragments.isEmpty, var fragment = fragments.popDue(now: now.monotonic, routing) {
            if fragment.isRetransmission { fragment.packet.timestamp = node.nextRetransmissionTimestamp() }
            // Fragments are cut to fit, so encoding one always succeeds.
            guard let frame = try? fragment.packet.encoded(compression: .none, using: &node.compressor) else { continue }
            for link in fragment.links {
                guard let profile = links.profile(of: link) else { continue }
                if frame.count <= profile.maximumFrameByteCount {
                    links.enqueue(frame, on: link, priority: .bulk, origin: fragment.origin.outbox)
                } else if fragment.destination != .link(link) {
                    // Cut for another link, which has failed in the meantime. A fragment that was cut for this one is never cut again:
                    // it would not become smaller (M17).
                    write(frame, of: fragment.packet, on: link, origin: .own)
                }
            }
            guard case .file(let key) = fragment.origin else { continue }
            if key.peer == nil, let sent = try? MeshFrame(fragment.packet, using: &node.compressor) { sync.insert(sent) }
            if !fragment.isRetransmission { emit(.fragmentsSent(key, sent: fragment.sent, total: fragment.total)) }
            if fragment.isLast { perform(outgoingFiles.finishSending(key, now: now.monotonic), now: now) }
        }
    }

    /// Limit on a text to everyone, sent or received.
    static let maximumPublicTextByteCount = 60_000
}
