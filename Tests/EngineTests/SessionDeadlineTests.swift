import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Messages with a timeout, and members that do not read.
@Suite(.timeLimit(.minutes(2)), .leavesNothing) struct SessionDeadlineTests {
    private static func settings(_ policy: SlowMemberPolicy) -> SessionSettings {
        var settings = TestNetwork.trusting
        settings.slowMembers = policy
        settings.channel.maximumUnacknowledgedCount = 4
        return settings
    }

    @Test("a message that cannot be sent in its time is dropped, which its receipt says", arguments: LinkKind.allCases)
    func drops(_ linkKind: LinkKind) async throws {
        var settings = TestNetwork.trusting
        // No member is given up on a machine on which everything takes long.
        settings.timeout = .seconds(600)
        try await TestNetwork.withSession(of: 2, linkKind, settings: settings) { network, sessions in
            let receiver = network.id(1)
            // An isolated pair has no link, and finds none.
            network.partition(0, 1)
            try await sessions[0].wait { $0.state(of: receiver)?.isConnected != true }
            let kept = try await sessions[0].send(SessionMessage(text: "kept"))
            let late = try await sessions[0].send(SessionMessage(text: "late"), timeout: .milliseconds(50))
            let never = try await sessions[0].send(SessionMessage(text: "never"), timeout: .seconds(Int64.min))
            await #expect(throws: SessionError.notDelivered(to: [receiver])) { try await late.delivered }
            await #expect(throws: SessionError.notDelivered(to: [receiver])) { try await never.delivered }
            network.heal(0, 1)
            let punctual = try await sessions[0].send(SessionMessage(text: "punctual"), timeout: .seconds(Int64.max))
            var messages = sessions[1].messages.makeAsyncIterator()
            let texts = await [messages.next()?.message.text, messages.next()?.message.text]
            #expect(texts == ["kept", "punctual"], "\(sessions.map(\.members))")
            try await kept.delivered
            try await punctual.delivered
            await #expect(throws: SessionError.notDelivered(to: [receiver])) { try await late.delivered }
        }
    }

    @Test(
        "S8: a member that does not read is reported as slow, and with a timeout delays no send", arguments: LinkKind.allCases)
    func timeouts(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind, settings: Self.settings(.wait)) { network, sessions in
            // Only the window of the member that does not read is filled.
            for _ in 0..<4 { try await sessions[0].send(SessionMessage(bytes: [1]), to: [network.id(2)]) }
            let last = try await sessions[0].send(SessionMessage(bytes: [3]), timeout: .seconds(3))
            #expect(await sessions[1].messages.first { _ in true }?.message.bytes == [3])
            await #expect(throws: SessionError.notDelivered(to: [network.id(2)])) { try await last.delivered }
            // On a machine on which everything takes long, a member that reads may be slow as well.
            #expect(await sessions[0].changes.first { $0 == .slow(network.id(2)) } != nil)
            // It reads again.
            var messages = sessions[2].messages.makeAsyncIterator()
            for _ in 0..<4 { #expect(await messages.next()?.message.bytes == [1]) }
            let next = try await sessions[0].send(SessionMessage(bytes: [2]), to: [network.id(2)])
            #expect(await messages.next()?.message.bytes == [2])
            try await next.delivered
        }
    }

    @Test("S8: by policy, messages to a slow member are dropped, or its founder removes it", arguments: LinkKind.allCases)
    func policies(_ linkKind: LinkKind) async throws {
        for policy in [SlowMemberPolicy.drop, .remove] {
            try await TestNetwork.withSession(of: 3, linkKind, settings: Self.settings(policy)) { network, sessions in
                async let read = sessions[1].messages.prefix(4).reduce(into: 0) { count, _ in count += 1 }
                for _ in 0..<4 { try await sessions[0].send(SessionMessage(bytes: [1]), to: [network.id(2)]) }
                // Without a timeout: the first waits until the member is found to be slow.
                for _ in 0..<4 { try await sessions[0].send(SessionMessage(bytes: [2])) }
                #expect(await read == 4)
                #expect(sessions[0].members.count == (policy == .drop ? 2 : 1))
                if policy == .remove { #expect(await sessions[2].ended == .removed) }
            }
        }
    }

    @Test(
        "S8: a member that does not read is slow after two seconds, however much room its window has",
        arguments: LinkKind.allCases)
    func slowWithRoom(_ linkKind: LinkKind) async throws {
        var settings = TestNetwork.trusting
        settings.slowMembers = .drop
        try await TestNetwork.withSession(of: 2, linkKind, settings: settings) { network, sessions in
            let receiver = network.id(1)
            let before = try await sessions[0].send(SessionMessage(text: "before"))
            #expect(await sessions[0].changes.first { $0 == .slow(receiver) } != nil)
            let meanwhile = try await sessions[0].send(SessionMessage(text: "meanwhile"))
            await #expect(throws: SessionError.notDelivered(to: [receiver])) { try await meanwhile.delivered }
            var messages = sessions[1].messages.makeAsyncIterator()
            #expect(await messages.next()?.message.text == "before")
            try await before.delivered
            let afterwards = try await sessions[0].send(SessionMessage(text: "afterwards"))
            #expect(await messages.next()?.message.text == "afterwards")
            try await afterwards.delivered
        }
    }
}
