package import NearshareBase

// Packets of the bundle protocol, which are opaque to the router, and the neighbours for which there are any.
extension MeshRouter {
    /// Limit on the packets of the bundle protocol, which are opaque to the router.
    package static let maximumBundlePacketByteCount = 32_768

    /// Neighbours that store and forward bundles, and peers behind phones, which relay the packets unread: those that became
    /// known over a link at whose other end no such neighbour is. Of the peers behind a phone there are a few, contacts first.
    package var bundleNeighbours: [BundleNeighbour] {
        let routing = routing
        func carries(_ record: PeerRecord) -> Bool {
            // The capabilities stated in a session may be older than those announced since.
            record.announcement.capabilities?.contains(.bundles) == true
        }
        var direct: [BundleNeighbour] = []
        var behind: [MeshLinkID: [(record: PeerRecord, neighbour: BundleNeighbour)]] = [:]
        for (id, record) in peers.records where carries(record) {
            guard let agreementKey = record.agreementKey, let signingKey = record.signingKey else { continue }
            let link = record.isNeighbour ? links.best(of: record.links.proven) : record.links.discovery
            let neighbour = BundleNeighbour(
                id: id, agreementKey: agreementKey, signingKey: signingKey, isRadio: routing.isRadioOnly(record),
                isDirect: record.isNeighbour, source: link.flatMap { links.source(of: $0) })
            if record.isNeighbour {
                direct.append(neighbour)
            } else if let link = record.links.discovery, links.contains(link), !record.links.claimed.contains(link) {
                let claims = peers.claimants(on: link).compactMap { peers[$0] }
                guard !claims.isEmpty, !claims.contains(where: carries) else { continue }
                behind[link, default: []].append((record, neighbour))
            }
        }
        let indirect = behind.values.flatMap { peers in
            peers.sorted {
                ($0.record.isContact ? 0 : 1, $0.neighbour.id.hex) < ($1.record.isContact ? 0 : 1, $1.neighbour.id.hex)
            }
            .prefix(Self.maximumIndirectBundleNeighbourCount).map(\.neighbour)
        }
        return direct + indirect
    }

    /// Limit on the bundle neighbours behind a phone.
    private static let maximumIndirectBundleNeighbourCount = 8

    /// Sends a packet of the bundle protocol to one of ``bundleNeighbours``, unsealed. It is signed, because a receipt or a report
    /// in another's name could end the delivery of a bundle (B3).
    /// - Parameter packet: at most ``maximumBundlePacketByteCount`` bytes; a longer one is dropped.
    package mutating func sendBundlePacket(_ packet: [UInt8], to peer: PeerID, now: Moment) {
        guard packet.count <= Self.maximumBundlePacketByteCount else { return }
        send(
            MeshPacket(
                type: .bundle, ttl: peers.isNeighbour(peer) ? 1 : MeshPacket.maximumTTL,
                timestamp: node.nextTimestamp(at: now), sender: id, recipient: peer, payload: packet[...]),
            isSigned: true)
    }

    /// Sends a packet of the bundle protocol inside the Noise session with one of ``bundleNeighbours``, so that it stays secret
    /// from an attacker that learns long-term keys later. Without a session it waits for one, and is dropped when the peer
    /// leaves before.
    /// - Parameter packet: at most ``maximumBundlePacketByteCount`` bytes; a longer one is dropped.
    package mutating func sendSealedBundlePacket(_ packet: [UInt8], to peer: PeerID, now: Moment) {
        guard packet.count <= Self.maximumBundlePacketByteCount else { return }
        sendSealed([Self.bundlePayloadKind] + packet, to: peer, now: now)
    }

    // MARK: Receiving

    /// Handles a packet of the bundle protocol, which is opaque to the router: the program decodes it.
    mutating func handleBundlePacket(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard node.capabilities.contains(.bundles), packet.payload.count <= Self.maximumBundlePacketByteCount,
            admitBundlePacket(byteCount: packet.payload.count, of: packet.sender, on: link, now: now)
        else { return .rejected }
        switch checkSignature(of: frame, from: link, at: .directedSignatures, now: now) {
        case .unknownSender: return .unverified
        case .invalid: return .rejected
        case .valid: break
        }
        emit(.bundlePacket(Array(packet.payload), from: packet.sender))
        return .handled
    }

    /// Accounts for a packet of the bundle protocol, sealed or not. Contacts are exempt, whatever others use up. The sender may
    /// be forged until the signature is checked, which has a rate of its own.
    /// - Returns: false when it is to be dropped.
    mutating func admitBundlePacket(byteCount: Int, of sender: PeerID, on link: MeshLinkID, now: Moment) -> Bool {
        peers.isContact(sender)
            || links.budgets.consume(
                .bundles, Double(byteCount + Self.bundleOverheadByteCount), on: link, now: now.monotonic)
    }

    /// The packet of the bundle protocol in a decrypted session message; nil when it contains something else.
    func bundlePacket(inSession plaintext: [UInt8]) -> [UInt8]? {
        guard plaintext.first == Self.bundlePayloadKind, node.capabilities.contains(.bundles),
            plaintext.count <= 1 + Self.maximumBundlePacketByteCount
        else { return nil }
        return Array(plaintext.dropFirst())
    }

    /// Bytes added to the size of a packet in its link's budget, for the work that a packet of any size causes.
    private static let bundleOverheadByteCount = 256

    /// The kind of a bundle packet inside a session (`docs/PROTOCOL.md`, section 13, Modes). bitchat uses no such kind, and ignores
    /// those that it does not know.
    private static let bundlePayloadKind: UInt8 = 0x7d
}
