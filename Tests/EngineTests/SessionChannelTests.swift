import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareEngine

/// Channels of values of one type.
@Suite(.timeLimit(.minutes(1)), .leavesNothing) struct SessionChannelTests {
    struct Move: Codable, Sendable, Equatable {
        var from: Int
        var to: Int
    }

    @Test("values arrive in their channel, in order and with their sender", arguments: LinkKind.allCases)
    func values(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 3, linkKind) { network, sessions in
            let moves = try sessions.map { try $0.channel(Move.self, named: "moves") }
            let chat = try sessions.map { try $0.channel(String.self, named: "chat") }
            for number in 0..<20 {
                try await moves[0].send(Move(from: number, to: number + 1))
                try await chat[0].send("move \(number)", to: [network.id(1)])
                try await sessions[0].send(SessionMessage(text: "plain \(number)"), to: [network.id(1)])
            }
            // Each is read on its own, in any order.
            var iterator = chat[1].makeAsyncIterator()
            for number in 0..<20 { #expect(await iterator.next(isolation: nil)?.value == "move \(number)") }
            for receiver in 1...2 {
                var number = 0
                for await (move, sender) in moves[receiver] {
                    #expect(move == Move(from: number, to: number + 1) && sender == network.id(0))
                    number += 1
                    if number == 20 { break }
                }
            }
            var messages = sessions[1].messages.makeAsyncIterator()
            for number in 0..<20 { #expect(await messages.next()?.message.text == "plain \(number)") }
            try await chat[2].send("back", to: [network.id(0)], mode: .unreliable)
            #expect(await chat[0].first { _ in true }?.value == "back")
        }
    }

    @Test("a value counts as delivered when it was read in its channel, whatever else is unread", arguments: LinkKind.allCases)
    func receipts(_ linkKind: LinkKind) async throws {
        try await TestNetwork.withSession(of: 2, linkKind) { network, sessions in
            let channel = try sessions[0].channel(Int.self, named: "numbers")
            let other = try sessions[1].channel(Int.self, named: "numbers")
            let first = try await sessions[0].send(SessionMessage(text: "unread"))
            let second = try await channel.send(7)
            #expect(await other.first { _ in true }?.value == 7)
            try await second.delivered
            let urgent = try await channel.send(8, isUrgent: true)
            #expect(await other.first { _ in true }?.value == 8)
            try await urgent.delivered
            #expect(sessions[0].members.map(\.unacknowledgedMessages) == [1])
            // Only the unread message is lost.
            #expect(await sessions[0].leave(waiting: .milliseconds(1)).map(\.messages) == [1])
            await #expect(throws: SessionError.self) { try await first.delivered }
            try await urgent.delivered
        }
    }

    @Test("values that arrive before their channel is opened are in it then; without it they are messages")
    func late() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            let numbers = try sessions[0].channel(Int.self, named: "numbers")
            let unknown = try sessions[0].channel(Int.self, named: "unknown")
            try await numbers.send(1)
            try await unknown.send(2)
            try await sessions[0].send(SessionMessage(text: "after"))
            var messages = sessions[1].messages.makeAsyncIterator()
            try await sessions[1].waitUnannounced { $0.inbox.arrivedCount == 3 }
            let opened = try sessions[1].channel(Int.self, named: "numbers")
            #expect(await opened.first { _ in true }?.value == 1)
            #expect(await messages.next()?.message.kind == .channel)
            #expect(await messages.next()?.message.text == "after")
        }
    }

    @Test("S17: malformed values, names and depths of a member are dropped, and the channel goes on")
    func malformed() async throws {
        try await TestNetwork.withSession(of: 2, .memory) { network, sessions in
            let channel = try sessions[1].channel([Int].self, named: "a")
            let name: [UInt8] = [1, UInt8(ascii: "a")]
            let bombs: [[UInt8]] = [
                name, name + [0xff], name + [UInt8](repeating: 0x81, count: 100_000),
                name + [0x9b] + [UInt8](repeating: 255, count: 8),
                name + [0x61, 0x62], name + [0x81, 0xf9, 0, 0],
            ]
            for bytes in bombs { try await sessions[0].send(SessionMessage(kind: .channel, bytes: bytes)) }
            // Names that no channel can have are ordinary messages, and 1,000 others hold nothing but their own bytes.
            for bytes in [[], [0], [64] + [UInt8](repeating: 97, count: 64), [1, 0xff], [9, 97]] as [[UInt8]] {
                try await sessions[0].send(SessionMessage(kind: .channel, bytes: bytes))
            }
            for number in 0..<1000 { try await sessions[0].channel(Int.self, named: "name \(number)").send(number) }
            try await sessions[0].channel([Int].self, named: "a").send([1, 2])
            #expect(await channel.first { _ in true }?.value == [1, 2])
            var count = 0
            for await received in sessions[1].messages {
                #expect(received.message.kind == .channel && received.message.text == nil)
                count += 1
                if count == 1005 { break }
            }
        }
    }

    @Test("a name of no or too many bytes and a value that cannot be encoded are errors, and nothing traps")
    func worstArguments() async throws {
        let network = TestNetwork(.memory)
        let node = Node.start(network.settings(0))
        let session = try node.startSession()
        for name in ["", String(repeating: "x", count: 64), String(repeating: "ä", count: 32)] {
            #expect(throws: SessionError.self) { try session.channel(Int.self, named: name) }
        }
        let doubles = try session.channel(Double.self, named: String(repeating: "x", count: 63))
        await #expect(throws: (any Error).self) { try await doubles.send(.infinity) }
        await #expect(throws: SessionError.self) { try await doubles.send(1) }
        let strings = try session.channel(String.self, named: "\0")
        await #expect(throws: (any Error).self) { try await strings.send(String(repeating: "x", count: 1 << 20), to: []) }
        await node.stop()
        #expect(await doubles.first { _ in true } == nil)
        let late = try session.channel(Int.self, named: "late")
        #expect(await late.first { _ in true } == nil)
    }
}
