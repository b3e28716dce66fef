import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Members that the founder of a session removes.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionRemovalStoryTests {
    private func trusting(limit: Int = 8) -> SessionSettings {
        var settings = TestNetwork.trusting
        settings.memberLimit = limit
        return settings
    }

    private func expectAlone(_ sessions: [Session], _ network: TestNetwork, without gone: Int) async throws {
        for session in sessions {
            try await session.wait { !$0.members.map(\.id).contains(network.id(gone)) }
        }
        for (one, other) in [(0, 1), (1, 0)] {
            let (sender, receiver) = (sessions[one], sessions[other])
            try await sender.send(SessionMessage(text: "still here"), to: [receiver.node.id])
            #expect(await receiver.messages.first { _ in true }?.message.text == "still here")
        }
    }

    @Test("the founder removes a member: it is told why, all others see it leave", arguments: LinkKind.allCases)
    func removes(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind) { network, sessions in
            for session in sessions { try await session.waitUnannounced { $0.founder == network.id(0) } }
            #expect(throws: SessionError.self) { try sessions[1].remove(network.id(2)) }
            #expect(throws: SessionError.thisNode) { try sessions[0].remove(network.id(0)) }
            #expect(throws: SessionError.notConnected(network.id(9))) { try sessions[0].remove(network.id(9)) }
            let lost = try await sessions[0].send(SessionMessage(text: "unread"), to: [network.id(2)])
            try sessions[0].remove(network.id(2))
            #expect(await sessions[2].ended == .removed)
            await #expect(throws: SessionError.removed) { try await sessions[2].send(SessionMessage(text: "x")) }
            await #expect(throws: SessionError.notDelivered(to: [network.id(2)])) { try await lost.delivered }
            #expect(throws: SessionError.notConnected(network.id(2))) { try sessions[0].remove(network.id(2)) }
            try await expectAlone([sessions[0], sessions[1]], network, without: 2)
        }
    }

    @Test("S10: a removed member is not admitted again, whoever invites it", arguments: LinkKind.allCases)
    func returns(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let nodes = (0..<3).map { Node.start(network.settings($0)) }
        let listeners = try nodes.map { try $0.listen() }
        let session = try nodes[0].startSession(trusting())
        var sessions = [session]
        for number in 1...2 {
            async let accepted = listeners[number].sessionInvitations.first { _ in true }?.accept(trusting())
            _ = try await session.invite(network.destination(number, listeners[number].port))
            sessions.append(try #require(await accepted))
        }
        try await sessions[1].wait { $0.members.count == 2 }
        try session.remove(network.id(2))
        #expect(await sessions[2].ended == .removed)
        try await sessions[1].wait { $0.members.count == 1 }
        for inviting in sessions.prefix(2) {
            do {
                _ = try await inviting.invite(network.destination(2, listeners[2].port))
                Issue.record("the removed member was invited")
            } catch {
                guard case .unavailable = error else { throw error }
            }
        }
        for node in nodes { await node.stop() }
    }

    @Test("a member that was out of reach during the removal learns of it", arguments: LinkKind.allCases)
    func absent(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 4, linkKind) { network, sessions in
            for session in sessions { try await session.waitUnannounced { $0.founder == network.id(0) } }
            // Members 2 and 3 reach each other only.
            for one in 0...1 { for other in 2...3 { network.partition(one, other) } }
            try await sessions[0].wait { $0.state(of: network.id(2))?.isConnected != true }
            try sessions[0].remove(network.id(3))
            for one in 0...1 { network.heal(one, 2) }
            try await sessions[2].wait { !$0.members.map(\.id).contains(network.id(3)) }
            // The founder tells it when it connects.
            network.heal(0, 3)
            #expect(await sessions[3].ended == .removed)
            network.heal(1, 3)
        }
    }

    @Test("S16: a member that claims to be the founder removes nobody", arguments: LinkKind.allCases)
    func forged(_ linkKind: LinkKind) async throws {
        let network = TestNetwork(linkKind)
        let hostile = HostileMember(TestNetwork.identity(9))
        let nodes = (0..<2).map { Node.start(network.settings($0)) }
        let listeners = try nodes.map { try $0.listen() }
        let link = try await hostile.connect(to: listeners[0].port, over: network.settings(9).transport)
        async let joined = listeners[0].sessionInvitations.first { _ in true }?.accept(trusting())
        try await hostile.join(link)
        let session = try #require(await joined)
        async let accepted = listeners[1].sessionInvitations.first { _ in true }?.accept(trusting())
        _ = try await session.invite(network.destination(1, listeners[1].port))
        let sessions = [session, try #require(await accepted)]
        try await session.waitUntilConnected(to: network.id(1))
        let claims = (0..<2).map { TestNetwork.identity($0).fingerprint }
        let fake = try #require(
            SessionFounder(
                fingerprint: hostile.identity.fingerprint,
                nonce: [UInt8](repeating: 0, count: SessionFounder.nonceByteCount)))
        link.say(SessionFrame.founder(hostile.session, fake, removed: claims).encoded)
        // A frame that arrives after the claim.
        hostile.tell([HostileMember.entry(hostile.identity.fingerprint, "still here", revision: 7)], on: link)
        try await session.waitUnannounced { session in session.members.contains { $0.name.claimed == "still here" } }
        #expect(session.founder == nil)
        #expect(throws: SessionError.self) { try session.remove(hostile.id) }
        try await expectAlone(sessions, network, without: 2)
        link.close()
        for node in nodes { await node.stop() }
    }
}
