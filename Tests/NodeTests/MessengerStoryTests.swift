import FoundationEssentials
import Glibc
import NearshareBase
import NearshareCarry
import NearshareDatabase
import NearshareEdges
import NearshareMesh
import NearshareNode
import NearshareSecurity
import NearshareTesting
import NearshareWire
import Testing

/// Conversations between nodes that carry for each other, with their stores in files that outlive them.
@Suite("messenger", .timeLimit(.minutes(3)))
struct MessengerStoryTests {
    /// One person: a key, a name, and what is kept.
    private struct Person {
        let identity: LocalIdentity
        let name: String
        let directory: String
        var contacts: [PeerID: CarriedContact] = [:]

        init(_ number: UInt8, _ name: String) throws {
            identity = LocalIdentity(seed: [UInt8](repeating: number, count: 64))
            self.name = name
            var template = Array("/tmp/nearshare-messenger-XXXXXX".utf8CString)
            guard mkdtemp(&template) != nil else { throw StorageError(.failed, "no scratch directory") }
            directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }

        var id: PeerID { identity.peerID }
        var contact: CarriedContact {
            CarriedContact(agreementKey: identity.agreementKey.publicKey, signingKey: identity.signingKey.publicKey)
        }

        /// Runs their node on a segment, found by others.
        func run<Result: Sendable>(
            on segments: [InMemorySegment], _ stage: Stage, _ body: @Sendable (Node, Messenger) async throws -> Result
        ) async throws -> Result {
            var settings = stage.settings(identity, name)
            settings.discovery = segments[0].join(host: "127.0.0.1")
            let contacts = contacts
            let messengerSettings = MessengerSettings(
                carried: try SQLiteCarriedStore(directory: directory),
                conversations: try SQLiteConversationStore(directory: directory), contact: { contacts[$0] })
            return try await withNode(settings) { node in
                let receiving = try node.receive()
                defer { withExtendedLifetime(receiving) {} }
                return try await body(node, try node.startMessenger(messengerSettings))
            }
        }
    }

    private func first(
        _ events: AsyncStream<MessengerEvent>, _ isWanted: (MessengerEvent) -> Bool
    ) async -> MessengerEvent? {
        for await event in events where isWanted(event) { return event }
        return nil
    }

    private func text(_ event: MessengerEvent?) -> String? {
        if case .entry(let entry)? = event { entry.text } else { nil }
    }

    private func isMark(_ event: MessengerEvent, _ mark: ChatMark, of id: String) -> Bool {
        if case .marked(let entry, _) = event { entry.id == id && entry.mark == mark } else { false }
    }

    @Test(
        "A line arrives, is marked as delivered, and as read when it was; texts of any length, in one piece",
        arguments: Way.allCases)
    func conversation(_ way: Way) async throws {
        let stage = Stage(way)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (try Person(1, "Ada"), try Person(2, "Bea"))
        try await bea.run(on: [segment], stage) { _, there in
            let received = there.events()
            try await ada.run(on: [segment], stage) { _, here in
                let own = here.events()
                _ = try await here.find("Bea", timeout: .seconds(60))
                let long = String(repeating: "👩‍👩‍👧 Grüße\n", count: 400)
                for said in ["hello", String(repeating: "\u{10000}", count: 140), long] {
                    let entry = try await here.say(said, in: .peer(bea.id))
                    #expect(await first(own) { isMark($0, .delivered, of: entry.id) } != nil)
                    #expect(text(await first(received) { if case .entry = $0 { true } else { false } }) == said)
                }
                try await there.markRead(.peer(ada.id))
                let lines = try await here.history(of: .peer(bea.id))
                #expect(await first(own) { isMark($0, .read, of: lines[2].id) } != nil)
                // 140 characters go in one message, whatever they are; nothing of a conversation is lost or doubled.
                let found1 = try await there.history(of: .peer(ada.id)).map(\.text)
                #expect(found1 == lines.map(\.text))
                let found2 = try await there.arrivals().count
                #expect(found2 > 3)
            }
        }
    }

    @Test("What is said while nobody is near goes when they come, after a restart of both, and once", arguments: Way.allCases)
    func waiting(_ way: Way) async throws {
        let stage = Stage(way)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (try Person(1, "Ada"), try Person(2, "Bea"))
        // Keys unknown: nothing can be sealed yet.
        let id = try await ada.run(on: [segment], stage) { _, here in
            try await here.say("are you there?", in: .peer(bea.id)).id
        }
        for _ in 0..<2 {
            try await ada.run(on: [segment], stage) { _, here in
                let own = here.events()
                let mark = try await here.history(of: .peer(bea.id)).last?.mark
                try await bea.run(on: [segment], stage) { _, there in
                    if mark == .waiting { #expect(await first(own) { isMark($0, .delivered, of: id) } != nil) }
                    _ = try await there.find("Ada", timeout: .seconds(60))
                    let answer = try await there.say("yes", in: .peer(ada.id))
                    #expect(text(await first(own) { if case .entry = $0 { true } else { false } }) == "yes")
                    _ = answer
                }
            }
        }
        try await bea.run(on: [segment], stage) { _, there in
            let found3 = try await there.history(of: .peer(ada.id)).filter { !$0.isOurs }.map(\.text)
            #expect(found3 == ["are you there?"])
        }
    }

    @Test("The public room reaches all, once, with the names they go by", arguments: Way.allCases)
    func room(_ way: Way) async throws {
        let stage = Stage(way)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let people = [try Person(1, "Ada"), try Person(2, "Bea"), try Person(3, "Cleo")]
        try await people[0].run(on: [segment], stage) { _, ada in
            try await people[1].run(on: [segment], stage) { _, bea in
                try await people[2].run(on: [segment], stage) { _, cleo in
                    let (heard, echo) = (cleo.events(), bea.events())
                    for name in ["Bea", "Cleo"] { _ = try await ada.find(name, timeout: .seconds(60)) }
                    _ = try await cleo.find("Ada", timeout: .seconds(60))
                    _ = try await bea.find("Ada", timeout: .seconds(60))
                    let found4 = try await ada.say("hello all", in: .everybody).mark
                    #expect(found4 == .waiting)
                    for events in [heard, echo] {
                        let event = await first(events) { if case .entry = $0 { true } else { false } }
                        guard case .entry(let entry)? = event else { return }
                        #expect(entry.text == "hello all" && entry.author == people[0].id && entry.authorName?.claimed == "Ada")
                    }
                    _ = try await cleo.say("and to you", in: .everybody)
                    #expect(text(await first(echo) { if case .entry = $0 { true } else { false } }) == "and to you")
                    let found5 = try await bea.history(of: .everybody).count
                    #expect(found5 == 2)
                    let found6 = try await ada.history(of: .everybody).first?.mark
                    #expect(found6 == .sent)
                }
            }
        }
    }

    @Test("K2: what nobody has sealed is no line of anybody, and a mark from another changes nothing", arguments: Way.allCases)
    func unproven(_ way: Way) async throws {
        let stage = Stage(way)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea, mallory) = (try Person(1, "Ada"), try Person(2, "Bea"), try Person(9, "Ada"))
        try await bea.run(on: [segment], stage) { _, there in
            let received = there.events()
            let said = try await there.say("only for Ada", in: .peer(ada.id))
            try await mallory.run(on: [segment], stage) { _, here in
                _ = try await here.find("Bea", timeout: .seconds(60))
                _ = try here.send(.object(["text": .string("I am Ada")]), using: .broadcast)
                let event = await first(received) { if case .arrived = $0 { true } else { false } }
                guard case .arrived(let arrival)? = event else { return }
                #expect(arrival.sender == nil)
                _ = try here.send(.object(["read": .array([.string(said.id)])]), using: .full(bea.id))
                _ = try here.send(.object(["text": .string("the end")]), using: .full(bea.id))
                _ = await first(received) { if case .arrived(let arrival) = $0 { arrival.sender != nil } else { false } }
                let found7 = try await there.conversations().map(\.conversation)
                #expect(found7 == [.peer(mallory.id), .peer(ada.id)])
                let found8 = try await there.history(of: .peer(ada.id)).map(\.mark)
                #expect(found8 == [.waiting])
            }
        }
    }

    @Test("A message with a file beside it: only in direct mode, and both arrive")
    func fileBeside() async throws {
        let stage = Stage(.memory)
        let segment = InMemorySegment(interfaceName: stage.interface ?? "memory0")
        let (ada, bea) = (try Person(1, "Ada"), try Person(2, "Bea"))
        try await bea.run(on: [segment], stage) { _, there in
            let received = there.events()
            try await ada.run(on: [segment], stage) { _, here in
                let source = MemorySource([.file("photo.jpg", [UInt8](repeating: 7, count: 5_000))])
                #expect(throws: MessengerError.self) {
                    try here.send(.null, with: source, to: PeerID(bytes: [0, 0, 0, 0, 0, 0, 0, 1])!)
                }
                _ = try await here.find("Bea", timeout: .seconds(60))
                while true {
                    do {
                        let sent = try here.send(.object(["caption": .string("us")]), with: source, to: bea.id)
                        sent.transfer.cancel()
                        break
                    } catch MessengerError.rule(.receiverNotInRange) {
                        try await Task.sleep(for: .milliseconds(10))
                    }
                }
                let event = await first(received) { if case .arrived = $0 { true } else { false } }
                guard case .arrived(let arrival)? = event else { return }
                let content = try CarriedContent(decoding: arrival.content[...])
                #expect(content == .besideFile(.object(["caption": .string("us")]), name: "photo.jpg"))
            }
        }
    }
}
