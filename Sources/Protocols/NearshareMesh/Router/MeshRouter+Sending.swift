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

    /// Asks a peer for a sign of life; `nonce` returns in ``MeshEvent/pong(from:nonce:)``.
    package mutating func ping(_ peer: PeerID, nonce: [UInt8], now: Moment) {
        let ping = MeshPing(nonce: nonce, originTTL: MeshPacket.maximumTTL)
        send(
            MeshPacket(
                type: .ping, timestamp: node.nextTimestamp(at: now), sender: id, recipient: peer, payload: ping.encoded[...]),
            isSigned: true)
    }

    // MARK: Bundles

    /// Limit on the packets of the bundle protocol, which are opaque to the router.
    package static let maximumBundlePacketByteCount = 32_768

    /// Neighbours that store and forward bundles. Without one, also peers behind phones, which relay the packets unread.
    package var bundleNeighbours: [BundleNeighbour] {
        let routing = routing
        let all = peers.records.compactMap { id, record -> BundleNeighbour? in
            guard let agreementKey = record.agreementKey, let signingKey = record.signingKey,
                // The capabilities stated in a session may be older than those announced since.
                record.announcedCapabilities?.contains(.bundles) == true
            else { return nil }
            return BundleNeighbour(
                id: id, agreementKey: agreementKey, signingKey: signingKey, isRadio: routing.isRadioOnly(record),
                isDirect: record.isNeighbour)
        }
        let direct = all.filter(\.isDirect)
        return direct.isEmpty ? all : direct
    }

    /// Sends a packet of the bundle protocol to one of ``bundleNeighbours``, unsealed.
    /// - Parameter packet: at most ``maximumBundlePacketByteCount`` bytes.
    package mutating func sendBundlePacket(_ packet: [UInt8], to peer: PeerID, now: Moment) {
        precondition(packet.count <= Self.maximumBundlePacketByteCount)
        let isDirect = peers.isNeighbour(peer)
        // The other end of a link needs no proof of the sender; a node behind relays does.
        send(
            MeshPacket(
                type: .bundle, ttl: isDirect ? 1 : MeshPacket.maximumTTL, timestamp: node.nextTimestamp(at: now), sender: id,
                recipient: peer, payload: packet[...]),
            isSigned: !isDirect)
    }

    /// Sends a packet of the bundle protocol inside the Noise session with one of ``bundleNeighbours``, so that it stays secret
    /// from an attacker that learns long-term keys later. Without a session it waits for one, and is dropped when the peer
    /// leaves before.
    /// - Parameter packet: at most ``maximumBundlePacketByteCount`` bytes.
    package mutating func sendSealedBundlePacket(_ packet: [UInt8], to peer: PeerID, now: Moment) {
        precondition(packet.count <= Self.maximumBundlePacketByteCount)
        sendSealed([Self.bundlePayloadKind] + packet, to: peer, now: now)
    }

    /// The packet of the bundle protocol in a decrypted session message; nil when it contains something else.
    func bundlePacket(inSession plaintext: [UInt8]) -> [UInt8]? {
        guard plaintext.first == Self.bundlePayloadKind, node.capabilities.contains(.bundles),
            plaintext.count <= 1 + Self.maximumBundlePacketByteCount
        else { return nil }
        return Array(plaintext.dropFirst())
    }

    /// Section 13, Modes, of `docs/PROTOCOL.md`. bitchat uses no such kind, and ignores those that it does not know.
    private static let bundlePayloadKind: UInt8 = 0x7d

    // MARK: Packets

    /// Sends a packet of this node: to its recipient if that is a neighbour, otherwise to everyone.
    /// - Parameter given: the links to use instead.
    mutating func send(_ packet: MeshPacket, isSigned: Bool, on given: [MeshLinkID]? = nil) {
        do {
            let packet = isSigned ? try node.sign(packet) : packet
            if packet.type == .message { sync.insert(try MeshFrame(packet, using: &node.compressor)) }
            let frame = try packet.encoded(isPadded: packet.isPaddedOnAir, using: &node.compressor)
            for link in given ?? routing.links(for: packet) { write(frame, of: packet, on: link, origin: .own) }
        } catch {
            // A bug of this program: packets that are sent this way were checked before.
            assertionFailure("\(error)")
        }
    }

    /// Queues a frame for a link, in fragments when it is too large for one write.
    mutating func write(_ frame: [UInt8], of packet: MeshPacket, on link: MeshLinkID, origin: FragmentJob.Origin) {
        guard let profile = links.profile(of: link) else { return }
        guard frame.count > profile.maximumFrameByteCount else {
            links.enqueue(frame, on: link, priority: LinkOutbox.Priority(of: packet.type, isRelayed: origin == .relayed))
            return
        }
        guard fragments.hasRoom(for: frame.count, origin: origin),
            let fragmentation = try? MeshFragmentation(
                packet, frame: frame, id: node.randomFragmentID(),
                chunkByteCount: MeshFragmentation.chunkByteCount(
                    forLargestWrite: profile.maximumFrameByteCount, route: packet.route))
        else { return }
        fragments.insert(FragmentJob(fragmentation, byteCount: frame.count, origin: origin, to: .link(link)))
    }

    mutating func sendDueFragments(now: Moment) {
        while !fragments.isEmpty, var fragment = fragments.popDue(now: now.monotonic, routing) {
            if fragment.isRepetition { fragment.packet.timestamp = node.nextRepetitionTimestamp() }
            // Fragments are cut to fit, so encoding one always succeeds.
            guard let frame = try? fragment.packet.encoded(compression: .none, using: &node.compressor) else { continue }
            for link in fragment.links {
                guard let profile = links.profile(of: link) else { continue }
                if frame.count <= profile.maximumFrameByteCount {
                    links.enqueue(frame, on: link, priority: .bulk)
                } else {
                    // Cut for another link, which has failed in the meantime.
                    write(frame, of: fragment.packet, on: link, origin: .own)
                }
            }
            guard case .file(let key) = fragment.origin else { continue }
            if !fragment.isRepetition { emit(.fragmentsSent(key, sent: fragment.sent, total: fragment.total)) }
            if fragment.isLast { perform(outgoing.finishSending(key, now: now.monotonic), now: now) }
        }
    }

    private static let maximumPublicTextByteCount = 60_000
}
