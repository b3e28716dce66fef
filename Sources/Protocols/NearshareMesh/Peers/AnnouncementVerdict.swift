package import NearshareBase
internal import NearshareCrypto

/// Whether an announcement is acceptable (bitchat specification, section 4), before its signature is checked.
package enum AnnouncementVerdict: Sendable, Hashable {
    case accept
    /// The sender's id does not belong to the key in the announcement.
    case senderMismatch
    /// Too old, or from a clock too far ahead.
    case stale
    case ownAnnouncement

    /// Limit on the difference between the announcement's timestamp and this machine's clock, either way.
    package static let maximumClockDifference = Duration.seconds(900)

    /// - Parameters:
    ///   - sender: the sender of its packet.
    ///   - timestamp: the packet's timestamp, in milliseconds since 1970.
    ///   - own: the id of this node.
    package init(
        _ announcement: MeshAnnouncement, sender: PeerID, timestamp: UInt64, now: WallTime, own: PeerID
    ) {
        let limit = UInt64(Self.maximumClockDifference.components.seconds) * 1000
        let now = now.unixMilliseconds
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
