import NearshareBase
import NearshareBundles
import NearshareDatabase
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

/// Conversations over a radio simulated by the test: its links, messages, and whether messages are accepted.
@Suite("BlueChat", .timeLimit(.minutes(1)), .leavesNothing)
struct BlueChatTests {
    private final class PlayedRadio: ChatRadio {
        private struct State {
            var taken: [String] = []
            var isDeaf = false
        }

        private let state = Mutex(State())
        private let events: AsyncStream<ChatRadioEvent>
        private let continuation: AsyncStream<ChatRadioEvent>.Continuation

        init() {
            (events, continuation) = AsyncStream.makeStream()
        }

        func join(as name: DisplayName) -> AsyncStream<ChatRadioEvent> { events }

        func send(_ text: String, to peer: LinkAddress) throws(LinkError) {
            let isDeaf = state.withLock { state in
                if !state.isDeaf { state.taken.append(text) }
                return state.isDeaf
            }
            if isDeaf { throw LinkError(.timedOut, "\(peer) takes nothing") }
        }

        func disconnect(_ peer: LinkAddress) {}

        func tell(_ event: ChatRadioEvent) { continuation.yield(event) }
        func setDeaf(_ isDeaf: Bool) { state.withLock { $0.isDeaf = isDeaf } }
        var taken: [String] { state.withLock { $0.taken } }
    }

    private func address(_ number: Int) -> LinkAddress {
        LinkAddress(host: "00:AA:01:00:\(number / 100):\(number % 100)/random", port: 0, medium: .bluetooth)
    }

    /// A node that has only the radio.
    private func chat(
        contact: @escaping @Sendable (PeerID) -> ContactKeys? = { _ in nil },
        _ body: @Sendable (PlayedRadio, Messenger, AsyncStream<MessengerEvent>) async throws -> Void
    ) async throws {
        let radio = PlayedRadio()
        var settings = Stage(.memory).sender
        settings.radio = { () throws(DiscoveryError) in
            Radio(
                frames: InMemoryFrameRadio(), transport: InMemoryTransport(),
                discovery: InMemorySegment().join(host: "127.0.0.1"),
                chat: radio)
        }
        let scratch = ScratchFolder()
        var messengerSettings = MessengerSettings(
            bundles: try SQLiteBundleStore(directory: scratch.path),
            conversations: try SQLiteConversationStore(directory: scratch.path), contact: contact)
        messengerSettings.usesBlueChat = true
        try await withNode(settings) { [settings = messengerSettings] node in
            let messenger = try node.startMessenger(settings)
            try await body(radio, messenger, messenger.events())
        }
    }

    /// The first event for which the closure returns a value.
    private func next<Result>(_ events: AsyncStream<MessengerEvent>, _ test: (MessengerEvent) -> Result?) async -> Result? {
        for await event in events { if let result = test(event) { return result } }
        return nil
    }

    private func changed(_ event: MessengerEvent) -> PeerID? { if case .peerChanged(let id) = event { id } else { nil } }

    private func delivered(_ event: MessengerEvent) -> String? {
        if case .chatMessageChanged(let message, _) = event, message.status == .delivered { message.text } else { nil }
    }

    private func heard(_ event: MessengerEvent) -> ChatMessage? {
        if case .chatMessage(let message, _) = event, !message.isLocal { message } else { nil }
    }

    @Test("a found peer can be messaged, under a name that is marked as unproven; both ways")
    func bothWays() async throws {
        try await chat { radio, messenger, events in
            radio.tell(.found(address(1), name: DisplayName(truncating: "olive")))
            let id = try #require(await next(events, changed))
            #expect(messenger.blueChatPeers.map(\.name.claimed) == ["olive (BlueChat, unproven)"])
            let long = String(repeating: "grüß dich ", count: 200)
            for text in ["hello", long] {
                #expect(try await messenger.sendLine(text, in: .peer(id)).status == .waiting)
                #expect(await next(events, delivered) == text)
            }
            #expect(radio.taken.joined() == "hello" + long)
            #expect(radio.taken.allSatisfy { $0.utf8.count <= 512 })
            radio.tell(.text("hi \u{1b}[31m", from: address(1)))
            let line = await next(events, heard)
            #expect(line?.conversation == .peer(id) && line?.text == "hi \u{1b}[31m")
            #expect(line?.authorName?.claimed == "olive (BlueChat, unproven)")
        }
    }

    @Test("messages written while the peer is away or refuses them are sent when it is found again: in order, and once")
    func waiting() async throws {
        try await chat { radio, messenger, events in
            radio.tell(.found(address(1), name: nil))
            let id = try #require(await next(events, changed))
            radio.setDeaf(true)
            _ = try await messenger.sendLine("one", in: .peer(id))
            radio.tell(.gone(address(1)))
            #expect(await next(events, changed) == id)
            #expect(messenger.blueChatPeers.isEmpty)
            _ = try await messenger.sendLine("two", in: .peer(id))
            radio.setDeaf(false)
            radio.tell(.found(address(1), name: nil))
            #expect(await next(events, delivered) == "one")
            #expect(await next(events, delivered) == "two")
            _ = try await messenger.sendLine("three", in: .peer(id))
            #expect(await next(events, delivered) == "three")
            #expect(radio.taken == ["one", "two", "three"])
        }
    }

    @Test("K4: an address whose id is that of a peer with a key is ignored")
    func idOfAKnownKey() async throws {
        let friend = Stage.bea
        let contact = EndpointKeys(agreementKey: friend.agreementKey.publicKey, signingKey: friend.signingKey.publicKey)
        let first = Mutex<PeerID?>(nil)
        // Knows a key for the first id that is asked for.
        let firstOnly: @Sendable (PeerID) -> ContactKeys? = { id in
            first.withLock { first in
                first = first ?? id
                return first == id ? ContactKeys(contact, areProven: true) : nil
            }
        }
        try await chat(contact: firstOnly) { radio, messenger, events in
            radio.tell(.found(address(1), name: DisplayName(truncating: "Bea")))
            radio.tell(.text("it is me", from: address(1)))
            radio.tell(.found(address(2), name: DisplayName(truncating: "olive")))
            radio.tell(.text("hi", from: address(2)))
            #expect(await next(events, heard)?.text == "hi")
            #expect(messenger.blueChatPeers.map(\.name.claimed) == ["olive (BlueChat, unproven)"])
        }
    }

    @Test("R6: the number of peers and of texts is limited; names keep the mark for unproven")
    func floods() async throws {
        try await chat { radio, messenger, events in
            let name = DisplayName(truncating: String(repeating: "ü", count: 31))
            for number in 0..<200 { radio.tell(.found(address(number), name: name)) }
            for number in 0..<200 { radio.tell(.text("\(number)", from: address(0))) }
            // 64 peers have a place: each has a change, and the one that goes another.
            radio.tell(.gone(address(1)))
            var lineCount = 0
            var changeCount = 0
            while changeCount < 65, let event = await next(events, { $0 }) {
                if heard(event) != nil { lineCount += 1 }
                if changed(event) != nil { changeCount += 1 }
            }
            #expect(messenger.blueChatPeers.count == 63)
            // A burst of 30 texts, and one a second for the rest of the test.
            #expect((30..<150).contains(lineCount))
            #expect(messenger.blueChatPeers.allSatisfy { $0.name.claimed.hasSuffix(" (BlueChat, unproven)") })
        }
    }
}
