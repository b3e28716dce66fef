internal import NearshareBase
internal import NearshareCrypto

/// This node as the sender of packets: its keys and name, and the values that make each of its packets unique.
struct LocalNode: Sendable {
    let identity: LocalIdentity
    var name: DisplayName
    /// Announced to everyone, and repeated inside each session.
    var capabilities = MeshCapabilities.supported
    /// Reused for all packets that this node encodes or checks.
    var compressor = PayloadCompressor()
    private var random: any RandomNumberGenerator & Sendable
    private var lastTimestamp: UInt64 = 0

    /// - Parameter random: the kernel's generator in a real node, because keys are drawn from it.
    init(identity: LocalIdentity, name: DisplayName, random: any RandomNumberGenerator & Sendable) {
        self.identity = identity
        self.name = name
        self.random = random
    }

    var id: PeerID { identity.peerID }

    // MARK: Timestamps

    /// The timestamp of the next packet, in milliseconds since 1970. Strictly increasing: phones treat two packets of the same
    /// millisecond with the same beginning as one.
    mutating func nextTimestamp(at now: Moment) -> UInt64 {
        lastTimestamp = max(now.wall.unixMilliseconds, lastTimestamp + 1)
        return lastTimestamp
    }

    /// The timestamp of a fragment that is sent a second time: relays drop one that they have seen before.
    mutating func nextRetransmissionTimestamp() -> UInt64 {
        lastTimestamp += 1
        return lastTimestamp
    }

    // MARK: Randomness

    mutating func randomBytes(count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            withUnsafeBytes(of: random.next()) { bytes.append(contentsOf: $0) }
        }
        return Array(bytes.prefix(count))
    }

    mutating func randomFragmentID() -> MeshFragment.ID {
        MeshFragment.ID(rawValue: UInt64(truncatingBigEndian: randomBytes(count: 8)))
    }

    mutating func randomDelay(for decision: RelayDecision) -> Duration { decision.delay(using: &random) }

    /// The pause until the next announcement, shorter than the 45 seconds after which phones forget a peer; longer where many
    /// neighbours announce themselves.
    mutating func randomAnnouncementInterval(neighbourCount: Int) -> Duration {
        .seconds(Double.random(in: neighbourCount >= 6 ? 22.0...38.0 : 11.0...19.0, using: &random))
    }

    // MARK: Packets

    /// The packet with this node's signature.
    mutating func sign(_ packet: MeshPacket) throws(MalformedInput) -> MeshPacket {
        var packet = packet
        packet.signature = identity.signingKey.signature(for: try packet.signingPreimage(using: &compressor))
        return packet
    }

    /// An unsigned announcement of this node.
    ///
    /// The announcement does not list the neighbours, which phones use for source routes alone: everyone could see who is near whom.
    mutating func announcement(at now: Moment) throws(MalformedInput) -> MeshPacket {
        let announcement = MeshAnnouncement(
            nickname: name.claimed, noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: identity.signingKey.publicKey.bytes, capabilities: capabilities)
        let payload = try announcement.encoded()
        return MeshPacket(type: .announce, timestamp: nextTimestamp(at: now), sender: id, payload: payload[...])
    }
}
