import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// The metadata that members set for each other.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionMetadataTests {
    fileprivate struct Card: Codable, Hashable {
        var colour: String
        var seat: Int
    }

    @Test("all members see each other's latest metadata, those that join later as well", arguments: LinkKind.allCases)
    func seen(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let red = Card(colour: "red", seat: 1)
            try sessions[0].setMetadata(Card(colour: "blue", seat: 1))
            try sessions[0].setMetadata(red)
            try sessions[1].setMetadata(["watches": true])
            try await sessions[1].waitReadingChanges { $0.card(of: network.id(0)) == red }
            try await sessions[0].waitReadingChanges { $0.members.first?.metadata == ["watches": true] }
            try await withNode(network.settings(2)) { third in
                let listener = try third.listen()
                async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                _ = try await sessions[1].invite(network.destination(2, listener.port))
                let session = try #require(await accepted)
                try await session.waitReadingChanges { $0.card(of: network.id(0)) == red }
                try await session.waitReadingChanges { session in
                    session.members.contains { $0.id == network.id(1) && $0.metadata == ["watches": true] }
                }
                // Not delivered as messages: the first one is the program's.
                try await sessions[0].send(SessionMessage(text: "hello"))
                #expect(await session.messages.first { _ in true }?.message.text == "hello")
                try sessions[0].setMetadata(nil as Card?)
                try await session.waitReadingChanges { session in
                    session.members.contains { $0.id == network.id(0) && $0.metadata == nil }
                }
                await session.leave()
            }
        }
    }

    @Test("a change is reported once, with the latest value", arguments: LinkKind.allCases)
    func reported(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            for number in 0..<6000 { try sessions[0].setMetadata(number) }
            try await sessions[1].waitUnannounced { $0.members.first?.metadata == 5999 }
            // A reliable message after them: their events have been reported when it is here.
            try await sessions[0].send(SessionMessage(text: "done"))
            #expect(await sessions[1].messages.first { _ in true }?.message.text == "done")
            var reported: [StructuredValue?] = []
            for await change in sessions[1].changes {
                guard case .metadata(let id, let value) = change else { continue }
                #expect(id == network.id(0))
                reported.append(value)
                if value == 5999 { break }
            }
            #expect(reported == [5999])
        }
    }

    @Test("metadata survives a lost link, arrives in a full window, and is set again by a member that restarts")
    func survives() async throws {
        let settings = {
            var settings = TestNetwork.trusting
            settings.channel.maximumUnacknowledgedCount = 2
            return settings
        }()
        try await TestNetwork.withSession(of: 2, .memory, settings: settings) { network, sessions in
            for _ in 0..<2 { try await sessions[0].send(SessionMessage(text: "unread")) }
            try sessions[0].setMetadata(Card(colour: "green", seat: 2))
            network.breakLinks(0, 1)
            for _ in 0..<2 { #expect(await sessions[1].messages.first { _ in true }?.message.text == "unread") }
            try await sessions[1].waitReadingChanges { $0.card(of: network.id(0)) == Card(colour: "green", seat: 2) }
            network.isolate(1)
            try await sessions[0].wait { $0.state(of: network.id(1))?.isConnected != true }
            await sessions[1].leave(waiting: .zero)
            network.bringBack(1)
            // The same key in a new process.
            try await withNode(network.settings(1)) { again in
                let listener = try again.listen()
                async let accepted = listener.sessionInvitations.first { _ in true }?.accept(settings)
                _ = try await sessions[0].invite(network.destination(1, listener.port))
                let session = try #require(await accepted)
                try await session.waitReadingChanges { $0.card(of: network.id(0)) == Card(colour: "green", seat: 2) }
                await session.leave()
            }
        }
    }

    @Test(
        "metadata arrives however often it is set while nothing is read, also behind urgent messages",
        arguments: [(3584, 512), (0, 1000)])
    func unread(normalCount: Int, urgentCount: Int) async throws {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            for (isUrgent, count) in [(false, normalCount), (true, urgentCount)] {
                for _ in 0..<count { try await sessions[0].send(SessionMessage(text: "unread"), isUrgent: isUrgent) }
            }
            for number in 0..<500 as Range<Int64> { try sessions[0].setMetadata(number) }
            try await sessions[1].waitUnannounced { $0.members.first?.metadata == 499 }
            // Seen by the other member, each change is the next one.
            for number in 500..<530 as Range<Int64> {
                try sessions[0].setMetadata(number)
                try await sessions[1].waitUnannounced { $0.members.first?.metadata == .integer(number) }
            }
            let members = sessions[0].members
            #expect(members.map(\.id) == [network.id(1)])
            #expect(members.map(\.unacknowledgedMessages) == [normalCount + urgentCount])
            await sessions[0].leave(waiting: .zero)
        }
    }

    @Test("a member that returns is heard once less than a window of its earlier messages is unread") func heldBack()
        async throws
    {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            // The last eighth of the window is left to urgent ones, which would go before others that wait.
            for (isUrgent, count) in [(false, 3584 as UInt64), (true, 4096)] {
                for _ in sessions[0].inbox.arrivedCount..<count {
                    try await sessions[1].send(SessionMessage(text: "unread"), isUrgent: isUrgent)
                }
                try await sessions[0].waitUnannounced { $0.inbox.arrivedCount == count }
            }
            await sessions[1].leave(waiting: .zero)
            try await sessions[0].wait { $0.members.isEmpty }
            try await withNode(network.settings(1)) { again in
                let listener = try again.listen()
                async let accepted = listener.sessionInvitations.first { _ in true }?.accept(TestNetwork.trusting)
                _ = try await sessions[0].invite(network.destination(1, listener.port))
                let session = try #require(await accepted)
                try session.setMetadata("back")
                #expect(sessions[0].members.first?.metadata == nil)
                #expect(await sessions[0].messages.first { _ in true }?.message.text == "unread")
                try await sessions[0].waitReadingChanges { $0.members.first?.metadata == "back" }
                await session.leave()
            }
        }
    }

    @Test("metadata reaches members without a direct link") func reachesAll() async throws {
        var settings = TestNetwork.trusting
        settings.memberLimit = 12
        try await TestNetwork.withSession(of: 10, .memory, settings: settings) { network, sessions in
            try sessions[9].setMetadata("the last")
            for session in sessions.dropLast() {
                try await session.waitReadingChanges { session in
                    session.members.contains { $0.id == network.id(9) && $0.metadata == "the last" }
                }
            }
        }
    }

    @Test("too large metadata is rejected") func tooLarge() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { _, sessions in
            #expect(throws: SessionError.self) { try sessions[0].setMetadata(String(repeating: "a", count: 1022)) }
            try sessions[0].setMetadata(String(repeating: "a", count: 1021))
            try await sessions[1].waitReadingChanges { $0.members.first?.metadata != nil }
        }
    }
}

extension Session {
    fileprivate func card(of id: PeerID) -> SessionMetadataTests.Card? {
        members.first { $0.id == id }?.metadata.flatMap { try? $0.decode() }
    }
}
