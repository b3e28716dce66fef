import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import NearshareTCP
import NearshareTestTraits
import NearshareTesting
import Testing

/// Attacks of an observer that reads and sends packets and bytes on the network.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionWireTests {
    private static let marker = Array("no observer reads this line".utf8)

    // MARK: Packets

    /// Two members whose packets are known to arrive.
    private func withPackets(
        _ body: @escaping @Sendable (PacketStory) async throws -> Void
    ) async throws {
        let taps = [PacketTap(), PacketTap()]
        try await TestNetwork.withSession(of: 2, .tcp) { number, settings in
            settings.datagrams = taps[number]
        } _: { network, sessions in
            let story = PacketStory(sessions: sessions, tap: taps[0], back: taps[1])
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await story.collect() }
                while !taps[0].packets.contains(where: { $0.bytes.count >= PacketStory.packetByteCount }) {
                    try await story.deliver()
                }
                // Messages sent over the link before that count as well.
                try await story.deliver()
                try await body(story)
                await sessions[1].leave()
                try await group.waitForAll()
            }
        }
    }

    @Test func `packets to a peer that was invited by the name of its host go to the address of the link`() async throws {
        let stage = Stage(.tcp)
        let tap = PacketTap()
        var (hostSettings, guestSettings) = (stage.sender, stage.receiver)
        (hostSettings.datagrams, guestSettings.datagrams) = (tap, PacketTap())
        var trusting = SessionSettings()
        trusting.trust = .anyKey
        try await withNode(guestSettings) { [hostSettings, trusting] guest in
            let listener = try guest.listen()
            let destination = PeerDestination(
                addresses: [LinkAddress(host: "localhost", port: listener.port)], id: Stage.bea.peerID, name: nil)
            try await withNode(hostSettings) { host in
                let session = try host.startSession(trusting)
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(trusting)
                let other = try await session.invite(destination)
                let joiner = try #require(await joined)
                try await session.waitUntilConnected(to: other)
                while tap.packets.isEmpty {
                    try await session.send(SessionMessage(bytes: [1]), mode: .unreliable)
                    // Timed: no event tells that a packet was sent.
                    try await Task.sleep(for: .milliseconds(5))
                }
                #expect(tap.packets.allSatisfy { ["127.0.0.1", "::1"].contains($0.target.host) })
                withExtendedLifetime(joiner) {}
                await session.leave()
            }
        }
    }

    @Test("S13, S14, K11, K13: forged, altered, cut, reflected and repeated packets are never delivered; genuine ones once")
    func forgedPackets() async throws {
        try await withPackets { story in
            let held = try await story.hold()
            let attacker = try UDPTransport().open(port: 0, interface: "lo")
            defer { attacker.close() }
            var attacks: [[UInt8]] = []
            for index in held.bytes.indices {
                var altered = held.bytes
                altered[index] ^= 1 << (index % 8)
                attacks.append(altered)
            }
            attacks += held.bytes.indices.map { Array(held.bytes[..<$0]) }
            attacks += [held.bytes + [0], held.bytes + held.bytes, held.bytes + [UInt8](repeating: 0, count: 3000)]
            let tag = held.bytes.prefix(8)
            var random = SeededRandom(seed: 1)
            for count in [0, 1, 4, 19, 20, 21, 1000, 2040, 2041, 60_000] { attacks.append(Array(tag) + random.bytes(count)) }
            // Packets of the other direction, and repeated ones.
            attacks += story.back.packets.map { Array(tag + $0.bytes.dropFirst(8)) }
            attacks += story.tap.packets.map(\.bytes).filter { $0 != held.bytes }.suffix(50)
            for burst in stride(from: 0, to: attacks.count, by: 40) {
                for attack in attacks[burst..<min(burst + 40, attacks.count)] { attacker.send(attack, to: held.target) }
                // In the order of arrival: the burst has been processed by then.
                try await story.deliver()
            }
            // The genuine packet, from another address, many times.
            try await story.wait(for: held) { attacker.send(held.bytes, to: held.target) }
            for _ in 0..<20 { attacker.send(held.bytes, to: held.target) }
            try await story.deliver()
            let received = story.received
            #expect(received.allSatisfy { $0.sender == story.sessions[1].members.first?.id })
            #expect(Set(received.map(\.message.bytes)).isSubset(of: story.sent))
            #expect(received.filter { $0.message.bytes == held.payload }.count == 1)
            // A packet is delivered once; messages sent over the link before packets were proven are not repeated either.
            #expect(Set(received.map(\.message.bytes)).count == received.count)
        }
    }

    @Test("the packet loss of a member counts its packets that did not arrive, once a later one has") func packetLoss()
        async throws
    {
        try await withPackets { story in
            func loss(from member: Int) -> Double? { story.sessions[1 - member].members.first?.packetLoss }
            let before = (first: try #require(loss(from: 0)), second: loss(from: 1))
            for _ in 0..<10 { _ = try await story.hold() }
            try await story.deliver()
            let after = try #require(loss(from: 0))
            // One that is still on its way is not counted yet.
            #expect(after >= 10 / Double(story.tap.packets.count) && after > before.first && after < 1)
            #expect(loss(from: 1) == before.second)
        }
    }

    @Test(
        "R3: unreliable messages to a program that does not read them fill a bounded queue", arguments: LinkKind.allCases)
    func flood(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let pacing = try await sessions[0].openStream(named: "pacing", to: network.id(1))
            try await pacing.write([0])
            let echo = try #require(await sessions[1].streams.first { _ in true })
            _ = try await echo.read()
            for _ in 0..<60 {
                for _ in 0..<50 { try await sessions[0].send(SessionMessage(bytes: [1]), mode: .unreliable) }
                // Is queued behind them.
                try await pacing.write([1])
                _ = try await echo.read()
            }
            await sessions[1].leave()
            var count = 0
            for await _ in sessions[1].messages { count += 1 }
            #expect((1...1024).contains(count))
        }
    }

    // MARK: Encryption

    @Test("K12, S1: both encryption preferences determine what is readable on the wire; packets are always encrypted")
    func visible() async throws {
        for host in EncryptionPreference.allCases {
            for guest in EncryptionPreference.allCases {
                let isOpen: Bool? =
                    switch (host, guest) {
                    case (.required, .none), (.none, .required): nil
                    case (.none, _), (_, .none): true
                    default: false
                    }
                let (saw, packets) = try await talk(host, guest, fits: isOpen != nil)
                #expect(saw == (isOpen ?? false), "\(host) with \(guest)")
                #expect(!packets.contains { $0.firstRange(of: Self.marker) != nil }, "\(host) with \(guest)")
            }
        }
    }

    /// Sends the marker as message, stream, resource and unreliable message through a wiretap.
    private func talk(
        _ host: EncryptionPreference, _ guest: EncryptionPreference, fits: Bool
    ) async throws -> (saw: Bool, packets: [[UInt8]]) {
        let stage = Stage(.tcp)
        let tap = PacketTap()
        var (hostSettings, guestSettings) = (stage.sender, stage.receiver)
        (hostSettings.encryption, guestSettings.encryption) = (host, guest)
        (hostSettings.datagrams, guestSettings.datagrams) = (tap, PacketTap())
        return try await withNode(guestSettings) { [hostSettings] guest in
            let listener = try guest.listen()
            let wire = try Wiretap(to: LinkAddress(host: "127.0.0.1", port: listener.port))
            defer { wire.end() }
            try await withNode(hostSettings) { host in
                let session = try host.startSession(TestNetwork.trusting)
                guard fits else {
                    await #expect(throws: SessionError.self) { try await session.invite(stage.destination(wire.port)) }
                    return
                }
                async let joined = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                let other = try await session.invite(stage.destination(wire.port))
                let joiner = try #require(await joined)
                try await session.waitUntilConnected(to: other)
                try await session.send(SessionMessage(bytes: Self.marker))
                #expect(await joiner.messages.first { _ in true }?.message.bytes == Self.marker)
                let stream = try await session.openStream(named: "s", to: other)
                try await stream.write(Self.marker)
                #expect(try await joiner.streams.first { _ in true }?.read() == Self.marker)
                let content = MemoryContent(file: "a", Self.marker)
                let sent = try await session.sendResource(InMemorySource(content), to: [other], resumeKey: Stage.resumeKey)
                let invitation = try #require(await joiner.resources.first { _ in true })
                #expect(await invitation.accept(into: InMemorySink()).result.outcome == .completed)
                #expect(await sent[other]?.result.outcome == .completed)
                // Until one is sent in a packet.
                while !tap.packets.contains(where: { $0.bytes.count > Self.marker.count }) {
                    try await session.send(SessionMessage(bytes: Self.marker), mode: .unreliable)
                    try await Task.sleep(for: .milliseconds(5))
                }
                await session.leave()
            }
            guest.beginShutdown()
            await wire.ended()
            return (wire.saw(Self.marker), tap.packets.map(\.bytes))
        }
    }
}

/// Unreliable messages from the first to the second of two members, each with different content.
private final class PacketStory: Sendable {
    struct Held {
        let bytes: [UInt8]
        let target: LinkAddress
        /// The encrypted content.
        let payload: [UInt8]
    }

    /// The length of a packet with a message, which no other packet has.
    static let packetByteCount = 100

    private struct State {
        var received: [Session.ReceivedMessage] = []
        var sent: Set<[UInt8]> = []
    }

    let sessions: [Session]
    let tap: PacketTap
    let back: PacketTap
    private let state = Monitor(State())
    /// Wakes the task that waits for a message.
    private let arrival = AsyncCondition()
    /// Between two packets, one of which may be lost.
    private static let repetitionInterval = Duration.milliseconds(5)

    init(sessions: [Session], tap: PacketTap, back: PacketTap) {
        (self.sessions, self.tap, self.back) = (sessions, tap, back)
    }

    var received: [Session.ReceivedMessage] { state.withLock { $0.received } }
    var sent: Set<[UInt8]> { state.withLock { $0.sent } }

    func collect() async {
        for await message in sessions[1].messages {
            state.update { $0.received.append(message) }
            arrival.notifyAll()
        }
    }

    private func send() async throws -> [UInt8] {
        let payload = state.update { state in
            let number = state.sent.count
            let payload = [UInt8](repeating: UInt8(number >> 8), count: 100) + [UInt8(number & 255)]
            state.sent.insert(payload)
            return payload
        }
        try await sessions[0].send(SessionMessage(bytes: payload), mode: .unreliable)
        return payload
    }

    /// Sends some until one arrives.
    func deliver() async throws {
        var payloads: Set<[UInt8]> = []
        while !hasReceived(payloads) {
            payloads.insert(try await send())
            try await waitAMoment(for: payloads)
        }
    }

    private func hasReceived(_ payloads: Set<[UInt8]>) -> Bool { received.contains { payloads.contains($0.message.bytes) } }

    /// Waits until one of the payloads has arrived, or it is time to send again.
    private func waitAMoment(for payloads: Set<[UInt8]>) async throws {
        try Task.checkCancellation()
        await withTimeout(Self.repetitionInterval) { [self] in await arrival.wait { hasReceived(payloads) } }
    }

    /// One that was sent and did not arrive.
    func hold() async throws -> Held {
        tap.hold(true)
        defer { tap.hold(false) }
        let payload = try await send()
        let packet = try #require(tap.packets.last)
        return Held(bytes: packet.bytes, target: packet.target, payload: payload)
    }

    func wait(for held: Held, _ send: () -> Void) async throws {
        while !hasReceived([held.payload]) {
            send()
            try await waitAMoment(for: [held.payload])
        }
    }
}
