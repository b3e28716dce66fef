import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareCrypto
@testable import NearshareEngine

/// Nodes that join a room in any order.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct RoomStoryTests {
    private static var service: ServiceType { get throws { try ServiceType("my-game") } }

    /// The nodes of one network segment, as nested scopes.
    private func withNodes(
        _ count: Int, _ linkKind: LinkKind, adjust: @escaping @Sendable (Int, inout NodeSettings) -> Void = { _, _ in },
        _ body: @escaping @Sendable (TestNetwork, [Node]) async throws -> Void
    ) async throws {
        let network = TestNetwork(linkKind)
        let segment = InMemorySegment(interfaceName: linkKind.interface ?? "memory0")
        try await nest([], count, network, segment, adjust, body)
    }

    private func nest(
        _ nodes: [Node], _ count: Int, _ network: TestNetwork, _ segment: InMemorySegment,
        _ adjust: @escaping @Sendable (Int, inout NodeSettings) -> Void,
        _ body: @escaping @Sendable (TestNetwork, [Node]) async throws -> Void
    ) async throws {
        guard nodes.count < count else { return try await body(network, nodes) }
        var settings = network.settings(nodes.count)
        settings.discovery = segment.join(host: "127.0.0.1")
        adjust(nodes.count, &settings)
        try await withNode(settings) { node in try await nest(nodes + [node], count, network, segment, adjust, body) }
    }

    @Test("messages do not wake the tasks that invite into a room, and the end of the session does")
    func wakesRarely() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { _, sessions in
            let (isWaiting, isAwake) = (Promise<Void>(), Promise<Void>())
            let session = sessions[0]
            let waiting = Task {
                await session.memberChange.waitForNotification {
                    isWaiting.fulfil()
                    return false
                }
                isAwake.fulfil()
            }
            _ = await isWaiting.value
            var arriving = (sessions[0].messages.makeAsyncIterator(), sessions[1].messages.makeAsyncIterator())
            for number: UInt8 in 0..<100 {
                try await sessions[0].send(SessionMessage(bytes: [number]))
                _ = await arriving.1.next()
                try await sessions[1].send(SessionMessage(bytes: [number]))
                _ = await arriving.0.next()
            }
            #expect(isAwake.current == nil)
            await session.leave()
            await waiting.value
        }
    }

    @Test("nodes that join at the same time are in one session", arguments: LinkKind.allCases, [2, 3, 8])
    func together(_ linkKind: LinkKind, _ count: Int) async throws {
        try await withNodes(count, linkKind) { network, nodes in
            let sessions = try await withThrowingTaskGroup { group in
                for node in nodes {
                    group.addTask { try node.join("attic", for: try Self.service, admission: .secret("said in the room")) }
                }
                var sessions: [Session] = []
                for try await session in group { sessions.append(session) }
                return sessions
            }
            for session in sessions { try await session.waitUntilAllAreConnected(count - 1) }
            #expect(Set(sessions.map(\.id)).count == 1)
            try await sessions[0].send(SessionMessage(text: "hello"))
            for session in sessions.dropFirst() {
                #expect(await session.messages.first { _ in true }?.message.text == "hello")
            }
            for session in sessions { await session.leave() }
        }
    }

    @Test(
        "of more nodes than the limit that join at once, as many are in the room, and another one follows",
        arguments: LinkKind.allCases)
    func surplus(_ linkKind: LinkKind) async throws {
        try await withNodes(5, linkKind) { network, nodes in
            var settings = SessionSettings()
            settings.memberLimit = 3
            var sessions = try await withThrowingTaskGroup { group in
                for node in nodes {
                    group.addTask { [settings] in
                        try node.join("attic", for: try Self.service, admission: .open, settings: settings)
                    }
                }
                var sessions: [Session] = []
                for try await session in group { sessions.append(session) }
                return sessions
            }
            try await waitUntilFull(sessions, limit: 3)
            // Outside, two may have met.
            let inside = try #require(sessions.firstIndex { $0.members.count == 2 })
            await sessions.remove(at: inside).leave()
            try await waitUntilFull(sessions, limit: 3)
            for session in sessions { await session.leave() }
        }
    }

    /// Waits until as many sessions as the limit have the same members, all of them connected, and the others agree among themselves.
    private func waitUntilFull(_ sessions: [Session], limit: Int) async throws {
        try await sessions[0].waitUnannounced { _ in
            let groups = Dictionary(grouping: sessions.map { Set($0.members.map(\.id)).union([$0.node.id]) }, by: \.self)
            return groups.contains { $0.key.count == limit } && groups.allSatisfy { $0.key.count == $0.value.count }
                && sessions.allSatisfy { $0.members.allSatisfy(\.state.isConnected) }
        }
    }

    @Test("a node joins later, all leave, and one comes back", arguments: LinkKind.allCases)
    func later(_ linkKind: LinkKind) async throws {
        try await withNodes(3, linkKind) { network, nodes in
            func join(_ number: Int) throws -> Session {
                try nodes[number].join("attic", for: try Self.service, admission: .open)
            }
            var sessions = [try join(0), try join(1)]
            for session in sessions { try await session.waitUntilAllAreConnected(1) }
            #expect(throws: NodeError.self) { try join(0) }
            await sessions[0].leave()
            sessions = [sessions[1], try join(2)]
            for session in sessions { try await session.waitUntilAllAreConnected(1) }
            sessions.append(try join(0))
            for session in sessions { try await session.waitUntilAllAreConnected(2) }
            for session in sessions { await session.leave() }
        }
    }

    @Test("two groups of a room that meet later merge", arguments: LinkKind.allCases)
    func merge(_ linkKind: LinkKind) async throws {
        try await withNodes(4, linkKind) { network, nodes in
            let pairs = [(0, 2), (0, 3), (1, 2), (1, 3)]
            for (one, other) in pairs { network.partition(one, other) }
            let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .open) }
            for session in sessions { try await session.waitUntilAllAreConnected(1) }
            for (one, other) in pairs { network.heal(one, other) }
            for session in sessions { try await session.waitUntilAllAreConnected(3) }
            for session in sessions { await session.leave() }
        }
    }

    @Test("other rooms and service types do not meet, and one node is in several", arguments: LinkKind.allCases)
    func apart(_ linkKind: LinkKind) async throws {
        try await withNodes(2, linkKind) { network, nodes in
            let first = try ["attic", "cellar"].map { try nodes[0].join($0, for: try Self.service, admission: .open) }
            let second = try ["cellar", "attic"].map { try nodes[1].join($0, for: try Self.service, admission: .open) }
            let others = [
                try nodes[1].join("attic", for: try Self.service, admission: .secret("word")),
                try nodes[1].join("attic", for: try ServiceType("other-game"), admission: .open),
            ]
            for session in first + second { try await session.waitUntilAllAreConnected(1) }
            #expect(first.map(\.id) == second.reversed().map(\.id))
            #expect(others.allSatisfy { $0.members.isEmpty })
            for session in first + second + others { await session.leave() }
        }
    }

    @Test("the address of a peer that is not seen in the room any more is forgotten", arguments: [true, false])
    func lost(isInOtherRoom: Bool) throws {
        let room = try #require(SessionRoom(name: "attic", service: try Self.service.name, secret: nil))
        let peer = LocalIdentity(seed: [UInt8](repeating: 9, count: 64)).peerID
        let peers = RoomPeers(own: LocalIdentity(seed: [UInt8](repeating: 8, count: 64)).peerID, port: 5, room)
        let key = ServiceSighting.Key(instance: "ben", interfaceIndex: 1, isIPv6: false)
        func seen(in room: String) throws -> DiscoveryEvent {
            let info = try DiscoveryInfo(checking: [SessionRoom.infoKey: room])
            let record = PeerTXTRecord(id: peer, name: try DisplayName("ben"), info: info)
            return .seen(
                ServiceSighting(
                    key: key, address: LinkAddress(host: "192.0.2.1", port: 7), txt: record.strings, isOwn: false))
        }
        func apply(_ event: DiscoveryEvent) -> [PeerID: [String]] {
            let changes = peers.apply(event, now: MonotonicInstant(nanoseconds: 0))
            return Dictionary(uniqueKeysWithValues: changes.map { ($0.peer, $0.addresses.map(\.host)) })
        }
        #expect(apply(try seen(in: room.session.hex)) == [peer: ["192.0.2.1"]])
        #expect(apply(isInOtherRoom ? try seen(in: "other") : .gone(key)) == [peer: []])
        #expect(apply(.gone(key)).isEmpty)
    }

    @Test(
        "a second program with a node's key takes its place in a room, and the session of the first one ends",
        arguments: LinkKind.allCases, [RoomAdmission.open, .secret("word")])
    func takesPlace(_ linkKind: LinkKind, _ admission: RoomAdmission) async throws {
        try await withNodes(
            4, linkKind, adjust: { number, settings in if number == 3 { settings.identity = TestNetwork.identity(0) } },
            { network, nodes in
                func join(_ number: Int) throws -> Session {
                    try nodes[number].join("attic", for: try Self.service, admission: admission)
                }
                let first = try join(0)
                let others = [try join(1), try join(2)]
                for session in others + [first] { try await session.waitUntilAllAreConnected(2) }
                // Only a member whose epoch is known can be replaced.
                try await first.send(SessionMessage(text: "first"))
                for session in others { #expect(await session.messages.first { _ in true }?.message.text == "first") }
                let second = try join(3)
                let end = await first.ended
                #expect("\(String(describing: end))".contains("another program with this node's key"))
                try await second.waitUntilAllAreConnected(2)
                try await others[0].send(SessionMessage(text: "second"))
                for session in [others[1], second] {
                    #expect(await session.messages.first { _ in true }?.message.text == "second")
                }
                #expect(others.allSatisfy { $0.members.count == 2 })
                for session in others + [second] { await session.leave() }
            })
    }

    @Test("S4: a member's word that this program was replaced ends no room in which no other program is seen")
    func replaced() async throws {
        try await withNodes(1, .memory) { network, nodes in
            let session = try nodes[0].join("attic", for: try Self.service, admission: .open)
            let port = try #require(nodes[0].listeningPort)
            let hostile = HostileMember(TestNetwork.identity(9))
            let link = try await hostile.connect(to: port, over: network.settings(9).transport)
            defer { link.close() }
            link.say(SessionFrame.invite(session.id, timeout: .seconds(30), proof: [], context: [1]).encoded)
            try await link.wait { $0 == SessionFrame.accept(session.id).encoded }
            link.say(StreamFrame.open(StreamID(rawValue: 1), .messages, StreamName("")!).encoded)
            try await session.wait { $0.state(of: hostile.id)?.isConnected == true }
            link.say(ControlFrame.close(.replaced).encoded)
            try await session.wait { $0.state(of: hostile.id)?.isConnected != true }
            #expect(session.members.map(\.id) == [hostile.id] && !session.isOver)
            // Discovery reports it later.
            session.recordSharedKey()
            let end = await session.ended
            #expect("\(String(describing: end))".contains("another program with this node's key"))
        }
    }

    @Test("another program that advertises the room with the local id is noticed by its port")
    func sharedKey() throws {
        let room = try #require(SessionRoom(name: "attic", service: try Self.service.name, secret: nil))
        let own = LocalIdentity(seed: [UInt8](repeating: 8, count: 64)).peerID
        let other = LocalIdentity(seed: [UInt8](repeating: 9, count: 64)).peerID
        let peers = RoomPeers(own: own, port: 5, room)
        func isNoticed(_ id: PeerID, in room: String, port: UInt16) throws -> Bool {
            let record = PeerTXTRecord(
                id: id, name: try DisplayName("ben"), info: try DiscoveryInfo(checking: [SessionRoom.infoKey: room]))
            let key = ServiceSighting.Key(instance: "\(port)", interfaceIndex: 1, isIPv6: false)
            let sighting = ServiceSighting(
                key: key, address: LinkAddress(host: "192.0.2.1", port: port), txt: record.strings, isOwn: true)
            _ = peers.apply(.seen(sighting), now: MonotonicInstant(nanoseconds: 0))
            return peers.isKeyShared
        }
        #expect(try !isNoticed(own, in: room.session.hex, port: 5))
        #expect(try !isNoticed(own, in: "other", port: 6))
        #expect(try !isNoticed(other, in: room.session.hex, port: 6))
        #expect(try isNoticed(own, in: room.session.hex, port: 6))
        // The other program has left, or the record was this program's own of the time before it joined again.
        let key = ServiceSighting.Key(instance: "6", interfaceIndex: 1, isIPv6: false)
        _ = peers.apply(.gone(key), now: MonotonicInstant(nanoseconds: 0))
        #expect(!peers.isKeyShared)
    }

    @Test("a machine that announces the local id is noticed where it is not this one", arguments: [true, false])
    func otherMachine(isOwn: Bool) throws {
        let own = LocalIdentity(seed: [UInt8](repeating: 8, count: 64)).peerID
        var table = NearbyPeerTable(ownID: own)
        let record = PeerTXTRecord(id: own, name: try DisplayName("ben"))
        let address = LinkAddress(host: "192.0.2.1", port: 7)
        let key = ServiceSighting.Key(instance: "ben", interfaceIndex: 1, isIPv6: false)
        let changes = table.apply(
            .seen(ServiceSighting(key: key, address: address, txt: record.strings, isOwn: isOwn)))
        #expect(changes.isEmpty && table.conflictingAddress == (isOwn ? nil : address))
    }

    @Test("wrong arguments are errors") func wrongArguments() async throws {
        try await withNodes(1, .memory) { _, nodes in
            for name in ["", String(repeating: "a", count: 64)] {
                #expect(throws: NodeError.self) { try nodes[0].join(name, for: try Self.service, admission: .open) }
            }
            #expect(throws: NodeError.self) { try nodes[0].join("attic", for: .nearshare, admission: .open) }
            #expect(throws: NodeError.self) { try nodes[0].join("attic", for: try Self.service, admission: .secret("")) }
        }
        try await withNode(TestNetwork(.memory).settings(0)) { node in
            // Without discovery.
            #expect(throws: NodeError.self) { try node.join("attic", for: try Self.service, admission: .open) }
            return
        }
    }

    @Test("with ask, both users compare the short code", arguments: [true, false])
    func asks(_ isSame: Bool) async throws {
        try await withNodes(2, .memory) { network, nodes in
            let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .ask) }
            var questions: [IdentityQuestion] = []
            for (number, session) in sessions.enumerated() {
                let question = try #require(await session.identityQuestions.first { _ in true })
                #expect(question.check.peer.id == network.id(1 - number))
                questions.append(question)
            }
            #expect(questions[0].check.shortCode == questions[1].check.shortCode)
            #expect(questions[0].answer(isSame: isSame))
            #expect(!questions[0].answer(isSame: true), "it was answered")
            #expect(sessions.allSatisfy { $0.members.isEmpty }, "one user has not agreed")
            if isSame {
                #expect(questions[1].answer(isSame: true))
                for session in sessions { try await session.waitUntilAllAreConnected(1) }
            } else {
                #expect(await questions[1].ended != nil)
                #expect(!questions[1].answer(isSame: true), "an answer after the end has no effect")
                #expect(sessions.allSatisfy { $0.members.isEmpty })
            }
            for session in sessions { await session.leave() }
        }
    }

    @Test("S20: a user who has said yes is not asked again after the other one's no", arguments: [0, 1])
    func declinedByOther(decliner: Int) async throws {
        try await withNodes(2, .memory) { network, nodes in
            let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .ask) }
            var questions: [IdentityQuestion] = []
            for session in sessions { questions.append(try #require(await session.identityQuestions.first { _ in true })) }
            let session = sessions[1 - decliner]
            #expect(questions[1 - decliner].answer(isSame: true))
            #expect(questions[decliner].answer(isSame: false))
            // Whichever of them has invited the other one.
            let peer = network.id(decliner)
            try await session.waitUnannounced {
                $0.questions.isDeclined(by: peer, now: SystemClock.monotonic()) && !$0.questions.asks(about: peer)
            }
            let port = try #require(nodes[decliner].listeningPort)
            let error = await #expect(throws: SessionError.self) {
                try await session.inviteIntoRoom(network.destination(decliner, port))
            }
            #expect(error == .untrusted("the user of \(peer.hex) has declined this machine's key"))
            for session in sessions { await session.leave() }
        }
    }

    @Test("S20: a user who has confirmed a key is not asked about it again after its member has left")
    func confirmsOnce() async throws {
        try await withNodes(2, .memory) { network, nodes in
            let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .ask) }
            var checks: [IdentityCheck] = []
            for session in sessions {
                let question = try #require(await session.identityQuestions.first { _ in true })
                checks.append(question.check)
                question.answer(isSame: true)
            }
            for session in sessions { try await session.waitUntilAllAreConnected(1) }
            await sessions[1].leave()
            try await sessions[0].waitUnannounced { $0.members.isEmpty }
            #expect(await sessions[0].evaluate(checks[0]))
            await sessions[0].leave()
        }
    }

    @Test("S20: both users compare the same short code again when one program has restarted") func restarts() async throws {
        let network = TestNetwork(.memory)
        let segment = InMemorySegment(interfaceName: "memory0")
        @Sendable func settings(_ number: Int) -> NodeSettings {
            var settings = network.settings(number)
            settings.discovery = segment.join(host: "127.0.0.1")
            return settings
        }
        try await withNode(settings(0)) { node in
            let (session, user) = (try node.join("attic", for: try Self.service, admission: .ask), AgreeingUser())
            let answers = Task { await user.answer(session) }
            defer { answers.cancel() }
            for _ in 0..<2 {
                try await withNode(settings(1)) { other in
                    let (joined, otherUser) = (try other.join("attic", for: try Self.service, admission: .ask), AgreeingUser())
                    let answers = Task { await otherUser.answer(joined) }
                    defer { answers.cancel() }
                    for session in [session, joined] { try await session.waitUntilAllAreConnected(1) }
                    // Questions of invitations that cross end without effect, and are asked again.
                    let (codes, otherCodes) = (user.drainCodes(), otherUser.drainCodes())
                    #expect(codes.last != nil && codes.last == otherCodes.last, "\(codes) \(otherCodes)")
                }
            }
            await session.leave(waiting: .zero)
        }
    }

    /// A user who confirms each key.
    private final class AgreeingUser: Sendable {
        /// The peers and short codes of the answers that counted.
        private let answers = Mutex<[(peer: PeerID, code: String)]>([])

        func answer(_ session: Session) async {
            for await question in session.identityQuestions where question.answer(isSame: true) {
                answers.withLock { $0.append((question.check.peer.id, question.check.shortCode)) }
            }
        }

        func drainCodes() -> [String] {
            answers.withLock { answers in
                defer { answers = [] }
                return answers.map(\.code)
            }
        }

        func lastCode(about id: PeerID) -> String? {
            answers.withLock { answers in answers.last { $0.peer == id }?.code }
        }

        func answerCount(about id: PeerID) -> Int {
            answers.withLock { answers in answers.count { $0.peer == id } }
        }
    }

    /// Waits until nodes 0 and 1 have a link to each other, and both users have answered about the other one since.
    private func expectOneCode(_ network: TestNetwork, _ sessions: [Session], _ users: [AgreeingUser]) async throws {
        for (one, other) in [(0, 1), (1, 0)] {
            let id = network.id(other)
            try await sessions[one].waitUnannounced { session in
                users[one].lastCode(about: id) != nil && session.state.withLock { $0.members.roster.isLinked(id) }
            }
        }
        #expect(users[0].lastCode(about: network.id(1)) == users[1].lastCode(about: network.id(0)))
    }

    @Test("S20: two users who have both said yes are not asked again, although there was no room then")
    func agreedInVain() async throws {
        try await withNodes(3, .memory) { network, nodes in
            let users = nodes.map { _ in AgreeingUser() }
            var (sessions, answers): ([Session], [Task<Void, Never>]) = ([], [])
            defer { for task in answers { task.cancel() } }
            for (node, user) in zip(nodes, users) {
                // The first two are in the room when the third one comes.
                if sessions.count == 2 { for session in sessions { try await session.waitUntilAllAreConnected(1) } }
                var settings = SessionSettings()
                settings.memberLimit = 2
                let session = try node.join("attic", for: try Self.service, admission: .ask, settings: settings)
                sessions.append(session)
                answers.append(Task { await user.answer(session) })
            }
            for (one, other) in [(0, 2), (2, 0)] {
                let (user, id) = (users[one], network.id(other))
                try await sessions[one].waitUnannounced {
                    user.answerCount(about: id) > 0 && !$0.questions.asks(about: id)
                }
            }
            #expect(sessions[2].members.isEmpty)
            await sessions[1].leave(waiting: .zero)
            for (one, other) in [(0, 2), (2, 0)] {
                let id = network.id(other)
                try await sessions[one].waitUnannounced { $0.members.map(\.id) == [id] }
                #expect(users[one].answerCount(about: id) == 1)
            }
            for session in sessions { await session.leave(waiting: .zero) }
        }
    }

    @Test(
        "S20: three users who start at the same time and all say yes answer once about each other",
        arguments: [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]])
    func agreeOnce(order: [Int]) async throws {
        try await withNodes(3, .memory) { network, nodes in
            let users = nodes.map { _ in AgreeingUser() }
            let sessions = try order.map { try nodes[$0].join("attic", for: try Self.service, admission: .ask) }
            let answers = zip(order, sessions).map { number, session in Task { await users[number].answer(session) } }
            defer { for task in answers { task.cancel() } }
            for session in sessions { try await session.waitUntilAllAreConnected(2) }
            for (number, user) in users.enumerated() {
                for other in 0..<3 where other != number { #expect(user.answerCount(about: network.id(other)) <= 1) }
            }
            for session in sessions { await session.leave(waiting: .zero) }
        }
    }

    @Test(
        "S20: both users are asked again about a member that neither end remembers, also behind a relay",
        arguments: [true, false])
    func unremembered(isRelayed: Bool) async throws {
        try await withNodes(3, .memory) { network, nodes in
            let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .ask) }
            let users = sessions.map { _ in AgreeingUser() }
            let answers = zip(sessions, users).map { session, user in Task { await user.answer(session) } }
            defer { for task in answers { task.cancel() } }
            for session in sessions { try await session.waitUntilAllAreConnected(2) }
            for user in users { _ = user.drainCodes() }
            // The words of others are forgotten as well once they are old.
            let later = SystemClock.monotonic() + .seconds(60)
            for (one, other) in [(0, 1), (1, 0)] {
                sessions[one].state.withLock { $0.members.forget(TestNetwork.identity(other).fingerprint, now: later) }
            }
            if isRelayed { network.partition(0, 1) } else { network.breakLinks(0, 1) }
            try await expectOneCode(network, sessions, users)
            for session in sessions { await session.leave(waiting: .zero) }
        }
    }

    @Test("S20: where one user knows a member's name with another key, both are asked about one code, whoever vouches for it")
    func clash() async throws {
        let clashing = TestNetwork.identity(1).peerID
        try await withNodes(
            3, .memory,
            adjust: { number, settings in
                guard number == 0 else { return }
                settings.trustStatus = { peer, _ in
                    peer.id == clashing ? .nameClash(knownAs: TestNetwork.identity(5).fingerprint) : .new
                }
            },
            { network, nodes in
                // They hear of each other from node 2.
                network.partition(0, 1)
                let sessions = try nodes.map { try $0.join("attic", for: try Self.service, admission: .ask) }
                let users = sessions.map { _ in AgreeingUser() }
                let answers = zip(sessions, users).map { session, user in Task { await user.answer(session) } }
                defer { for task in answers { task.cancel() } }
                for session in sessions { try await session.waitUntilAllAreConnected(2) }
                network.heal(0, 1)
                try await expectOneCode(network, sessions, users)
                for session in sessions { await session.leave(waiting: .zero) }
            })
    }

    @Test(
        "S20: a user's yes counts once the other end has agreed, and is remembered, also where the invitation ends before",
        arguments: LinkKind.allCases)
    func agrees(_ linkKind: LinkKind) async throws {
        try await withNodes(1, linkKind) { network, nodes in
            let session = try nodes[0].join("attic", for: try Self.service, admission: .ask)
            let port = try #require(nodes[0].listeningPort)
            let hostile = HostileMember(TestNetwork.identity(9))
            let transport = network.settings(9).transport
            let peer = hostile.id
            func invite(isRemembered: Bool) async throws -> HostileLink {
                let link = try await hostile.connect(to: port, over: transport)
                let context = SessionRoom.context(memberCount: 1, isRemembered: isRemembered)
                link.say(SessionFrame.invite(session.id, timeout: .seconds(30), proof: [], context: context).encoded)
                return link
            }
            let remembering = try await invite(isRemembered: true)
            defer { remembering.close() }
            try await remembering.wait { (try? SessionFrame(decoding: $0[...])) == .refuse(session.id, .unremembered) }
            // A peer that does not remember this node makes both users answer once more.
            for isWithdrawn in [true, false] {
                let link = try await invite(isRemembered: false)
                defer { link.close() }
                let question = try #require(await session.identityQuestions.first { _ in true })
                #expect(question.answer(isSame: true))
                #expect(session.members.isEmpty, "the other user has not agreed")
                if isWithdrawn { link.say(SessionFrame.withdraw(session.id).encoded) } else { link.close() }
                try await session.waitUnannounced { !$0.questions.asks(about: peer) }
            }
            // Without another question.
            let link = try await invite(isRemembered: true)
            defer { link.close() }
            link.say(SessionFrame.confirm(session.id, proof: SessionRoom.agreement).encoded)
            try await link.wait { (try? SessionFrame(decoding: $0[...])) == .accept(session.id) }
            #expect(session.members.map(\.id) == [peer])
            await session.leave(waiting: .zero)
        }
    }

    @Test("S20: a peer about which the user cannot be asked, because of too many questions, is asked about a minute later")
    func limited() async throws {
        try await withNodes(2, .memory) { network, nodes in
            // The peer with the lower id is invited.
            let order = network.id(0) < network.id(1) ? [1, 0] : [0, 1]
            let (inviting, invited) = (nodes[order[0]], nodes[order[1]])
            for number in 0..<PromptRateLimiter.maximumTotalCount {
                let other = AuthenticatedPeer(key: TestNetwork.identity(10 + number).agreementKey.publicKey)
                let peer = Peer(proven: other, name: inviting.name, trustStatus: .new, address: nil, version: nil)
                let prompt = inviting.promptLimiter.admit(peer, on: .link(LinkAddress(host: "192.0.2.\(number)", port: 1)))
                #expect(prompt != nil)
            }
            let sessions = try [inviting, invited].map { try $0.join("attic", for: try Self.service, admission: .ask) }
            try await sessions[0].waitUnannounced { $0.questions.isPaused(about: invited.id, now: SystemClock.monotonic()) }
            let error = await #expect(throws: SessionError.self) {
                try await sessions[0].inviteIntoRoom(network.destination(order[1], invited.listeningPort ?? 0))
            }
            if case .unavailable? = error {} else { Issue.record("\(String(describing: error))") }
            // The other user has seen the question, and may be asked again.
            let hasDeclined = sessions[1].state.withLock { $0.members.hasDeclined(inviting.id) }
            #expect(!hasDeclined)
            for session in sessions { await session.leave(waiting: .zero) }
        }
    }

    @Test(
        "S20: a peer whose key the user has declined is refused without another question, and is not invited",
        arguments: LinkKind.allCases)
    func declines(_ linkKind: LinkKind) async throws {
        try await withNodes(1, linkKind) { network, nodes in
            let session = try nodes[0].join("attic", for: try Self.service, admission: .ask)
            let questionCount = Monitor(0)
            let answers = Task {
                for await question in session.identityQuestions {
                    questionCount.update { $0 += 1 }
                    question.answer(isSame: false)
                }
            }
            let port = try #require(nodes[0].listeningPort)
            let hostile = HostileMember(TestNetwork.identity(9))
            let transport = network.settings(9).transport
            // More than the limit on questions: those that are not asked do not count.
            for _ in 0...PromptRateLimiter.maximumCountPerSource {
                let link = try await hostile.connect(to: port, over: transport)
                defer { link.close() }
                link.say(SessionFrame.invite(session.id, timeout: .seconds(30), proof: [], context: []).encoded)
                try await link.wait { (try? SessionFrame(decoding: $0[...])) == .refuse(session.id, .untrusted) }
            }
            #expect(questionCount.withLock { $0 } == 1)
            let destination = network.destination(9, port)
            let error = await #expect(throws: SessionError.self) { try await session.inviteIntoRoom(destination) }
            if case .untrusted? = error {} else { Issue.record("\(String(describing: error))") }
            await session.leave()
            await answers.value
        }
    }

    @Test("S19: a peer that does not know the secret is not admitted", arguments: LinkKind.allCases)
    func secret(_ linkKind: LinkKind) async throws {
        try await withNodes(1, linkKind) { network, nodes in
            let session = try nodes[0].join("attic", for: try Self.service, admission: .secret("word"))
            let port = try #require(nodes[0].listeningPort)
            let hostile = HostileMember(TestNetwork.identity(9))
            let transport = network.settings(9).transport
            func expectRefusal(_ reason: SessionRefusal, _ frames: (HostileLink) async throws -> [SessionFrame]) async throws {
                let link = try await hostile.connect(to: port, over: transport)
                defer { link.close() }
                for frame in try await frames(link) { link.say(frame.encoded) }
                try await link.wait { (try? SessionFrame(decoding: $0[...])) == .refuse(session.id, reason) }
            }
            let shares = [[UInt8](repeating: 0, count: 32), [UInt8](repeating: 0xff, count: 32)]
            for share in shares { try await expectRefusal(.unknown) { _ in [.share(session.id, share)] } }
            for proof in [[], [UInt8](repeating: 1, count: 32)] {
                try await expectRefusal(.declined) { _ in
                    [.invite(session.id, timeout: .seconds(30), proof: proof, context: [])]
                }
            }
            let exchange = try CPace(
                password: Array("sword".utf8), channel: [], session: [], seed: [UInt8](repeating: 1, count: CPace.seedByteCount)
            )
            try await expectRefusal(.declined) { link in
                link.say(SessionFrame.share(session.id, exchange.share).encoded)
                try await link.wait { if case .share? = try? SessionFrame(decoding: $0[...]) { true } else { false } }
                return [.invite(session.id, timeout: .seconds(30), proof: [UInt8](repeating: 1, count: 32), context: [])]
            }
            // A second share on one link is not answered: it would allow another guess.
            try await expectRefusal(.unknown) { _ in [.share(session.id, exchange.share), .share(session.id, exchange.share)] }
            #expect(session.members.isEmpty)
            await session.leave()
        }
    }

    @Test("S19: the proof of one room's secret opens no other room of the node", arguments: LinkKind.allCases)
    func otherRoom(_ linkKind: LinkKind) async throws {
        try await withNodes(1, linkKind) { network, nodes in
            let known = try nodes[0].join("cellar", for: try Self.service, admission: .secret("known"))
            let secret = try nodes[0].join("attic", for: try Self.service, admission: .secret("word"))
            let asking = try nodes[0].join("shed", for: try Self.service, admission: .ask)
            let answers = Task {
                for await question in asking.identityQuestions { question.answer(isSame: false) }
            }
            let port = try #require(nodes[0].listeningPort)
            let credentials = try #require(known.room).credentials
            let hostile = HostileMember(TestNetwork.identity(9))
            let transport = network.settings(9).transport
            let cases: [(Session, SessionRefusal)] = [(secret, .declined), (asking, .untrusted)]
            for (session, refusal) in cases {
                let link = try await hostile.connect(to: port, over: transport)
                defer { link.close() }
                let exchange = try #require(
                    credentials.exchange(
                        on: link.handshakeHash, seed: [UInt8](repeating: 1, count: CPace.seedByteCount)))
                link.say(SessionFrame.share(known.id, exchange.share).encoded)
                try await link.wait { if case .share? = try? SessionFrame(decoding: $0[...]) { true } else { false } }
                let shares = link.frames.compactMap { frame -> [UInt8]? in
                    if case .share(known.id, let share)? = try? SessionFrame(decoding: frame[...]) { share } else { nil }
                }
                let answer = try #require(shares.first)
                let proofs = try #require(exchange.proofs(with: answer, isInitiator: true))
                link.say(
                    SessionFrame.invite(session.id, timeout: .seconds(30), proof: proofs.initiator, context: []).encoded)
                let outcomes: [SessionFrame] = [
                    .confirm(session.id, proof: proofs.responder), .refuse(session.id, refusal),
                ]
                try await link.wait { frame in
                    (try? SessionFrame(decoding: frame[...])).map { outcomes.contains($0) } ?? false
                }
                let isRefused = link.frames.contains { (try? SessionFrame(decoding: $0[...])) == outcomes[1] }
                #expect(isRefused)
            }
            #expect([known, secret, asking].allSatisfy { $0.members.isEmpty })
            for session in [known, secret, asking] { await session.leave() }
            await answers.value
        }
    }

    @Test("S19: for a second share on a link, nothing is calculated") func secondShare() async throws {
        let network = TestNetwork(.memory)
        let exchangeCount = Monitor(0)
        var settings = network.settings(0)
        settings.discovery = InMemorySegment(interfaceName: "memory0").join(host: "127.0.0.1")
        settings.random = { [random = settings.random] count in
            if count == CPace.seedByteCount { exchangeCount.update { $0 += 1 } }
            return random(count)
        }
        try await withNode(settings) { node in
            let session = try node.join("attic", for: try Self.service, admission: .secret("word"))
            let link = try await HostileMember(TestNetwork.identity(9)).connect(
                to: try #require(node.listeningPort), over: network.settings(9).transport)
            defer { link.close() }
            let exchange = try #require(
                session.room?.credentials.exchange(
                    on: link.handshakeHash, seed: [UInt8](repeating: 1, count: CPace.seedByteCount)))
            let before = exchangeCount.withLock { $0 }
            for _ in 0..<3 { link.say(SessionFrame.share(session.id, exchange.share).encoded) }
            try await link.wait { (try? SessionFrame(decoding: $0[...])) == .refuse(session.id, .unknown) }
            #expect(exchangeCount.withLock { $0 } == before + 1)
            await session.leave()
        }
    }

    @Test("S19: a node joins no peer that has not proven the secret, and sends one proof to it") func unproven() throws {
        let name = try #require(SessionRoom(name: "attic", service: "my-game", secret: Array("word".utf8)))
        let room = Room(name, .secret("word"), now: SystemClock.monotonic())
        let outcome = Promise<Result<PeerID, SessionError>>()
        let link = OutgoingSessionLink(
            invitation: .invite(name.session, timeout: .seconds(10), proof: [], context: []), secret: nil, room: room,
            expected: nil, voucher: nil, purpose: .room, outcome: outcome)
        let hash = [UInt8](repeating: 1, count: 32)
        let seed = [UInt8](repeating: 2, count: CPace.seedByteCount)
        guard case .share(name.session, _) = link.frame(on: hash, random: { _ in seed }) else {
            Issue.record("no share")
            return
        }
        let peer = try #require(name.exchange(on: hash, seed: [UInt8](repeating: 3, count: CPace.seedByteCount)))
        let now = SystemClock.monotonic()
        #expect(link.invitation(answering: peer.share, now: now) != nil)
        #expect(link.invitation(answering: peer.share, now: now) == nil)
        #expect(!link.confirm([UInt8](repeating: 0, count: 32)))
        #expect(!link.isProven)
        #expect(
            link.recordTrust(true) {
                Issue.record("it joined")
                return .failure(.left)
            }.isEmpty)
        #expect(
            link.recordAcceptance {
                Issue.record("it joined")
                return .failure(.left)
            }.isEmpty)
        #expect(outcome.current == nil)
    }

    @Test("S19: sixteen wrong proofs are checked at once, then ten a minute; right ones do not count") func guesses() throws {
        let name = try #require(SessionRoom(name: "attic", service: "my-game", secret: [1]))
        var now = SystemClock.monotonic()
        let room = Room(name, .secret("word"), now: now)
        for _ in 0..<100 {
            #expect(room.consumeGuess(now: now))
            room.refundGuess()
        }
        for _ in 0..<16 { #expect(room.consumeGuess(now: now)) }
        #expect(!room.consumeGuess(now: now))
        now = now + .seconds(60)
        #expect((0..<20).filter { _ in room.consumeGuess(now: now) }.count == 10)
    }
}
