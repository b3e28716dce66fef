import NearshareBase
import NearshareDatabase
import NearshareEngine
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

/// A messenger whose wall clock the test sets.
@Suite("lifetimes of lines of a messenger", .timeLimit(.minutes(1)), .leavesNothing)
struct MessengerExpiryTests {
    private final class WallClock: Sendable {
        private let start = SystemClock.wall()
        private let minutes = Mutex<Int64>(0)

        var now: WallTime { time(minutes.withLock(\.self)) }

        /// The time some minutes after the first reading.
        func time(_ minutes: Int64) -> WallTime { WallTime(milliseconds: start.milliseconds + minutes * 60_000) }

        func set(_ minutes: Int64) { self.minutes.withLock { $0 = minutes } }
    }

    private let anna = Conversation.peer(PeerID(bytes: [1, 1, 1, 1, 1, 1, 1, 1])!)
    private let clock = WallClock()
    private let scratch = ScratchFolder()

    /// The result of the next removal that has found any lines.
    private func nextExpiry(_ events: AsyncStream<MessengerEvent>) async -> [Conversation: WallTime] {
        for await event in events {
            if case .expired(let removed, at: _) = event, !removed.isEmpty { return removed }
        }
        return [:]
    }

    private func makeStore(_ lines: [(id: String, minute: Int64)]) throws -> SQLiteConversationStore {
        let store = try SQLiteConversationStore(directory: scratch.path)
        guard case .peer(let peer) = anna else { return store }
        for line in lines {
            let message = ChatMessage(
                id: line.id, conversation: anna, author: peer, authorName: nil, text: line.id, when: clock.time(line.minute),
                status: .delivered)
            _ = try store.insert(message)
        }
        return store
    }

    private func run(
        _ store: SQLiteConversationStore, lifetime: String?,
        _ body: @Sendable (Messenger, AsyncStream<MessengerEvent>) async throws -> Void
    ) async throws {
        var settings = Stage(.memory).sender
        settings.wallClock = { [clock] in clock.now }
        var messengerSettings = MessengerSettings(
            bundles: try SQLiteBundleStore(directory: scratch.path), conversations: store)
        messengerSettings.messageLifetime = lifetime.flatMap { MessageLifetime($0) }
        try await withNode(settings) { [messengerSettings] node in
            let (messenger, events) = try node.startMessengerWithEvents(messengerSettings)
            try await body(messenger, events)
        }
        withExtendedLifetime(scratch) {}
    }

    @Test("lines that became too old while no node ran go at the start, others later; one that waits to be sent stays")
    func start() async throws {
        let store = try makeStore([("old", -60), ("new", -5)])
        try await run(store, lifetime: "10m") { messenger, events in
            #expect(await nextExpiry(events) == [anna: clock.time(-10)])
            #expect(try await messenger.history(of: anna).map(\.id) == ["new"])
            let own = try await messenger.sendLine("are you there?", in: anna)
            clock.set(30)
            // Its thread looks at the clock again.
            _ = try await messenger.setLifetime(of: .publicRoom, to: .unlimited)
            #expect(await nextExpiry(events) == [anna: clock.time(20)])
            #expect(try await messenger.history(of: anna).map(\.id) == [own.id])
        }
    }

    @Test("what became too old while the machine was suspended goes when a chat reads the lifetime")
    func suspended() async throws {
        let store = try makeStore([("line", 0)])
        try await run(store, lifetime: "10m") { messenger, events in
            clock.set(10)
            #expect(messenger.lifetime(of: anna).current == MessageLifetime("10m"))
            #expect(await nextExpiry(events) == [anna: clock.time(0)])
            let history = try await messenger.history(of: anna)
            #expect(history.isEmpty)
        }
    }

    @Test("a lifetime that the user sets is in force at once, and after the next start")
    func set() async throws {
        let store = try makeStore([("old", -60), ("new", -5)])
        let hour = try #require(MessageLifetime("1h"))
        try await run(store, lifetime: nil) { messenger, events in
            #expect(messenger.lifetime(of: anna) == ConversationLifetime(.standard, standard: nil))
            let lifetime = try await messenger.setLifetime(of: anna, to: .limited(hour))
            #expect(lifetime.current == hour)
            #expect(await nextExpiry(events) == [anna: clock.time(-60)])
        }
        clock.set(56)
        try await run(store, lifetime: nil) { messenger, events in
            #expect(messenger.lifetime(of: anna).current == hour)
            #expect(await nextExpiry(events) == [anna: clock.time(-4)])
            let history = try await messenger.history(of: anna)
            #expect(history.isEmpty)
        }
    }
}
