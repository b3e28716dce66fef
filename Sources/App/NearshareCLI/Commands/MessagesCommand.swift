internal import ArgumentParser
internal import Nearshare
internal import NearshareBundles
internal import NearshareService

struct MessagesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages", abstract: "List received messages.",
        discussion: "With --follow, this machine runs a mesh node meanwhile, unless one is running already.")

    @Flag(help: "Keep running, and show new messages, until Ctrl-C.")
    var follow = false

    @Option(help: ArgumentHelp("Only messages after this number.", valueName: "number"))
    var after: Int = 0

    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    @Option(help: ArgumentHelp("Look for peers on this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var bluetooth: BluetoothOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let reporter: any Reporter = json ? JSONReporter() : TextReporter()
            guard follow else { return try await list(machine, reporter) }
            let options = NodeOptions(interface: interface, radio: bluetooth.makeOpener(log: global.logger), log: global.logger)
            let last = Monitor(after)
            try await withNodeClient(machine, options, .command, continues: true) { client in
                try await Self.follow(after: last, through: client, reporter)
            }
        }
    }

    /// - Parameter last: the number of the last shown message.
    private static func follow(
        after last: Monitor<Int>, through client: any NodeClient, _ reporter: any Reporter
    ) async throws {
        // Subscribed before the list is requested, so that no message is lost between the two.
        let events = try await client.events()
        let show: (ReceivedMessage) -> Void = { message in
            reporter.report(.node(.received(message)))
            last.withLock { $0 = message.number }
        }
        for message in try await all(after: last.withLock { $0 }, through: client) { show(message) }
        for await case .received(let message) in events where message.number > last.withLock({ $0 }) { show(message) }
        // The node in this process was asked to stop.
        if !(client is NodeService) { throw ControlFailure(.gone, "the node has ended") }
    }

    /// Lists the stored messages; no node is started for it.
    private func list(_ machine: LocalMachine, _ reporter: any Reporter) async throws {
        let isDone: Void? = try await withRunningNode(of: machine) { client in
            for message in try await Self.all(after: after, through: client) { reporter.report(.node(.received(message))) }
        }
        if isDone != nil { return }
        let store = try NodeStores(directory: machine.state.path).conversations
        let contacts = try ContactDirectory(machine).snapshot()
        var last = after
        while true {
            let messages = try store.arrivals(after: last, limit: 1_000)
            guard let newest = messages.last else { break }
            for message in messages {
                let name = contacts.sender(of: message).flatMap(contacts.knownName)
                reporter.report(.node(.received(ReceivedMessage(message, senderName: name))))
            }
            last = newest.number
        }
    }

    private static func all(after number: Int, through client: any NodeClient) async throws -> [ReceivedMessage] {
        var all: [ReceivedMessage] = []
        while true {
            let some = try await client.messages(after: all.last?.number ?? number)
            guard !some.isEmpty else { return all }
            all += some
        }
    }
}

/// The output of a received message, as text or JSON.
enum MessageLine {
    static func fields(_ message: ReceivedMessage) -> [String: JSONValue] {
        var fields: [String: JSONValue] = [
            "number": .number(UInt64(message.number)), "id": .text(message.id.hex), "from": JSONValue(message.sender?.hex),
            "name": JSONValue(message.senderName?.claimed), "signer": .text(message.signer.hex),
            "broadcast": .flag(message.isBroadcast), "created": .integer(message.created.milliseconds),
            "received": .integer(message.received.milliseconds), "hops": .number(UInt64(max(0, message.hops))),
        ]
        switch message.content {
        case .structured(let value): fields["content"] = StructuredJSON.json(value)
        case .besideFile(let value, let name):
            fields["content"] = StructuredJSON.json(value)
            fields["file"] = .text(name)
        case .other: fields["content"] = .null
        }
        return fields
    }

    static func text(_ message: ReceivedMessage) -> String {
        var who = message.senderName?.shown ?? message.sender?.hex ?? "unproven \(message.signer.hex)"
        if message.isBroadcast { who += " to everyone" }
        let said =
            switch message.content {
            case .structured(let value): text(value)
            case .besideFile(let value, let name): "\(text(value))  [\(TerminalText.escaped(name))]"
            case .other: "(content of a newer version of nearshare)"
            }
        return "\(message.received.localText)  \(who): \(TerminalText.escaped(said, columns: 4_096))"
    }

    private static func text(_ value: StructuredValue) -> String {
        guard case .object(let members) = value, case .string(let text)? = members["text"] else {
            return StructuredJSON.text(value)
        }
        // A chat line, or one part of a long one.
        switch (members["id"], members["part"], members["of"], members.count) {
        case (nil, nil, nil, 1), (.string?, nil, nil, 2): return text
        case (.string?, .integer(let part)?, .integer(let count)?, 4): return "\(text)  (\(part &+ 1) of \(count))"
        default: break
        }
        return StructuredJSON.text(value)
    }
}
