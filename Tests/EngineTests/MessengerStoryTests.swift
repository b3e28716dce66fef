import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareDatabase
import NearshareEngine
import NearshareInterfaces
import NearshareMesh
import NearshareTestTraits
import NearshareTesting
import Testing

/// Conversations between nodes that forward for each other, with stores in files that outlive the nodes.
@Suite("messenger", .timeLimit(.minutes(3)), .leavesNothing)
struct MessengerStoryTests {
    /// One user: a key, a name, and the stores.
    private struct Person {
        let identity: LocalIdentity
        let name: String
        let scratch = ScratchFolder()
        var contacts: [PeerID: ContactKeys] = [:]
        var blocked: Set<PeerID> = []
        /// nil for that of the machine.
        var wallClock: (@Sendable () -> WallTime)?
        let friends: Set<PeerID>
        let limits: ConversationLimits

        init(_ number: UInt8, _ name: String, friends: Set<PeerID> = [], roomBytes: Int = 1 << 20) {
            var limits = ConversationLimits()
            limits.roomBytes = roomBytes
            (self.friends, self.limits) = (friends, limits)
            identity = LocalIdentity(seed: [UInt8](repeating: number, count: 64))
            self.name = name
        }

        var id: PeerID { identity.peerID }
        var contact: EndpointKeys {
            EndpointKeys(agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey)
        }

        /// Runs their node on a network segment, where others find it.
        /// - Parameter answer: what they do with each file that they are asked about; without one it is declined.
        func run<Result: Sendable>(
            on segment: InMemorySegment, _ stage: Stage,
            _ answer: @escaping @Sendable (Invitation) async -> Void = { _ in },
            _ body: @Sendable (Node, Messenger) async throws -> Result
        ) async throws -> Result {
            var settings = stage.settings(identity, name)
            settings.discovery = segment.join(host: "127.0.0.1")
            if let wallClock { settings.wallClock = wallClock }
            let (contacts, blocked, friends) = (contacts, blocked, friends)
            settings.friends = { friends }
            settings.trustStatus = { peer, _ in blocked.contains(peer.id) ? .known(.blocked, isFriend: false) : .new }
            let messengerSettings = MessengerSettings(
                bundles: try SQLiteBundleStore(directory: scratch.path),
                conversations: try SQLiteConversationStore(directory: scratch.path, limits: limits), contact: { contacts[$0] })
            return try await withNode(settings) { node in
                let listener = try node.listen()
                async let answers: Void = {
                    for await invitation in listener.invitations { await answer(invitation) }
                }()
                let result = try await body(node, try node.startMessenger(messengerSettings))
                node.beginShutdown()
                await answers
                return result
            }
        }
    }

    private func first(
        _ events: AsyncStream<MessengerEvent>, _ isWanted: (MessengerEvent) -> Bool
    ) async -> MessengerEvent? {
        for await event in events where isWanted(event) { return event }
        return nil
    }

    private func firstLine(_ events: AsyncStream<MessengerEvent>) async -> ChatMessage? {
        for await case .chatMessage(let message, _) in events { return message }
        return nil
    }

    /// Waits until the public room has a number of messages. Those that came before the caller listened are in the history only.
    private func publicTexts(_ count: Int, _ messenger: Messenger) async throws -> [String] {
        let events = messenger.events()
        var texts = try await messenger.history(of: .publicRoom).map(\.text)
        if texts.count >= count { return texts }
        for await case .chatMessage in events {
            texts = try await messenger.history(of: .publicRoom).map(\.text)
            if texts.count >= count { break }
        }
        return texts
    }

    private func firstArrival(
        _ events: AsyncStream<MessengerEvent>, where isWanted: (ReceivedBundle) -> Bool = { _ in true }
    ) async -> ReceivedBundle? {
        for await case .arrived(let arrival) in events where isWanted(arrival) { return arrival }
        return nil
    }

    private func isStatusChange(_ event: MessengerEvent, _ status: MessageStatus, of id: String) -> Bool {
        if case .chatMessageChanged(let message, _) = event { message.id == id && message.status == status } else { false }
    }

    private func isLine(_ event: MessengerEvent, _ text: String, from author: PeerID) -> Bool {
        if case .chatMessage(let message, _) = event { message.text == text && message.author == author } else { false }
    }

    @Test(
        "a message arrives, and is marked as delivered and then as read; texts of any length arrive as one message",
        arguments: LinkKind.allCases)
    func conversation(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let received = beaMessenger.events()
            try await ada.run(on: segment, stage) { _, adaMessenger in
                let own = adaMessenger.events()
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                let long = String(repeating: "👩‍👩‍👧 Grüße\n", count: 400)
                for said in ["hello", String(repeating: "\u{10000}", count: 140), long] {
                    let message = try await adaMessenger.sendLine(said, in: .peer(bea.id))
                    #expect(await first(own) { isStatusChange($0, .delivered, of: message.id) } != nil)
                    #expect(await firstLine(received)?.text == said)
                }
                for word in ["[FAVORITED]", "[UNFAVORITED]:npub1 and more"] {
                    let error = await #expect(throws: MessengerError.self) {
                        _ = try await adaMessenger.sendLine(word, in: .peer(bea.id))
                    }
                    #expect(error?.description.contains("for a command") == true)
                }
                try await beaMessenger.markRead(.peer(ada.id), notifiesAuthors: true)
                let lines = try await adaMessenger.history(of: .peer(bea.id))
                #expect(await first(own) { isStatusChange($0, .read, of: lines[2].id) } != nil)
                // Any 140 characters fit into one message; no message is lost or duplicated.
                let receivedTexts = try await beaMessenger.history(of: .peer(ada.id)).map(\.text)
                #expect(receivedTexts == lines.map(\.text))
                let arrivalCount = try await beaMessenger.arrivals().count
                #expect(arrivalCount > 3)
            }
        }
    }

    @Test(
        "a message written while the peer is away is delivered once when it returns, after a restart of both",
        arguments: LinkKind.allCases)
    func waiting(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let bea = Person(2, "Bea")
        var ada = Person(1, "Ada")
        let hourAgo = WallTime(milliseconds: SystemClock.wall().milliseconds - 3_600_000)
        ada.wallClock = { hourAgo }
        // Keys unknown: nothing can be encrypted yet.
        let id = try await ada.run(on: segment, stage) { _, adaMessenger in
            try await adaMessenger.sendLine("are you there?", in: .peer(bea.id)).id
        }
        // The bundle of the line is created an hour later.
        ada.wallClock = nil
        for round in 0..<2 {
            try await ada.run(on: segment, stage) { [ada] _, adaMessenger in
                let own = adaMessenger.events()
                let status = try await adaMessenger.history(of: .peer(bea.id)).last?.status
                if round == 0 { #expect(status == .waiting) }
                try await bea.run(on: segment, stage) { _, beaMessenger in
                    if status == .waiting { #expect(await first(own) { isStatusChange($0, .delivered, of: id) } != nil) }
                    _ = try await beaMessenger.find("Ada", timeout: .seconds(60))
                    _ = try await beaMessenger.sendLine("yes", in: .peer(ada.id))
                    #expect(await firstLine(own)?.text == "yes")
                }
            }
        }
        try await bea.run(on: segment, stage) { [ada] _, beaMessenger in
            let lines = try await beaMessenger.history(of: .peer(ada.id)).filter { !$0.isLocal }
            #expect(lines.map(\.text) == ["are you there?"])
            // A node is in the mesh a moment before its messenger, and does not announce that it stores and forwards until then. A
            // line for a peer that is met in this moment is a text of the mesh (`docs/PROTOCOL.md`, section 14), without a time.
            let written = lines.first?.written
            #expect(written == hourAgo || written == nil)
        }
    }

    @Test("lines that wait arrive in the order in which they were written", arguments: LinkKind.allCases)
    func order(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        var (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        (ada.contacts, bea.contacts) = (
            [bea.id: ContactKeys(bea.contact, areProven: true)], [ada.id: ContactKeys(ada.contact, areProven: true)]
        )
        // All within one millisecond, an hour ago.
        let hourAgo = WallTime(milliseconds: SystemClock.wall().milliseconds - 3_600_000)
        let isWriting = Monitor(true)
        ada.wallClock = { isWriting.withLock { $0 } ? hourAgo : SystemClock.wall() }
        let texts = (1...8).map { "line \($0)" }
        try await ada.run(on: segment, stage) { [adaID = ada.id, bea] _, adaMessenger in
            for text in texts { _ = try await adaMessenger.sendLine(text, in: .peer(bea.id)) }
            isWriting.withLock { $0 = false }
            try await bea.run(on: segment, stage) { _, beaMessenger in
                let events = beaMessenger.events()
                var arrived: [ChatMessage] = []
                while arrived.count < texts.count {
                    arrived = try await beaMessenger.history(of: .peer(adaID))
                    guard arrived.count < texts.count, await firstLine(events) != nil else { break }
                }
                #expect(arrived.map(\.text) == texts)
                // The times of writing are shown, and sort nothing.
                #expect(
                    arrived.allSatisfy { $0.written.map { ($0.milliseconds - hourAgo.milliseconds).magnitude < 1_000 } == true }
                )
                #expect(arrived.allSatisfy { $0.when.milliseconds > hourAgo.milliseconds + 3_000_000 })
            }
        }
    }

    @Test(
        "lines and messages to everyone that were written while the clock was ahead are delivered once it is right, in their order",
        arguments: LinkKind.allCases)
    func clockAhead(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        var (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        (ada.contacts, bea.contacts) = (
            [bea.id: ContactKeys(bea.contact, areProven: true)], [ada.id: ContactKeys(ada.contact, areProven: true)]
        )
        let hourAhead = WallTime(milliseconds: SystemClock.wall().milliseconds + 3_600_000)
        ada.wallClock = { hourAhead }
        let texts = (1...4).map { "line \($0)" }
        try await ada.run(on: segment, stage) { [bea] _, adaMessenger in
            for text in texts { _ = try await adaMessenger.sendLine(text, in: .peer(bea.id)) }
            _ = try adaMessenger.send(.object(["text": .string("to all")]), using: .broadcast)
        }
        ada.wallClock = nil
        try await ada.run(on: segment, stage) { [adaID = ada.id, bea] _, adaMessenger in
            try await bea.run(on: segment, stage) { _, beaMessenger in
                let (lines, messages) = (beaMessenger.events(), beaMessenger.events())
                var arrived: [ChatMessage] = []
                while arrived.count < texts.count {
                    arrived = try await beaMessenger.history(of: .peer(adaID))
                    guard arrived.count < texts.count, await firstLine(lines) != nil else { break }
                }
                #expect(arrived.map(\.text) == texts)
                while try await !beaMessenger.arrivals().contains(where: \.isForEveryone) {
                    guard await firstArrival(messages, where: \.isForEveryone) != nil else { break }
                }
            }
            let own = try await adaMessenger.history(of: .peer(bea.id))
            #expect(own.map(\.text) == texts && own.allSatisfy { $0.when < hourAhead })
        }
    }

    @Test("a line that waits for a peer whose clock differs says so, and still waits")
    func differentClocks() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        var ada = Person(1, "Ada")
        let bea = Person(2, "Bea")
        ada.contacts = [bea.id: ContactKeys(bea.contact, areProven: true)]
        ada.wallClock = { WallTime(milliseconds: SystemClock.wall().milliseconds + 3_600_000) }
        try await ada.run(on: segment, stage) { _, adaMessenger in
            let own = adaMessenger.events()
            let line = try await adaMessenger.sendLine("early", in: .peer(bea.id))
            try await bea.run(on: segment, stage) { _, _ in
                let news = await first(own) { event in
                    if case .chatMessageChanged(let message, reason: _?) = event { message.id == line.id } else { false }
                }
                guard case .chatMessageChanged(let message, let reason?) = news else {
                    Issue.record("no reason")
                    return
                }
                #expect(message.status == .waiting && reason.contains("the clocks differ by 3"))
            }
        }
    }

    @Test("public messages reach all, once, with their authors' names", arguments: LinkKind.allCases)
    func room(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let people = [Person(1, "Ada"), Person(2, "Bea"), Person(3, "Cleo")]
        try await people[0].run(on: segment, stage) { _, ada in
            try await people[1].run(on: segment, stage) { _, bea in
                try await people[2].run(on: segment, stage) { _, cleo in
                    let (heard, echo) = (cleo.events(), bea.events())
                    for name in ["Bea", "Cleo"] { _ = try await ada.find(name, timeout: .seconds(60)) }
                    _ = try await cleo.find("Ada", timeout: .seconds(60))
                    _ = try await bea.find("Ada", timeout: .seconds(60))
                    let status = try await ada.sendLine("hello all", in: .publicRoom).status
                    #expect(status == .waiting)
                    for events in [heard, echo] {
                        let message = try #require(await firstLine(events))
                        #expect(
                            message.text == "hello all" && message.author == people[0].id
                                && message.authorName?.claimed == "Ada")
                    }
                    _ = try await cleo.sendLine("and to you", in: .publicRoom)
                    #expect(await firstLine(echo)?.text == "and to you")
                    let count = try await bea.history(of: .publicRoom).count
                    #expect(count == 2)
                    let lastStatus = try await ada.history(of: .publicRoom).first?.status
                    #expect(lastStatus == .sent)
                }
            }
        }
    }

    @Test("R6: a friend's line in the public room stays when strangers' lines fill it")
    func friendInTheRoom() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, cleo, dora) = (Person(1, "Ada"), Person(3, "Cleo"), Person(4, "Dora"))
        // Ada's line takes 956 bytes, each of the others 556.
        let bea = Person(2, "Bea", friends: [ada.id], roomBytes: 2_000)
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let received = beaMessenger.events()
            for (person, count) in [(ada, 700), (cleo, 300), (dora, 300)] {
                try await person.run(on: segment, stage) { _, messenger in
                    _ = try await messenger.find("Bea", timeout: .seconds(60))
                    // In a session, which proves the key that signs public lines.
                    _ = try await messenger.sendLine("hello", in: .peer(bea.id))
                    #expect(await firstLine(received)?.text == "hello")
                    _ = try await messenger.sendLine(String(repeating: "x", count: count), in: .publicRoom)
                    #expect(await firstLine(received)?.author == person.id)
                }
            }
            let authors = try await beaMessenger.history(of: .publicRoom).map(\.author)
            #expect(authors == [ada.id, dora.id])
        }
    }

    @Test(
        "a message to the public room written while no peer is near is sent once when a peer appears",
        arguments: LinkKind.allCases
    )
    func emptyRoom(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        // Sent at once, while earlier messages are being read.
        let first = try await ada.run(on: segment, stage) { _, adaMessenger in
            try await adaMessenger.sendLine("hello?", in: .publicRoom)
        }
        #expect(first.status == .waiting)
        try await ada.run(on: segment, stage) { _, adaMessenger in
            let own = adaMessenger.events()
            let second = try await adaMessenger.sendLine("again?", in: .publicRoom)
            #expect(try await adaMessenger.history(of: .publicRoom).map(\.status) == [.waiting, .waiting])
            try await bea.run(on: segment, stage) { _, beaMessenger in
                #expect(await self.first(own) { isStatusChange($0, .sent, of: second.id) } != nil)
                #expect(try await self.publicTexts(2, beaMessenger) == ["hello?", "again?"])
                _ = try await adaMessenger.sendLine("good", in: .publicRoom)
                #expect(try await self.publicTexts(3, beaMessenger) == ["hello?", "again?", "good"])
            }
        }
    }

    @Test("a message is a line in the sender's conversation as well, unless it is hidden, not kept, or more than a text")
    func ownMessages() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        @Sendable func text(_ text: String) -> StructuredValue { .object(["text": .string(text)]) }
        try await bea.run(on: segment, stage) { _, beaMessenger in
            try await ada.run(on: segment, stage) { _, adaMessenger in
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                let own = adaMessenger.events()
                let id = try adaMessenger.send(text("said"), using: .full(bea.id))
                #expect(await self.first(own) { isStatusChange($0, .delivered, of: id.hex) } != nil)
                for (content, route, isPrivate) in [
                    (text("hidden"), MessageRoute.full(bea.id), true), (text("now"), .direct(bea.id), false),
                    (.object(["text": .string("more"), "unit": .integer(1)]), .full(bea.id), false),
                ] {
                    _ = try adaMessenger.send(content, using: route, isPrivate: isPrivate)
                }
                let lines = try await adaMessenger.history(of: .peer(bea.id))
                #expect(lines.map(\.text) == ["said"] && lines.map(\.status) == [.delivered] && lines.allSatisfy(\.isLocal))
                #expect(try await beaMessenger.history(of: .peer(ada.id)).first?.id == id.hex)
            }
        }
    }

    @Test("a text received twice, or again in parts, is one message")
    func twice() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let received = beaMessenger.events()
            try await ada.run(on: segment, stage) { _, adaMessenger in
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                let line = try await adaMessenger.sendLine("hello", in: .peer(bea.id))
                #expect(await firstArrival(received) != nil)
                _ = try adaMessenger.send(.object(["text": .string("hello"), "id": .string(line.id)]), using: .full(bea.id))
                // And as a part of a long one.
                _ = try adaMessenger.send(
                    .object(["text": .string("he"), "id": .string(line.id), "part": .integer(0), "of": .integer(2)]),
                    using: .full(bea.id))
                _ = try adaMessenger.send(.object(["text": .string("the end")]), using: .full(bea.id))
                #expect(
                    await first(received) { if case .chatMessage(let line, _) = $0 { line.text == "the end" } else { false } }
                        != nil)
                // A line is announced before its message.
                #expect(await firstArrival(received) != nil)
                #expect(try await beaMessenger.arrivals().count == 1 + 1)
                #expect(try await beaMessenger.history(of: .peer(ada.id)).map(\.text) == ["hello", "the end"])
            }
        }
    }

    @Test(
        "K2: an unauthenticated message is not shown, and a receipt from a third peer changes nothing",
        arguments: LinkKind.allCases)
    func unproven(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea, mallory) = (Person(1, "Ada"), Person(2, "Bea"), Person(9, "Ada"))
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let received = beaMessenger.events()
            let said = try await beaMessenger.sendLine("only for Ada", in: .peer(ada.id))
            try await mallory.run(on: segment, stage) { _, adaMessenger in
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                _ = try adaMessenger.send(.object(["text": .string("I am Ada")]), using: .broadcast)
                let arrival = try #require(await firstArrival(received))
                #expect(arrival.sender == nil)
                _ = try adaMessenger.send(.object(["read": .array([.string(said.id)])]), using: .full(bea.id))
                _ = try adaMessenger.send(.object(["text": .string("the end")]), using: .full(bea.id))
                #expect(await firstArrival(received) { $0.sender != nil }?.sender == mallory.id)
                let conversations = try await beaMessenger.conversations().map(\.conversation)
                #expect(conversations == [.peer(mallory.id), .peer(ada.id)])
                let statuses = try await beaMessenger.history(of: .peer(ada.id)).map(\.status)
                #expect(statuses == [.waiting])
            }
        }
    }

    @Test("K2: the signer of a message that everyone can read is asked to prove its key, so that it has a name afterwards")
    func signer() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let (received, changes) = (beaMessenger.events(), beaMessenger.events())
            try await ada.run(on: segment, stage) { _, adaMessenger in
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                _ = try adaMessenger.send(.object(["text": .string("to all")]), using: .broadcast)
                #expect(await firstArrival(received)?.sender == nil)
                while beaMessenger.announcedKeys(of: ada.id)?.isProven != true {
                    let change = await first(changes) { if case .peerChanged(ada.id) = $0 { true } else { false } }
                    if change == nil { break }
                }
                #expect(beaMessenger.announcedKeys(of: ada.id)?.isProven == true)
            }
        }
    }

    @Test(
        "K2: a signing key that was only announced yields to the receiver's own, also for lines that wait",
        arguments: LinkKind.allCases)
    func forgedContact(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        var ada = Person(1, "Ada")
        let (bea, mallory) = (Person(2, "Bea"), Person(9, "Mallory"))
        let forged = EndpointKeys(agreementKey: bea.contact.agreementKey, signingKey: mallory.contact.signingKey)
        ada.contacts = [bea.id: ContactKeys(forged, areProven: false)]
        try await ada.run(on: segment, stage) { [ada] _, adaMessenger in
            let own = adaMessenger.events()
            let early = try await adaMessenger.sendLine("early", in: .peer(bea.id))
            try await bea.run(on: segment, stage) { _, beaMessenger in
                #expect(await first(own) { isStatusChange($0, .delivered, of: early.id) } != nil)
                let late = try await adaMessenger.sendLine("late", in: .peer(bea.id))
                #expect(await first(own) { isStatusChange($0, .delivered, of: late.id) } != nil)
                #expect(try await beaMessenger.history(of: .peer(ada.id)).map(\.text) == ["early", "late"])
            }
        }
    }

    @Test("R11: texts of a blocked peer are neither stored nor acknowledged, over any transport", arguments: LinkKind.allCases)
    func blocked(_ linkKind: LinkKind) async throws {
        let stage = Stage(linkKind)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, cleo) = (Person(1, "Ada"), Person(3, "Cleo"))
        var bea = Person(2, "Bea")
        bea.blocked = [ada.id]
        try await bea.run(on: segment, stage) { [bea] _, beaMessenger in
            let received = beaMessenger.events()
            try await ada.run(on: segment, stage) { _, adaMessenger in
                let own = adaMessenger.events()
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                let line = try await adaMessenger.sendLine("sealed", in: .peer(bea.id))
                // The neighbour holds it, and its sender learns no more.
                #expect(await first(own) { isStatusChange($0, .sent, of: line.id) } != nil)
                try await cleo.run(on: segment, stage) { _, cleoMessenger in
                    _ = try await cleoMessenger.find("Bea", timeout: .seconds(60))
                    _ = try await cleoMessenger.sendLine("later", in: .peer(bea.id))
                    #expect(await firstLine(received)?.text == "later")
                }
                // An acknowledgement, if any, would arrive before this message.
                _ = try await beaMessenger.sendLine("an answer to nothing", in: .peer(ada.id))
                #expect(await firstLine(own)?.text == "an answer to nothing")
                let statuses = try await adaMessenger.history(of: .peer(bea.id)).filter(\.isLocal).map(\.status)
                #expect(statuses == [.sent])
            }
            // A phone sends a text in the mesh session, from a peer that relays nothing.
            var phone = stage.settings(ada.identity, "Ada")
            phone.discovery = segment.join(host: "127.0.0.1")
            try await withNode(phone) { phone in
                let mesh = phone.joinMesh()
                let bea = try await mesh.find("Bea", timeout: .seconds(60))
                var text = MemoryContent(file: "text", Array("from a phone".utf8))
                text.offer.items[0].kind = .text
                let transfer = try mesh.send(InMemorySource(text), to: bea, timeout: .seconds(1))
                #expect(await transfer.result.outcome == .expired)
            }
            try await cleo.run(on: segment, stage) { _, cleoMessenger in
                _ = try await cleoMessenger.find("Bea", timeout: .seconds(60))
                _ = try await cleoMessenger.sendLine("hello", in: .peer(bea.id))
                let line = await first(received) { isLine($0, "hello", from: cleo.id) }
                #expect(line != nil)
            }
            #expect(try await beaMessenger.history(of: .peer(ada.id)).allSatisfy(\.isLocal))
            #expect(try await beaMessenger.arrivals().allSatisfy { $0.sender == cleo.id })
        }
    }

    @Test("with read receipts turned off, none is sent")
    func noReadReceipts() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let ada = Person(1, "Ada")
        let bea = Person(2, "Bea")
        try await bea.run(on: segment, stage) { _, beaMessenger in
            let received = beaMessenger.events()
            try await ada.run(on: segment, stage) { _, adaMessenger in
                let own = adaMessenger.events()
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                let said = try await adaMessenger.sendLine("hello", in: .peer(bea.id))
                #expect(await first(own) { isStatusChange($0, .delivered, of: said.id) } != nil)
                #expect(await firstLine(received)?.text == "hello")
                try await beaMessenger.markRead(.peer(ada.id), notifiesAuthors: false)
                // A receipt, if any, would arrive before this message.
                _ = try await beaMessenger.find("Ada", timeout: .seconds(60))
                _ = try await beaMessenger.sendLine("what I meant to say", in: .peer(ada.id))
                var last: MessageStatus?
                for await event in own {
                    if case .chatMessageChanged(let line, _) = event, line.id == said.id { last = line.status }
                    if case .chatMessage(let line, _) = event, !line.isLocal { break }
                }
                #expect(last == nil)
                let statuses = try await adaMessenger.history(of: .peer(bea.id)).filter(\.isLocal).map(\.status)
                #expect(statuses == [.delivered])
            }
        }
    }

    /// Ada sends Bea a photo with a caption as soon as they see each other.
    private func sendPhoto(
        _ answer: @escaping @Sendable (Invitation) async -> Void = { _ in },
        _ body: @Sendable (Transfer, AsyncStream<MessengerEvent>) async throws -> Void
    ) async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (Person(1, "Ada"), Person(2, "Bea"))
        try await bea.run(on: segment, stage, answer) { _, beaMessenger in
            let received = beaMessenger.events()
            try await ada.run(on: segment, stage) { _, adaMessenger in
                let refusal = #expect(throws: MessengerError.self) {
                    try adaMessenger.send(
                        .null, with: InMemorySource(Self.photo), to: PeerID(bytes: [0, 0, 0, 0, 0, 0, 0, 1])!)
                }
                #expect(refusal?.description == MessageError.receiverNotInRange.description)
                var changes = adaMessenger.events().makeAsyncIterator()
                _ = try await adaMessenger.find("Bea", timeout: .seconds(60))
                func sendFile() throws -> Transfer? {
                    do {
                        return try adaMessenger.send(Self.caption, with: InMemorySource(Self.photo), to: bea.id).transfer
                    } catch MessengerError.rule(.receiverNotInRange) {
                        return nil
                    }
                }
                // The peer is seen before it is a neighbour that takes messages.
                var transfer = try sendFile()
                while transfer == nil, let change = await changes.next() {
                    if case .peerChanged(bea.id) = change { transfer = try sendFile() }
                }
                try await body(try #require(transfer), received)
            }
        }
    }

    private static let photo = MemoryContent(file: "photo.jpg", (0..<5_000).map { UInt8(truncatingIfNeeded: $0 * 7) })
    private static let caption = StructuredValue.object(["caption": .string("us")])

    private func expectCaption(_ received: AsyncStream<MessengerEvent>) async throws {
        let arrival = try #require(await firstArrival(received))
        let content = try BundleContent(decoding: arrival.content[...])
        #expect(content == .besideFile(Self.caption, name: "photo.jpg"))
    }

    @Test("a message with an attached file: only in direct mode, and both arrive")
    func fileBeside() async throws {
        let sink = InMemorySink()
        try await sendPhoto {
            _ = await $0.accept(into: sink).result
        } _: { transfer, received in
            try await expectCaption(received)
            #expect(await transfer.result.outcome == .completed)
        }
        #expect(sink.end == .finished)
        #expect(sink.received.entries.map(\.bytes) == Self.photo.entries.map(\.bytes))
    }

    @Test("a cancelled file is no longer asked about; the text sent with it arrives all the same")
    func fileCancelled() async throws {
        let (asked, ask) = AsyncStream.makeStream(of: Invitation.self)
        try await sendPhoto {
            ask.yield($0)
        } _: { transfer, received in
            let invitation = try #require(await asked.first { _ in true })
            transfer.cancel()
            #expect(await transfer.result.outcome == .cancelled(by: .local))
            #expect(await invitation.ended == .cancelled(by: .remote))
            try await expectCaption(received)
        }
    }

    @Test func `an error of the store is reported, and does not mean that a message no longer waits`() async throws {
        let scratch = ScratchFolder()
        let settings = MessengerSettings(
            bundles: UnreadableBundleStore(), conversations: try SQLiteConversationStore(directory: scratch.path))
        let id = try #require(BundleID(bytes: [UInt8](repeating: 1, count: BundleID.byteCount)))
        try await withNode(Stage(.memory).sender) { node in
            let messenger = try node.startMessenger(settings)
            await #expect(throws: MessengerError.self) { _ = try await messenger.waits(id) }
        }
        withExtendedLifetime(scratch) {}
    }
}

/// A store in memory that cannot say whether it has a bundle.
private struct UnreadableBundleStore: BundleStore {
    private let inner = InMemoryBundleStore()

    func contains(_ id: BundleID) throws(StorageError) -> Bool { throw StorageError(.failed, "the disk cannot be read") }

    func bundles() -> [PersistedBundle] { inner.bundles() }
    func apply(_ changes: [BundleStoreChange]) -> [BundleID] { inner.apply(changes) }
    func copy(of id: BundleID) -> [UInt8]? { inner.copy(of: id) }
    func recordForward(of id: BundleID) { inner.recordForward(of: id) }
    func deliveries() -> [(id: BundleID, expiry: WallTime)] { inner.deliveries() }
    func removeExpired(now: WallTime) { inner.removeExpired(now: now) }
    func removeAll() { inner.removeAll() }
}
