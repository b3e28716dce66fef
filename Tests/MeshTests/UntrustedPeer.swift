import NearshareBase
import NearshareCrypto
import NearshareMesh
import NearshareTesting

/// A peer with keys but without a router, which writes arbitrary packets.
struct UntrustedPeer {
    let identity: LocalIdentity
    private var random: SeededRandom

    var id: PeerID { identity.peerID }

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
        identity = LocalIdentity(seed: random.bytes(LocalIdentity.seedByteCount))
    }

    func signed(_ packet: MeshPacket, by signer: SigningPrivateKey? = nil) throws -> [UInt8] {
        var packet = packet
        packet.signature = (signer ?? identity.signingKey).signature(for: try packet.signingPreimage())
        return try packet.encoded()
    }

    /// - Parameter signer: the peer whose signing key it contains and is signed with.
    func announcement(
        _ name: String = "attacker", at timestamp: UInt64, ttl: UInt8 = 7, capabilities: MeshCapabilities? = nil,
        signer: SigningPrivateKey? = nil
    ) throws -> [UInt8] {
        let payload = try MeshAnnouncement(
            nickname: name, noiseKey: identity.agreementKey.publicKey.bytes,
            signingKey: (signer ?? identity.signingKey).publicKey.bytes, capabilities: capabilities
        ).encoded()
        let packet = MeshPacket(type: .announce, ttl: ttl, timestamp: timestamp, sender: id, payload: payload[...])
        return try signed(packet, by: signer)
    }

    func message(_ text: String, at timestamp: UInt64, ttl: UInt8 = 7) throws -> [UInt8] {
        try signed(MeshPacket(type: .message, ttl: ttl, timestamp: timestamp, sender: id, payload: Array(text.utf8)[...]))
    }

    func leave(at timestamp: UInt64, ttl: UInt8 = 7) throws -> [UInt8] {
        try signed(MeshPacket(type: .leave, ttl: ttl, timestamp: timestamp, sender: id, payload: []))
    }

    /// One fragment, which needs no key.
    static func fragment(
        _ id: UInt64, _ index: Int = 0, of total: Int, type: MeshPacketType = .fileTransfer, _ slice: [UInt8],
        from sender: PeerID, to recipient: PeerID? = nil, at timestamp: UInt64, ttl: UInt8 = 7
    ) throws -> [UInt8] {
        var writer = ByteWriter()
        writer.write(id)
        writer.write(UInt16(index))
        writer.write(UInt16(total))
        writer.write(type.rawValue)
        writer.write(slice)
        return try MeshPacket(
            type: .fragment, ttl: ttl, timestamp: timestamp, sender: sender, recipient: recipient, payload: writer.bytes[...]
        ).encoded()
    }

    mutating func randomID() -> PeerID { PeerID(fitting: random.bytes(8)) }
    mutating func bytes(_ count: Int) -> [UInt8] { random.bytes(count) }
    mutating func number() -> UInt64 { random.next() }
}

/// An untrusted peer's end of a session with an ``AttackedRouter``; the peer is the initiator.
struct UntrustedPeerSession {
    /// The first and third message of the handshake.
    private(set) var said: [[UInt8]]
    private let sender: PeerID
    private var transport: NoiseDatagrams

    /// - Parameters:
    ///   - claimed: the id that it writes on its first message; its own where nothing is said.
    ///   - later: the id on its third one.
    ///   - isHeldBack: the third one is sent by ``finish(with:)``.
    /// - Returns: nil when the victim did not answer.
    init?(
        of untrusted: UntrustedPeer, as claimed: PeerID? = nil, thenAs later: PeerID? = nil, with victim: inout AttackedRouter,
        isHeldBack: Bool = false
    ) throws {
        var state = HandshakeState(
            role: .initiator, prologue: [], staticKey: untrusted.identity.agreementKey,
            ephemeral: (0..<32).map { UInt8(truncatingIfNeeded: victim.written.values.reduce($0 + 1) { $0 &+ $1.count }) })
        let first = try state.writeMessage(payload: [])
        let before = victim.written(.noiseHandshake, on: 0).count
        victim.receive(try Self.packet(first, from: claimed ?? untrusted.id, to: victim, number: 0))
        let answers = victim.written(.noiseHandshake, on: 0).dropFirst(before)
        guard let answer = answers.first(where: { $0.recipient == claimed ?? untrusted.id }) else { return nil }
        _ = try state.readMessage(Array(answer.payload))
        let third = try state.writeMessage(payload: [])
        let keys = try state.split()
        said = [first, third]
        sender = later ?? claimed ?? untrusted.id
        transport = NoiseDatagrams(send: keys.send, receive: keys.receive)
        if !isHeldBack { try finish(with: &victim) }
    }

    mutating func finish(with victim: inout AttackedRouter) throws {
        victim.receive(try Self.packet(said[1], from: sender, to: victim, number: 1))
    }

    mutating func seal(_ payload: MeshNoisePayload) throws -> [UInt8] { try transport.seal(try payload.encoded()) }

    /// Seals bytes as they are, such as a packet of the bundle protocol.
    mutating func seal(bytes: [UInt8]) throws -> [UInt8] { try transport.seal(bytes) }

    /// A handshake message without a signature.
    static func packet(_ message: [UInt8], from sender: PeerID, to victim: AttackedRouter, number: UInt64) throws -> [UInt8] {
        try MeshPacket(
            type: .noiseHandshake, timestamp: victim.now + number, sender: sender, recipient: victim.router.id,
            payload: message[...]
        ).encoded(isPadded: true)
    }

    static func sealedPacket(_ sealed: [UInt8], from sender: UntrustedPeer, to victim: AttackedRouter, number: UInt64)
        -> MeshPacket
    {
        MeshPacket(
            type: .noiseEncrypted, timestamp: victim.now + number, sender: sender.id, recipient: victim.router.id,
            payload: sealed[...])
    }
}

/// One router with untrusted peers at all its links, and a clock that the test sets.
struct AttackedRouter {
    var router: MeshRouter
    private(set) var moment: Moment
    /// The frames it has written, by link.
    private(set) var written: [MeshLinkID: [MeshFrame]] = [:]
    private(set) var events: [MeshEvent] = []

    static let identity = LocalIdentity(seed: [UInt8](repeating: 7, count: LocalIdentity.seedByteCount))

    init(settings: MeshRouter.Settings = MeshRouter.Settings(), links: Int = 2, _ profile: MeshLinkProfile = .stream) {
        moment = Moment(
            monotonic: MonotonicInstant(nanoseconds: 1_000_000_000), wall: WallTime(milliseconds: 1_800_000_000_000))
        router = MeshRouter(
            identity: Self.identity, name: try! DisplayName("victim"), settings: settings, random: SeededRandom(seed: 7))
        for number in 0..<links { router.linkUp(Self.link(number), profile, now: moment) }
        collect()
        written = [:]
    }

    static func link(_ number: Int) -> MeshLinkID { MeshLinkID(rawValue: UInt64(number)) }

    var now: UInt64 { UInt64(moment.wall.milliseconds) }

    mutating func receive(_ frame: [UInt8], from number: Int = 0) {
        router.receive(frame[...], from: Self.link(number), now: moment)
        collect()
    }

    mutating func act(_ body: (inout MeshRouter, Moment) -> Void) {
        body(&router, moment)
        collect()
    }

    mutating func run(for duration: Duration) {
        let end = moment.monotonic + duration
        while let deadline = router.deadline, deadline <= end {
            turn(to: max(deadline, moment.monotonic))
            router.advance(to: moment)
            collect()
        }
        turn(to: end)
    }

    /// Packets of one type that were sent on one link.
    func written(_ type: MeshPacketType, on number: Int) -> [MeshPacket] {
        (written[Self.link(number)] ?? []).map(\.packet).filter { $0.type == type }
    }

    /// Proves that a peer is at the other end of a link, by the answer to the latest challenge there.
    mutating func answerChallenge(as peer: UntrustedPeer, on number: Int) throws {
        guard let ping = written(.ping, on: number).last(where: { $0.recipient == peer.id }) else { return }
        let pong = MeshPacket(
            type: .pong, ttl: 1, timestamp: now, sender: peer.id, recipient: router.id, payload: ping.payload)
        receive(try peer.signed(pong), from: number)
    }

    mutating func forgetWritten() { written = [:] }

    private mutating func turn(to instant: MonotonicInstant) {
        let passed = instant.nanoseconds - 1_000_000_000
        moment = Moment(
            monotonic: instant, wall: WallTime(milliseconds: 1_800_000_000_000 + passed / 1_000_000))
    }

    private mutating func collect() {
        events += router.drainEvents()
        for number in 0..<16 {
            while let frame = router.dequeueFrame(for: Self.link(number)) {
                written[Self.link(number), default: []].append(try! MeshFrame(decoding: frame[...]))
            }
        }
    }
}
