package import NearshareBase
package import NearshareBundles
package import NearshareCrypto

/// Somebody with whom packets about carried messages can be exchanged.
package struct BundleNeighbour: Sendable, Hashable {
    package var id: PeerID
    /// As it announced them, and as they are pinned.
    package var agreementKey: AgreementPublicKey
    package var signingKey: SigningPublicKey
    /// Behind a Bluetooth link.
    package var isRadio: Bool
    /// At the other end of a link, rather than behind phones.
    package var isDirect: Bool
}

// Carried messages are another machine's affair; here their packets only get from one node to the next.
extension MeshRouter {
    /// Says from now on that this node carries messages.
    package mutating func enableBundles(now: Moment) {
        guard capabilities.insert(.bundles).inserted else { return }
        announce(on: Array(links.keys), now: now)
    }

    /// Neighbours who carry; where there is none, also those behind phones, which pass the packets on unread.
    package var bundleNeighbours: [BundleNeighbour] {
        let carriers = peers.compactMap { id, record -> BundleNeighbour? in
            guard let agreementKey = record.noiseKey, let signingKey = record.signingKey,
                // What a session has proven may be older than what was announced since.
                record.capabilities?.contains(.bundles) == true
            else { return nil }
            return BundleNeighbour(
                id: id, agreementKey: agreementKey, signingKey: signingKey,
                isRadio: isRadioOnly(record), isDirect: !record.links.isEmpty)
        }
        let direct = carriers.filter(\.isDirect)
        return direct.isEmpty ? carriers : direct
    }

    /// Whether all the links to somebody are radio; also for somebody without any.
    private func isRadioOnly(_ record: PeerRecord) -> Bool {
        record.links.compactMap { links[$0]?.profile }.allSatisfy(\.isRadio)
    }

    /// Whether what goes to somebody takes a Bluetooth hop, as far as it can be told here: of those who are no neighbours, whether the
    /// first hop is one.
    package func needsRadio(to id: PeerID) -> Bool {
        guard let record = peers[id], record.links.isEmpty else { return peers[id].map(isRadioOnly) ?? false }
        return !links.isEmpty && links.values.allSatisfy(\.profile.isRadio)
    }

    /// The keys that somebody has announced.
    package func keys(of id: PeerID) -> (agreementKey: AgreementPublicKey, signingKey: SigningPublicKey)? {
        guard let record = peers[id], let agreementKey = record.noiseKey, let signingKey = record.signingKey else { return nil }
        return (agreementKey, signingKey)
    }

    /// Whether the owner of the agreement key has said inside a session that the signing key is theirs, too.
    package func hasAuthenticatedKeys(_ id: PeerID) -> Bool {
        guard let record = peers[id], record.session.isEstablished, let signingKey = record.signingKey else { return false }
        return record.state?.signingKey == signingKey.bytes
    }

    /// Sends a packet to one of ``bundleNeighbours``.
    package mutating func sendBundlePacket(_ packet: BundlePacket, to id: PeerID, now: Moment) {
        let isDirect = peers[id].map { !$0.links.isEmpty } ?? false
        let packet = MeshPacket(
            type: .bundle, ttl: isDirect ? 1 : MeshPacket.maximumTTL, timestamp: timestamp(now), sender: self.id,
            recipient: id, payload: packet.encoded[...])
        // Who is at the other end of a link needs no proof of it; what phones pass on does.
        send(packet, signing: !isDirect)
    }

    /// Sends a packet to one of ``bundleNeighbours`` inside the Noise session with it, so that who learns long-term keys later can't read
    /// it. Where there is no session yet it waits for one; who is gone by then never gets it. It comes as
    /// ``MeshEvent/carry(_:from:)`` like any other.
    package mutating func sendSealedBundlePacket(_ packet: BundlePacket, to id: PeerID, now: Moment) {
        sendSealed([Self.carryPayloadKind] + packet.encoded, to: id, now: now)
    }

    /// What a session has opened; nil when it is about something else.
    func carry(inSession plaintext: [UInt8]) -> BundlePacket? {
        guard plaintext.first == Self.carryPayloadKind, capabilities.contains(.bundles),
            plaintext.count <= 1 + BundlePacket.maximumByteCount
        else { return nil }
        return try? BundlePacket(decoding: plaintext[1...])
    }

    mutating func handleCarry(_ frame: MeshFrame, from link: MeshLinkID, now: Moment) -> Handling {
        let packet = frame.packet
        guard capabilities.contains(.bundles), packet.payload.count <= BundlePacket.maximumByteCount,
            let carry = try? BundlePacket(decoding: packet.payload)
        else { return .refused }
        if peers[packet.sender]?.links.contains(link) != true {
            guard let isGenuine = isGenuine(frame, from: link, now: now) else { return .notForUs }
            guard isGenuine else { return .refused }
        }
        events.append(.bundlePacket(carry, from: packet.sender))
        return .handled
    }

    /// Section 13, Modes, of `docs/PROTOCOL.md`; bitchat has nothing of this number, and says nothing about what it doesn't know.
    private static let carryPayloadKind: UInt8 = 0x7d
}
