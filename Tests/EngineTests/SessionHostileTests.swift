import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Attacks of an admitted member on the others by false frames.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionHostileTests {
    private struct Scene {
        let network: TestNetwork
        let hostile: HostileMember
        /// The link to node 0.
        let link: HostileLink
        /// The sessions of nodes 0 and 1, which are connected.
        let sessions: [Session]
        let ports: [UInt16]
        let third: Node
        let thirdReceiving: Listener
    }

    private static let settings: SessionSettings = {
        var settings = TestNetwork.trusting
        settings.timeout = .seconds(3)
        return settings
    }()

    /// The hostile member has created a session and invited node 0, which has invited node 1. Node 2 can be reached.
    private func withScene(_ linkKind: LinkKind, _ body: @escaping @Sendable (Scene) async throws -> Void) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { first in
            try await withNode(network.settings(1)) { second in
                try await withNode(network.settings(2)) { third in
                    let listener = [
                        try first.listen(), try second.listen(),
                        try third.listen(),
                    ]
                    let link = try await hostile.connect(
                        to: listener[0].port, over: network.settings(9).transport)
                    defer { link.close() }
                    async let joined = listener[0].sessionInvitations.first { _ in true }?.accept(Self.settings)
                    try await hostile.join(link)
                    let session = try #require(await joined)
                    async let other = listener[1].sessionInvitations.first { _ in true }?.accept(Self.settings)
                    _ = try await session.invite(network.destination(1, listener[1].port))
                    let sessions = [session, try #require(await other)]
                    try await session.waitUntilConnected(to: network.id(1))
                    try await sessions[1].waitUntilConnected(to: network.id(0))
                    try await body(
                        Scene(
                            network: network, hostile: hostile, link: link, sessions: sessions,
                            ports: listener.map(\.port), third: third, thirdReceiving: listener[2]))
                    for session in sessions { await session.leave(waiting: .zero) }
                }
            }
        }
    }

    /// Both honest members are connected and receive each other's messages.
    private func expectHealthy(_ scene: Scene, _ word: UInt8) async throws {
        for (one, other) in [(0, 1), (1, 0)] {
            let target = scene.network.id(other)
            #expect(scene.sessions[one].state(of: target) == .connected(via: nil))
            try await scene.sessions[one].send(SessionMessage(bytes: [word]), to: [target])
            #expect(await scene.sessions[other].messages.first { _ in true }?.message.bytes == [word])
        }
    }

    @Test(
        "S3, S5, S7: invented members occupy places for a limited time, never beyond the limit, and are removed",
        arguments: LinkKind.allCases
    )
    func invents(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            let ids = (1...64).map { TestNetwork.identity($0 + 20).peerID }
            let invented = (0..<63).map { number in
                HostileMember.entry(
                    TestNetwork.identity(number + 20).fingerprint, String(repeating: "n", count: 63),
                    addresses: (1...8).map { .init(host: "127.0.0.1", port: UInt16($0)) }, neighbours: ids)
            }
            let itself = HostileMember.entry(scene.hostile.identity.fingerprint, revision: 1, neighbours: ids)
            scene.hostile.tell([itself] + invented, on: scene.link)
            try await scene.sessions[0].wait { $0.members.count == 7 }
            #expect(scene.sessions.allSatisfy { $0.members.count <= 7 })
            await #expect(throws: SessionError.full) {
                try await scene.sessions[0].invite(scene.network.destination(2, scene.ports[2]))
            }
            try await expectHealthy(scene, 1)
            // No peer has ever proven one of these keys.
            let genuine = [scene.network.id(0), scene.network.id(1), scene.hostile.id]
            for session in scene.sessions {
                try await session.wait { session in session.members.allSatisfy { genuine.contains($0.id) } }
            }
            try await expectHealthy(scene, 2)
            async let third = scene.thirdReceiving.sessionInvitations.first { _ in true }?.accept(Self.settings)
            #expect(
                try await scene.sessions[0].invite(scene.network.destination(2, scene.ports[2]))
                    == scene.network.id(2))
            _ = try await third
        }
    }

    @Test("an invitation whose join fails ends no session that another one has made") func failsApart() async throws {
        let network = TestNetwork(.memory)
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let hosts = [8, 9].map { HostileMember(TestNetwork.identity($0)) }
            let id = hosts[0].session
            var links: [HostileLink] = []
            defer { for link in links { link.close() } }
            var arriving = listener.sessionInvitations.makeAsyncIterator()
            var invitations: [SessionInvitation] = []
            for host in hosts {
                let link = try await host.connect(to: listener.port, over: network.settings(9).transport)
                links.append(link)
                link.say(SessionFrame.invite(id, timeout: .seconds(30), proof: [], context: []).encoded)
                invitations.append(try #require(await arriving.next()))
            }
            let session = try invitations[0].accept(asksTrust: true)
            let other = try invitations[1].accept(asksTrust: true)
            #expect(other === session)
            var asked = session.identityQuestions.makeAsyncIterator()
            var questions: [PeerID: IdentityQuestion] = [:]
            for _ in hosts {
                let question = try #require(await asked.next())
                questions[question.check.peer.id] = question
            }
            try #require(questions[hosts[1].id]).answer(isSame: false)
            try await links[1].wait { (try? SessionFrame(decoding: $0[...])) == .refuse(id, .untrusted) }
            try #require(questions[hosts[0].id]).answer(isSame: true)
            try await links[0].wait { frame in
                switch try? SessionFrame(decoding: frame[...]) {
                case .accept?, .refuse?: true
                default: false
                }
            }
            #expect(session.members.map(\.id) == [hosts[0].id])
            await session.leave(waiting: .zero)
        }
    }

    @Test("S4, S6: no member is removed from a session by the claims of a third", arguments: LinkKind.allCases)
    func kicks(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            for incarnation in [0, 1, 500, 1024, 1_000_000, UInt32.max] {
                scene.hostile.tell(
                    (0...1).map {
                        HostileMember.entry(
                            TestNetwork.identity($0).fingerprint, incarnation: incarnation, presence: .gone)
                    }, on: scene.link)
            }
            // A message that arrives after these.
            scene.hostile.tell(
                [HostileMember.entry(scene.hostile.identity.fingerprint, "still here", revision: 7)], on: scene.link)
            // Not by session 1, which has no way to the hostile member and may have removed it by now.
            try await scene.sessions[0].waitUnannounced { session in
                session.members.contains { $0.name.claimed == "still here" }
            }
            try await expectHealthy(scene, 1)
            // A claim is resolved within this time, and no event reports one that has changed nothing.
            let claimTimeout = Duration.milliseconds(2500)
            await withTaskGroup(of: Void.self) { group in
                for session in scene.sessions {
                    group.addTask {
                        _ = await withTimeout(claimTimeout) {
                            for await change in session.changes {
                                // A member that answers only the first is itself removed by the second.
                                if case .left(let id, _) = change, id != scene.hostile.id { Issue.record("\(change)") }
                            }
                        }
                    }
                }
            }
            try await expectHealthy(scene, 2)
        }
    }

    @Test(
        "Q2: datagrams outside a session are dropped, and larger ones than any session sends end the link",
        arguments: LinkKind.allCases)
    func datagramsOutside(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let transport = network.settings(9).transport
            let link = try await hostile.connect(to: listener.port, over: transport)
            defer { link.close() }
            for _ in 0..<300 { link.say([FrameType.datagram, 0] + [UInt8](repeating: 1, count: 1200)) }
            async let joined = listener.sessionInvitations.first { _ in true }?.accept(Self.settings)
            try await hostile.join(link)
            let session = try #require(await joined)
            link.say([FrameType.datagram, 0, 42])
            #expect(await session.messages.first { _ in true }?.message.bytes == [42])
            // Inside a session, too.
            for other in [link, try await hostile.connect(to: listener.port, over: transport)] {
                other.say([FrameType.datagram, 0] + [UInt8](repeating: 1, count: 1201))
                try await other.waitUntilOver()
                #expect(other.frames.contains(ControlFrame.close(.violation).encoded))
            }
            await session.leave(waiting: .zero)
        }
    }

    @Test("Q2: rosters and the like mean nothing before the session is joined, however many they are")
    func framesOutside() async throws {
        let network = TestNetwork(.memory)
        let hostile = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
            defer { link.close() }
            let entry = HostileMember.entry(hostile.identity.fingerprint)
            for _ in 0..<5000 {
                hostile.tell([entry], on: link)
                // Not even decoded.
                link.say([FrameType.sessionLeave])
            }
            async let joined = listener.sessionInvitations.first { _ in true }?.accept(Self.settings)
            try await hostile.join(link)
            let session = try #require(await joined)
            #expect(session.members.map(\.id) == [hostile.id])
            await session.leave(waiting: .zero)
        }
    }

    @Test(
        "Q8: a member brings two relayed links in the name of another one, not one for each stream",
        arguments: LinkKind.allCases)
    func relayedLinks(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            let name = RelayName.from(scene.network.id(1)).streamName
            for number in 0..<40 {
                scene.link.say(StreamFrame.open(StreamID(rawValue: UInt32(3 + 2 * number)), .relay, name).encoded)
            }
            // In its own name, too.
            let own = RelayName.from(scene.hostile.id).streamName
            scene.link.say(StreamFrame.open(StreamID(rawValue: 101), .relay, own).encoded)
            let refusedCount = { @Sendable (link: HostileLink) -> Int in
                link.frames.count {
                    if case .reset(_, .refused)? = try? StreamFrame(decoding: $0[...]) { true } else { false }
                }
            }
            try await scene.link.waitUntil { refusedCount($0) >= 39 }
            try await expectHealthy(scene, 1)
            #expect(refusedCount(scene.link) == 39)
        }
    }

    @Test(
        "Q8: a relayed link that one end resets ends at the other, and frees its place, whatever the other end does not read",
        arguments: LinkKind.allCases)
    func resetsRelays(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let ends = [8, 9].map { HostileMember(TestNetwork.identity($0)) }
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            var arriving = listener.sessionInvitations.makeAsyncIterator()
            var links: [HostileLink] = []
            defer { for link in links { link.close() } }
            var invitations: [SessionInvitation] = []
            // Both before the first is accepted: a session takes no invitation of its own.
            for end in ends {
                let link = try await end.connect(to: listener.port, over: network.settings(9).transport)
                links.append(link)
                link.say(SessionFrame.invite(end.session, timeout: .seconds(30), proof: [], context: []).encoded)
                invitations.append(try #require(await arriving.next()))
            }
            for (number, invitation) in invitations.enumerated() {
                let session = try invitation.accept(Self.settings)
                try await links[number].wait { frame in
                    if case .accept? = try? SessionFrame(decoding: frame[...]) { true } else { false }
                }
                links[number].say(StreamFrame.open(StreamID(rawValue: 1), .messages, StreamName("")!).encoded)
                try await session.waitUntilConnected(to: ends[number].id)
            }
            let (origin, target) = (links[0], links[1])
            let name = RelayName.to(ends[1].id).streamName
            var last: UInt32 = 1
            for byteCount in [0, 1_000, 600_000, 0] {
                var (opened, onward): ([StreamID], [StreamID]) = ([], [])
                // Both places of the path, which may become free a moment after the reset.
                while onward.count < ForwardedRelays.maximumCount {
                    last += 2
                    let id = StreamID(rawValue: last)
                    let knownCount = Self.openedRelays(on: target).count
                    origin.say(StreamFrame.open(id, .relay, name).encoded)
                    try await firstResult(
                        of: { try await origin.waitUntil { Self.resets(on: $0).contains(id) } },
                        { try await target.waitUntil { Self.openedRelays(on: $0).count > knownCount } })
                    guard let next = Self.openedRelays(on: target).dropFirst(knownCount).first else { continue }
                    opened.append(id)
                    onward.append(next)
                    try await Self.send(byteCount, on: id, of: origin)
                }
                for id in opened { origin.say(StreamFrame.reset(id, .cancelled).encoded) }
                for id in onward { try await target.waitUntil { Self.resets(on: $0).contains(id) } }
            }
        }
    }

    /// Sends zeros on a stream, as far and as soon as the other end permits it.
    private static func send(_ byteCount: Int, on id: StreamID, of link: HostileLink) async throws {
        var sentCount = 0
        while sentCount < byteCount {
            let (sent, piece) = (sentCount, min(16 << 10, byteCount - sentCount))
            try await link.waitUntil { Self.limit(of: id, on: $0) >= UInt64(sent + piece) }
            link.say(StreamFrame.data(id, [UInt8](repeating: 0, count: piece)[...]).encoded)
            sentCount += piece
        }
    }

    private static func limit(of id: StreamID, on link: HostileLink) -> UInt64 {
        streamFrames(on: link).reduce(StreamFrame.initialWindow) { limit, frame in
            if case .credit(id, let new) = frame { new } else { limit }
        }
    }

    private static func resets(on link: HostileLink) -> [StreamID] {
        streamFrames(on: link).compactMap { if case .reset(let id, _) = $0 { id } else { nil } }
    }

    private static func openedRelays(on link: HostileLink) -> [StreamID] {
        streamFrames(on: link).compactMap { if case .open(let id, .relay, _) = $0 { id } else { nil } }
    }

    private static func streamFrames(on link: HostileLink) -> [StreamFrame] {
        link.frames.compactMap { try? StreamFrame(decoding: $0[...]) }
    }

    @Test("R7, S7: only the member that sends an invalid roster is disconnected", arguments: LinkKind.allCases)
    func malformed(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            let entry = HostileMember.entry(scene.hostile.identity.fingerprint)
            var long = SessionFrame.roster(scene.hostile.session, [entry]).encoded
            // The length of the name follows type, session, count, fingerprint, two numbers and presence.
            long[1 + 16 + 1 + 32 + 4 + 4 + 1] = 255
            scene.link.say(long + [UInt8](repeating: 0x61, count: 300))
            try await scene.link.waitUntilOver()
            let id = scene.hostile.id
            for session in scene.sessions { try await session.wait { $0.state(of: id)?.isConnected != true } }
            try await expectHealthy(scene, 1)
        }
    }

    @Test("A1: streams, messages and packets of a peer that was not admitted are refused", arguments: LinkKind.allCases)
    func beforeWelcome(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let hostile = HostileMember(TestNetwork.identity(9))
            let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
            defer { link.close() }
            let purposes: [StreamPurpose] = [.bytes, .messages, .relay]
            for (index, purpose) in purposes.enumerated() {
                let id = StreamID(rawValue: UInt32(2 * index + 1))
                link.say(StreamFrame.open(id, purpose, StreamName("to 0123456789abcdef")!).encoded)
                link.say(StreamFrame.data(id, [1, 2, 3]).encoded)
                try await link.wait { $0 == StreamFrame.reset(id, .refused).encoded }
            }
            link.say([FrameType.datagram, 0, 1])
            link.say(SessionFrame.accept(hostile.session).encoded)
            link.say(SessionFrame.leave(hostile.session).encoded)
            hostile.tell([HostileMember.entry(TestNetwork.identity(0).fingerprint, presence: .gone)], on: link)
            // All of it is invalid and ignored; one invitation is still accepted.
            link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
            let invitation = try #require(await listener.sessionInvitations.first { _ in true })
            link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
            try await link.wait { $0 == SessionFrame.refuse(hostile.session, .declined).encoded }
            link.say(StreamFrame.open(StreamID(rawValue: 7), .bytes, StreamName("early")!).encoded)
            try await link.wait { $0 == StreamFrame.reset(StreamID(rawValue: 7), .refused).encoded }
            invitation.decline()
        }
    }

    @Test("R11, S11: invitations of a peer that is declined repeatedly are soon ignored", arguments: LinkKind.allCases)
    func invitesAgain(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        let asked = try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            return try await withThrowingTaskGroup(of: Int.self) { group in
                group.addTask {
                    var count = 0
                    for await invitation in listener.sessionInvitations {
                        count += 1
                        invitation.decline()
                    }
                    return count
                }
                for number in 0..<20 {
                    let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
                    link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
                    let isAsked = number < PromptRateLimiter.maximumCountPerSource
                    let refusal = SessionFrame.refuse(hostile.session, isAsked ? .declined : .busy)
                    try await link.wait { $0 == refusal.encoded }
                    link.close()
                }
                node.beginShutdown()
                return try await group.next() ?? 0
            }
        }
        #expect(asked == PromptRateLimiter.maximumCountPerSource)
    }

    @Test("R11, S11: invitations that a policy declines take nothing from the questions", arguments: LinkKind.allCases)
    func policyDeclines(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        let count = 2 * PromptRateLimiter.maximumCountPerSource
        let asked = Monitor(0)
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            async let sessions: Void = {
                let policy = InvitationPolicy { _ in
                    asked.update { $0 += 1 }
                    return false
                }
                for await _ in try listener.sessions(policy) { Issue.record("a session was joined") }
            }()
            for _ in 0..<count {
                let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
                link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
                try await link.wait { $0 == SessionFrame.refuse(hostile.session, .declined).encoded }
                link.close()
            }
            node.beginShutdown()
            try await sessions
        }
        #expect(asked.withLock { $0 } == count)
    }

    @Test(
        "an invited node is told whether the inviting peer has withdrawn or closed its link, or has no room",
        arguments: LinkKind.allCases)
    func inviterDoesNotJoin(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            let refusal = SessionFrame.refuse(hostile.session, .full).encoded
            let frames = [
                refusal, SessionFrame.withdraw(hostile.session).encoded, ControlFrame.close(.done).encoded,
            ]
            for frame in frames {
                let isFull = frame == refusal
                let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
                defer { link.close() }
                link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                let session = try invitation.accept(TestNetwork.trusting)
                try await link.wait { $0 == SessionFrame.accept(hostile.session).encoded }
                link.say(frame)
                let end = await session.ended
                if isFull {
                    #expect(end == .full)
                } else if case .unavailable(let text)? = end {
                    #expect(!text.contains("full") && text.contains("withdrawn") == (frame == frames[1]))
                } else {
                    Issue.record("\(String(describing: end))")
                }
            }
        }
    }

    @Test("an invitation that is withdrawn while it is accepted leaves no session", arguments: LinkKind.allCases)
    func withdrawnWhileAccepted(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        try await withNode(network.settings(0)) { node in
            let listener = try node.listen()
            for _ in 0..<PromptRateLimiter.maximumCountPerSource {
                let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
                defer { link.close() }
                link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
                let invitation = try #require(await listener.sessionInvitations.first { _ in true })
                async let accepted = try? invitation.accept(TestNetwork.trusting)
                link.say(SessionFrame.withdraw(hostile.session).encoded)
                if let session = await accepted {
                    let end = await session.ended
                    if case .unavailable? = end {} else { Issue.record("\(String(describing: end))") }
                    try await session.waitUnannounced { _ in node.session(hostile.session) == nil }
                } else {
                    #expect(node.session(hostile.session) == nil)
                }
            }
        }
    }

    @Test("S11: a node that accepts no sessions refuses invitations on arrival, and keeps none")
    func sessionsNotAccepted() async throws {
        let network = TestNetwork(.memory)
        let hostile = HostileMember(TestNetwork.identity(9))
        var settings = network.settings(0)
        settings.acceptsSessions = false
        let waiting = try await withNode(settings) { node in
            let listener = try node.listen()
            for _ in 0..<PromptRateLimiter.maximumCountPerSource {
                let link = try await hostile.connect(to: listener.port, over: network.settings(9).transport)
                link.say(SessionFrame.invite(hostile.session, timeout: .seconds(30), proof: [], context: []).encoded)
                try await link.wait { $0 == SessionFrame.refuse(hostile.session, .unknown).encoded }
                link.close()
            }
            node.beginShutdown()
            var count = 0
            for await _ in listener.sessionInvitations { count += 1 }
            return count
        }
        #expect(waiting == 0)
    }

    @Test("R3, S7: a member can open at most 64 streams", arguments: LinkKind.allCases)
    func streams(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            let count: UInt32 = 1000
            for number in 1...count {
                scene.link.say(StreamFrame.open(StreamID(rawValue: 2 * number + 1), .bytes, StreamName("s")!).encoded)
            }
            let last = StreamID(rawValue: 2 * count + 1)
            try await scene.link.wait { $0 == StreamFrame.reset(last, .streamLimit).encoded }
            let refused = scene.link.frames.count {
                if case .reset(_, .streamLimit)? = try? StreamFrame(decoding: $0[...]) { true } else { false }
            }
            // The stream for messages is none of the 64.
            #expect(refused == Int(count) - 64)
            // Opened and reset at once, repeatedly: streams that the program has not accepted are bounded too.
            for number in count + 1...3 * count {
                let id = StreamID(rawValue: 2 * number + 1)
                scene.link.say(StreamFrame.open(id, .bytes, StreamName("s")!).encoded)
                scene.link.say(StreamFrame.reset(id, .cancelled).encoded)
            }
            try await expectHealthy(scene, 1)
        }
    }

    @Test(
        "S9: a second stream for messages ends only the link",
        arguments: LinkKind.allCases)
    func floods(_ linkKind: LinkKind) async throws {
        try await withScene(linkKind) { scene in
            scene.link.say(StreamFrame.open(StreamID(rawValue: 3), .messages, StreamName("")!).encoded)
            try await scene.link.waitUntilOver()
            try await expectHealthy(scene, 1)
        }
    }

    enum Tampering: CaseIterable, Sendable { case drop, duplicate, reorder, corrupt, cut, none }

    @Test(
        "K13, S1: a relay that drops, duplicates, reorders, alters or truncates data reads nothing and damages no message",
        arguments: LinkKind.allCases, Tampering.allCases)
    func relays(_ linkKind: LinkKind, _ tampering: Tampering) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        network.partition(0, 1)
        try await withNode(network.settings(0)) { first in
            try await withNode(network.settings(1)) { second in
                let listener = [try first.listen(), try second.listen()]
                var links: [HostileLink] = []
                var sessions: [Session] = []
                for number in 0...1 {
                    let link = try await hostile.connect(
                        to: listener[number].port, over: network.settings(9).transport)
                    links.append(link)
                    // With time to detect that data was dropped.
                    async let joined = listener[number].sessionInvitations.first { _ in true }?.accept(
                        TestNetwork.trusting)
                    try await hostile.join(link)
                    sessions.append(try #require(await joined))
                }
                defer { for link in links { link.close() } }
                let relay = HostileRelay(hostile, links, (0...1).map(network.id), tampering)
                relay.begin()
                let neighbours = (0...1).map(network.id)
                for (number, link) in links.enumerated() {
                    hostile.tell(
                        [
                            HostileMember.entry(hostile.identity.fingerprint, revision: 1, neighbours: neighbours),
                            HostileMember.entry(TestNetwork.identity(1 - number).fingerprint, neighbours: [hostile.id]),
                        ], on: link)
                }
                let (sender, receiver) = (sessions[0], sessions[1])
                try await sender.wait { $0.members.count == 2 }
                let marker = Array("not for the relay to read".utf8)
                async let sending: Void = {
                    for number in 0..<200 {
                        let bytes = marker + [UInt8(number)]
                        try await sender.send(SessionMessage(bytes: bytes), to: [network.id(1)])
                    }
                }()
                var next = 0
                for await received in receiver.messages {
                    #expect(received.sender == network.id(0) && received.message.bytes == marker + [UInt8(next)])
                    next += 1
                    if next == 200 { break }
                }
                #expect(next == 200)
                try await sending
                #expect(relay.hasTampered == (tampering != .none))
                #expect(!relay.carried.contains { $0.firstRange(of: marker) != nil })
                for session in sessions { await session.leave(waiting: .zero) }
            }
        }
    }
}

/// Forwards the bytes of relayed links between two members, and damages the first link once.
private final class HostileRelay: Sendable {
    private struct State {
        /// The stream of the other link that each stream is relayed to.
        var onward: [Int: [UInt32: UInt32]] = [0: [:], 1: [:]]
        var next: [UInt32] = [101, 101]
        var dataCount = 0
        var held: (link: Int, frame: StreamFrame)?
        var hasTampered = false
        var carried: [[UInt8]] = []
    }

    private let hostile: HostileMember
    private let links: [HostileLink]
    private let members: [PeerID]
    private let tampering: SessionHostileTests.Tampering
    private let state = Monitor(State())
    /// Handshake and greeting are complete by then.
    private static let spoiledData = 9

    init(_ hostile: HostileMember, _ links: [HostileLink], _ members: [PeerID], _ tampering: SessionHostileTests.Tampering) {
        (self.hostile, self.links, self.members, self.tampering) = (hostile, links, members, tampering)
    }

    var hasTampered: Bool { state.withLock { $0.hasTampered } }
    var carried: [[UInt8]] { state.withLock { $0.carried } }

    func begin() {
        for number in 0...1 {
            links[number].onFrame { frame in
                if let frame = try? StreamFrame(decoding: frame[...]) { self.take(frame, from: number) }
            }
        }
    }

    private func take(_ frame: StreamFrame, from number: Int) {
        let target = links[1 - number]
        // In one step with sending it, so that both threads keep the order.
        state.update { state in
            if case .open(let id, .relay, _) = frame {
                let other = state.next[1 - number]
                state.next[1 - number] += 2
                state.onward[number]![id.rawValue] = other
                state.onward[1 - number]![other] = id.rawValue
                target.say(
                    StreamFrame.open(StreamID(rawValue: other), .relay, StreamName("from \(members[number].hex)")!).encoded)
                return
            }
            guard let other = state.onward[number]![frame.id.rawValue].map({ StreamID(rawValue: $0) }) else { return }
            switch frame {
            case .data(_, let bytes):
                state.carried.append(Array(bytes))
                for frame in spoiled(.data(other, bytes), &state, number) { target.say(frame.encoded) }
            case .credit(_, let limit): target.say(StreamFrame.credit(other, upTo: limit).encoded)
            case .finish: target.say(StreamFrame.finish(other).encoded)
            case .reset(_, let reason): target.say(StreamFrame.reset(other, reason).encoded)
            case .open: break
            }
        }
    }

    private func spoiled(_ frame: StreamFrame, _ state: inout State, _ number: Int) -> [StreamFrame] {
        guard tampering != .none, case .data(let id, let bytes) = frame else { return [frame] }
        if let held = state.held, held.link == number {
            state.held = nil
            // It belongs to another stream by now, so it would reach no reader.
            return held.frame.id == id ? [frame, held.frame] : [frame]
        }
        state.dataCount += 1
        guard state.dataCount >= Self.spoiledData, !state.hasTampered else { return [frame] }
        state.hasTampered = true
        switch tampering {
        case .drop: return []
        case .duplicate: return [frame, frame]
        case .reorder:
            state.held = (number, frame)
            return []
        case .corrupt:
            var altered = Array(bytes)
            altered[altered.count / 2] ^= 1
            return [.data(id, altered[...])]
        case .cut: return [.reset(id, .cancelled)]
        case .none: return [frame]
        }
    }
}
