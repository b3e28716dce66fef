package import NearshareBase
internal import NearshareCrypto

/// Whether an announcement is to be believed (bitchat specification, section 4), before its signature is looked at.
package enum AnnouncementVerdict: Sendable, Hashable {
    case accept
    /// The id is not that of the key in it.
    case senderMismatch
    /// Too old, or from a clock that is too far ahead.
    case stale
    case ownAnnouncement

    package static let maximumAge = Duration.seconds(900)

    /// - Parameters:
    ///   - sender: of the packet that carried it.
    ///   - timestamp: of that packet, in milliseconds since 1970.
    package init(
        _ announcement: MeshAnnouncement, sender: PeerID, timestamp: UInt64, now: WallTime, own: PeerID
    ) {
        let limit = UInt64(Self.maximumAge.components.seconds) * 1000
        let now = UInt64(max(0, now.milliseconds))
        guard let key = try? AgreementPublicKey(announcement.noiseKey), Fingerprint(of: key).peerID == sender else {
            self = .senderMismatch
            return
        }
        guard sender != own else {
            self = .ownAnnouncement
            return
        }
        self = (timestamp > now ? timestamp - now : now - timestamp) <= limit ? .accept : .stale
    }
}

extension MeshFrame {
    /// Whether the packet carries a signature by this key.
    func isSigned(by key: SigningPublicKey) -> Bool {
        guard let signature = packet.signature else { return false }
        return signingPreimages.contains { key.isValid(signature, for: $0) }
    }
}

extension MeshPacket {
    /// The packet with our signature.
    func signed(by identity: LocalIdentity) throws(MalformedInput) -> MeshPacket {
        var packet = self
        packet.signature = identity.signingKey.signature(for: try signingPreimage())
        return packet
    }
}
