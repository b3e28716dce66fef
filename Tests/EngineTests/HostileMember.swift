import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTesting

/// A session member that sends arbitrary frames: its links are established like those of any other, and then it sends
/// any frame of the test.
final class HostileMember: Sendable {
    let identity: LocalIdentity
    let session = SessionID(bytes: [UInt8](repeating: 0x66, count: SessionID.byteCount))!

    init(_ identity: LocalIdentity) {
        self.identity = identity
    }

    var id: PeerID { identity.peerID }

    /// Handshake and greeting. It sends no session frame yet.
    func connect(to port: UInt16, over transport: any StreamTransport) async throws -> HostileLink {
        let link = try transport.connect(to: LinkAddress(host: "127.0.0.1", port: port), timeout: .seconds(5))
        let hostile = HostileLink(link)
        await withCheckedContinuation { continuation in
            Blocking.run { [identity] in
                hostile.run(identity) { continuation.resume() }
            }
        }
        return hostile
    }

    /// Invites the peer at the address, and waits until it has accepted.
    func join(_ link: HostileLink) async throws {
        link.say(SessionFrame.invite(session, timeout: .seconds(30), proof: [], context: []).encoded)
        try await link.wait { if case .accept? = try? SessionFrame(decoding: $0[...]) { true } else { false } }
        link.say(StreamFrame.open(StreamID(rawValue: 1), .messages, StreamName("")!).encoded)
    }

    /// A roster entry with arbitrary claims.
    static func entry(
        _ fingerprint: Fingerprint, _ name: String = "x", incarnation: UInt32 = 0, revision: UInt32 = 0,
        presence: SessionMember.Presence = .present, addresses: [SessionMember.Address] = [], neighbours: [PeerID] = []
    ) -> SessionMember {
        var member = SessionMember(fingerprint: fingerprint, name: DisplayName(truncating: name)!)
        (member.incarnation, member.revision, member.presence) = (incarnation, revision, presence)
        (member.addresses, member.neighbours) = (addresses, neighbours)
        return member
    }

    func tell(_ members: [SessionMember], on link: HostileLink) {
        link.say(SessionFrame.roster(session, members).encoded)
    }
}

final class HostileLink: Sendable {
    private struct State {
        var sealer: RecordSealer?
        var opener: RecordOpener?
        var handshakeHash: [UInt8] = []
        var held: [UInt8] = []
        var frames: [[UInt8]] = []
        var isOver = false
        var answersPings = true
        var onFrame: (@Sendable ([UInt8]) -> Void)?
    }

    private let link: any StreamLink
    private let state = Monitor(State())
    /// Wakes tasks that wait for a frame or the end.
    private let change = AsyncCondition()

    init(_ link: any StreamLink) {
        self.link = link
    }

    var isOver: Bool { state.withLock { $0.isOver } }
    /// Empty before the handshake is over.
    var handshakeHash: [UInt8] { state.withLock { $0.handshakeHash } }

    /// All frames that the other side has sent.
    var frames: [[UInt8]] { state.withLock { $0.frames } }

    /// Called with each later frame, on the reading thread.
    func onFrame(_ body: @escaping @Sendable ([UInt8]) -> Void) {
        state.update { $0.onFrame = body }
    }

    /// Answers no more pings, like a peer whose link is broken.
    func ignorePings() {
        state.update { $0.answersPings = false }
    }

    func say(_ frame: [UInt8]) {
        state.withLock { state in
            guard let record = state.sealer?.seal(frame) else { return }
            try? record.withUnsafeBytes { try link.write($0) }
        }
    }

    func wait(for isWanted: @Sendable ([UInt8]) -> Bool) async throws {
        try await waitUntil { $0.frames.contains(where: isWanted) }
    }

    /// Waits until the condition is true, which is checked after each frame.
    func waitUntil(_ isReached: @Sendable (HostileLink) -> Bool) async throws {
        while true {
            // Before the condition: a link that is over gets no more frames.
            let wasOver = isOver
            if isReached(self) { return }
            if wasOver { throw LinkError(.broken, "the other side ended the link") }
            try Task.checkCancellation()
            await change.wait { isOver || isReached(self) }
        }
    }

    func waitUntilOver() async throws {
        await change.wait { isOver }
        try Task.checkCancellation()
    }

    func close() { link.close() }

    /// On a thread that may block, until the link is over.
    fileprivate func run(_ identity: LocalIdentity, whenGreeted: @escaping () -> Void) {
        var begin: (() -> Void)? = whenGreeted
        defer {
            // The handler may hold this link.
            state.update { ($0.isOver, $0.onFrame) = (true, nil) }
            change.notifyAll()
            link.close()
            begin?()
        }
        var handshake = DirectHandshake(
            role: .initiator, identity: identity,
            entropy: (0..<DirectHandshake.entropyByteCount).map { _ in UInt8.random(in: 0...255) },
            ciphers: CipherSet(rawValue: 4))
        guard let first = try? handshake.start(), send(first) else { return }
        var connection: DirectConnection?
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        while let count = try? buffer.withUnsafeMutableBytes({ try link.read(into: $0) }), count > 0 {
            if connection == nil {
                switch handshake.receive(buffer[..<count]) {
                case .needsMoreBytes: break
                case .send(let bytes): if !send(bytes) { return }
                case .failed: return
                case .established(let established, let bytes):
                    guard send(bytes) else { return }
                    state.update { state in
                        (state.sealer, state.opener) = (established.sealer, established.opener)
                        state.held = established.leftover
                        state.handshakeHash = established.handshakeHash
                    }
                    connection = DirectConnection(
                        ownName: DisplayName(truncating: "hostile")!,
                        authenticationString: ShortAuthenticationString(
                            role: .initiator, handshakeHash: established.handshakeHash,
                            nonce: [UInt8](repeating: 7, count: ShortAuthenticationString.nonceByteCount)),
                        limits: DirectLimits(), now: Moment(monotonic: SystemClock.monotonic(), wall: SystemClock.wall()))
                    perform(connection!.start())
                }
            } else {
                state.update { $0.held += buffer[..<count] }
            }
            while let frame = nextFrame() {
                if let control = try? ControlFrame.decode(frame) {
                    perform(connection!.receive(control, now: SystemClock.monotonic()))
                }
                if connection?.authenticationDigits != nil, let greeted = begin {
                    greeted()
                    begin = nil
                }
                let onFrame = state.update { state in
                    state.frames.append(frame)
                    return state.onFrame
                }
                change.notifyAll()
                onFrame?(frame)
            }
        }
    }

    private func perform(_ reactions: [DirectReaction]) {
        for case .send(let frame) in reactions {
            if case .pong = frame, !state.withLock({ $0.answersPings }) { continue }
            say(frame.encoded)
        }
    }

    private func send(_ bytes: [UInt8]) -> Bool {
        bytes.isEmpty || (try? bytes.withUnsafeBytes { try link.write($0) }) != nil
    }

    private func nextFrame() -> [UInt8]? {
        state.withLock { state in
            guard let length = try? state.held.withUnsafeBytes({ try RecordOpener.recordByteCount($0) }),
                length <= state.held.count
            else { return nil }
            var record = Array(state.held[..<length])
            state.held.removeFirst(length)
            guard let range = try? record.withUnsafeMutableBytes({ try state.opener!.openInPlace($0) }) else { return nil }
            return Array(record[range])
        }
    }
}
