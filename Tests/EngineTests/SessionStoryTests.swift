import NearshareBase
import NearshareCrypto
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionStoryTests {
    @Test("all others receive a member's messages in order", arguments: LinkKind.allCases) func messages(_ linkKind: LinkKind)
        async throws
    {
        try await TestNetwork.withSession(of: 3, linkKind) { network, sessions in
            for number in 0..<500 {
                try await sessions[0].send(SessionMessage(bytes: [UInt8(number >> 8), UInt8(number & 255)]))
            }
            for session in sessions.dropFirst() {
                var next = 0
                for await received in session.messages {
                    #expect(received.sender == network.id(0))
                    #expect(received.message.bytes == [UInt8(next >> 8), UInt8(next & 255)])
                    next += 1
                    if next == 500 { break }
                }
                #expect(next == 500)
            }
        }
    }

    @Test("eight nodes reach each other; a ninth is refused", arguments: LinkKind.allCases) func eight(_ linkKind: LinkKind)
        async throws
    {
        try await TestNetwork.withSession(of: 8, linkKind) { network, sessions in
            for session in sessions { #expect(session.members.count == 7) }
            for (number, session) in sessions.enumerated() { try await session.send(SessionMessage(bytes: [UInt8(number)])) }
            for (number, session) in sessions.enumerated() {
                var heard: Set<UInt8> = []
                for await received in session.messages {
                    heard.insert(received.message.bytes[0])
                    if heard.count == 7 { break }
                }
                #expect(heard == Set((0..<8).map { UInt8($0) }.filter { $0 != UInt8(number) }))
            }
            try await withNode(network.settings(8)) { node in
                let listener = try node.listen()
                await #expect(throws: SessionError.full) {
                    try await sessions[3].invite(network.destination(8, listener.port))
                }
            }
        }
    }

    @Test(
        "S2: A and C, separated, communicate through B under their own identities, and directly once possible",
        arguments: LinkKind.allCases)
    func relays(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind, apart: [(1, 2)]) { network, sessions in
            #expect(sessions[1].state(of: network.id(2)) == .connected(via: network.id(0)))
            try await sessions[1].send(SessionMessage(bytes: [7]), to: [network.id(2)])
            let received = await sessions[2].messages.first { _ in true }
            #expect(received?.sender == network.id(1) && received?.message.bytes == [7])

            let content = MemoryContent(file: "a", [UInt8](repeating: 5, count: 1_000_000))
            let transfers = try await sessions[1].sendResource(
                InMemorySource(content), to: [network.id(2)], resumeKey: Stage.resumeKey)
            let sink = InMemorySink()
            let invitation = try #require(await sessions[2].resources.first { _ in true })
            #expect(invitation.peer.id == network.id(1))
            #expect(await invitation.accept(into: sink).result.outcome == .completed)
            #expect(await transfers[network.id(2)]?.result.outcome == .completed)
            #expect(sink.received.entries == content.entries)

            let stream = try await sessions[2].openStream(named: "numbers", to: network.id(1))
            try await stream.write([1, 2, 3])
            stream.finish()
            let incoming = try #require(await sessions[1].streams.first { _ in true })
            #expect(incoming.name == "numbers" && incoming.member == network.id(2))
            var bytes: [UInt8] = []
            for try await more in incoming { bytes += more }
            #expect(bytes == [1, 2, 3])

            network.heal(1, 2)
            try await sessions[1].wait { $0.state(of: network.id(2)) == .connected(via: nil) }
            try await sessions[2].send(SessionMessage(bytes: [8]), to: [network.id(1)])
            #expect(await sessions[1].messages.first { _ in true }?.message.bytes == [8])
        }
    }

    @Test(
        "a member whose direct link is lost is reached through another one, while nothing answers at its addresses",
        arguments: LinkKind.allCases)
    func routesAround(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind) { network, sessions in
            for (one, other) in [(1, 2), (2, 1)] {
                try await sessions[one].waitUnannounced { session in
                    session.members.contains { $0.id == network.id(0) && $0.neighbours.contains(network.id(other)) }
                }
            }
            network.holdConnecting(1, 2)
            network.breakLinks(1, 2)
            try await sessions[1].wait { $0.state(of: network.id(2)) == .connected(via: network.id(0)) }
            try await sessions[1].send(SessionMessage(bytes: [7]), to: [network.id(2)])
            #expect(await sessions[2].messages.first { _ in true }?.message.bytes == [7])
            network.letConnect(1, 2)
            try await sessions[1].wait { $0.state(of: network.id(2)) == .connected(via: nil) }
        }
    }

    @Test(
        "two members without a direct link change from one relay to another one, and lose no message",
        arguments: LinkKind.allCases)
    func changesRelays(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 4, linkKind, apart: [(1, 2)]) { network, sessions in
            let receiver = network.id(2)
            var messages = sessions[2].messages.makeAsyncIterator()
            for number in 0..<4 as Range<UInt8> {
                for (one, other) in [(1, 2), (2, 1)] {
                    try await sessions[one].waitUnannounced { session in
                        let relays = session.members.filter { $0.neighbours.contains(network.id(other)) }
                        return relays.count == 2 && relays.allSatisfy { $0.state == .connected(via: nil) }
                    }
                }
                let state = sessions[1].state(of: receiver)
                let relay = state == .connected(via: network.id(0)) ? 0 : 3
                #expect(state == .connected(via: network.id(relay)))
                network.partition(1, relay)
                try await sessions[1].send(SessionMessage(bytes: [number]), to: [receiver])
                #expect(await messages.next()?.message.bytes == [number])
                network.heal(1, relay)
            }
        }
    }

    @Test(
        "after a break the session continues without a new invitation, and no message is lost or duplicated",
        arguments: LinkKind.allCases
    )
    func reconnects(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let count = 3000
            async let sending: Void = {
                for number in 0..<count {
                    try await sessions[0].send(SessionMessage(bytes: [UInt8(number >> 8), UInt8(number & 255)]))
                    if number % 1000 == 500 {
                        network.partition(0, 1)
                        network.heal(0, 1)
                    }
                }
            }()
            var next = 0
            for await received in sessions[1].messages {
                #expect(received.message.bytes == [UInt8(next >> 8), UInt8(next & 255)])
                next += 1
                if next == count { break }
            }
            #expect(next == count)
            try await sending
        }
    }

    @Test("urgent messages overtake those that wait for a link, and each reports its delivery", arguments: LinkKind.allCases)
    func urgent(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            network.partition(0, 1)
            try await sessions[0].wait { $0.state(of: network.id(1))?.isConnected != true }
            var sent: [SentMessage] = []
            for (text, isUrgent) in [("one", false), ("two", false), ("fire", true), ("run", true)] {
                sent.append(try await sessions[0].send(SessionMessage(text: text), isUrgent: isUrgent))
            }
            network.heal(0, 1)
            var texts: [String?] = []
            for await received in sessions[1].messages {
                texts.append(received.message.text)
                if texts.count == sent.count { break }
            }
            #expect(texts == ["fire", "run", "one", "two"])
            for message in sent { try await message.delivered }
        }
    }

    @Test("a member that leaves is gone for all; sending to it is an error", arguments: LinkKind.allCases) func leaves(
        _ linkKind: LinkKind
    )
        async throws
    {
        try await TestNetwork.withSession(of: 3, linkKind) { network, sessions in
            await sessions[2].leave()
            try await sessions[0].wait { $0.members.count == 1 }
            try await sessions[1].wait { $0.members.count == 1 }
            await #expect(throws: SessionError.notConnected(network.id(2))) {
                try await sessions[0].send(SessionMessage(bytes: [1]), to: [network.id(2)])
            }
            await #expect(throws: SessionError.left) { try await sessions[2].send(SessionMessage(bytes: [1])) }
            await #expect(throws: SessionError.self) { try await sessions[0].send(SessionMessage(bytes: [1]), to: []) }
        }
    }
}

extension Session {
    func state(of member: PeerID) -> MemberState? { members.first { $0.id == member }?.state }

    func waitUntilAllAreConnected(_ count: Int) async throws {
        try await wait { $0.members.count == count && $0.members.allSatisfy(\.state.isConnected) }
    }

    /// Waits until the condition is true, which is checked after each change of the members and of their states.
    func wait(until isSo: @Sendable (Session) -> Bool) async throws {
        while true {
            let known = currentMembers
            if isSo(self) { return }
            try Task.checkCancellation()
            // Not for the condition itself, which may take locks of links.
            await progress.waitForNotification { currentMembers != known }
        }
    }

    /// Waits until the condition is true, which is checked after each reported change. It reads ``changes``, which have one reader.
    func waitReadingChanges(until isSo: @Sendable (Session) -> Bool) async throws {
        if isSo(self) { return }
        for await _ in changes where isSo(self) { return }
        try Task.checkCancellation()
        Issue.record("the session was over before")
    }

    /// Waits until the condition is true, for what a session reports to no program: a founder, a claimed name, neighbours,
    /// messages that no reader has taken. Only this function looks again and again.
    func waitUnannounced(until isSo: @Sendable (Session) -> Bool) async throws {
        while !isSo(self) { try await Task.sleep(for: .milliseconds(5)) }
    }

    /// The members without figures of their links; empty once the session is over.
    private var currentMembers: [Member] {
        state.withLock { state in
            guard !state.isOver else { return [] as [Member] }
            return state.members.roster.others.map { Member($0, in: state.members) }
        }
    }
}
