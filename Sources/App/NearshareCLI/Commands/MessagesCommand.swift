internal import ArgumentParser
internal import Nearshare
internal import NearshareBundles
internal import NearshareService

struct MessagesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages", abstract: "List the messages that have come.",
        discussion: "With --follow, this machine is a part of the mesh meanwhile, unless a node runs already.")

    @Flag(help: "Go on, and show what comes, until Ctrl-C.")
    var follow = false

    @Option(help: ArgumentHelp("Only messages after this number.", valueName: "number"))
    var after: Int = 0

    @Flag(help: "Write one JSON event a line to standard output.")
    var json = false

    @Option(help: ArgumentHelp("Look for others through this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var radio: RadioOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let options = NodeOptions(radio: radio, interface: interface, log: global.logger)
            guard follow else { return try await list(machine) }
            let last = Monitor(after)
            try await withNodeClient(machine, options, carriesOn: true) { [json] door in
                try await Self.follow(after: last, through: door, isJSON: json)
            }
        }
    }

    /// - Parameter last: the number of what was shown last.
    private static func follow(after last: Monitor<Int>, through door: any NodeClient, isJSON: Bool) async throws {
        // Before the list is asked for, so that nothing falls between the two.
        let events = try await door.events()
        let show: (Arrival) -> Void = { arrival in
            MessageLine.show(arrival, isJSON: isJSON)
            last.withLock { $0 = arrival.number }
        }
        for arrival in try await all(after: last.withLock { $0 }, through: door) { show(arrival) }
        for await case .arrived(let arrival) in events where arrival.number > last.withLock({ $0 }) { show(arrival) }
        // The one in this process was told to end.
        if !(door is NodeService) { throw ControlFailure(.gone, "the node has ended") }
    }

    /// What is kept can be looked at without being a part of the mesh.
    private func list(_ machine: LocalMachine) async throws {
        let isDone: Void? = try await askRunningNode(of: machine) { client in
            for arrival in try await Self.all(after: after, through: client) { MessageLine.show(arrival, isJSON: json) }
        }
        if isDone != nil { return }
        let store = try NodeStores(directory: machine.state.path).conversations
        let people = try KnownPeople(machine)
        var last = after
        while true {
            let arrivals = try store.arrivals(after: last, limit: 1_000)
            guard let newest = arrivals.last else { break }
            for arrival in arrivals {
                let name = people.sender(of: arrival).flatMap(people.name)
                MessageLine.show(Arrival(arrival, senderName: name), isJSON: json)
            }
            last = newest.number
        }
    }

    private static func all(after number: Int, through door: any NodeClient) async throws -> [Arrival] {
        var all: [Arrival] = []
        while case .arrivals(let some) = try await door.ask(.arrivals(after: all.last?.number ?? number, limit: 1_000)),
            !some.isEmpty
        {
            all += some
        }
        return all
    }
}

extension Arrival {
    init(_ kept: ReceivedBundle, senderName: DisplayName?) {
        self.init(
            number: kept.number, id: kept.id.hex, sender: kept.sender, senderName: senderName, signer: kept.signer.hex,
            content: kept.content, isForEverybody: kept.isForEverybody, created: kept.created, received: kept.received,
            hops: kept.hops)
    }
}

/// A message that has come, as people and programs read it.
enum MessageLine {
    static func show(_ arrival: Arrival, isJSON: Bool) {
        let content = (try? BundleContent(decoding: arrival.content[...])) ?? .other(0, [])
        if isJSON { JSONEvents.emit("message", describe(arrival, content)) } else { Console.result(text(arrival, content)) }
    }

    private static func describe(_ arrival: Arrival, _ content: BundleContent) -> [String: JSONValue] {
        var fields: [String: JSONValue] = [
            "number": .number(UInt64(arrival.number)), "id": .text(arrival.id), "from": JSONValue(arrival.sender?.hex),
            "name": JSONValue(arrival.senderName?.claimed), "signer": .text(arrival.signer),
            "broadcast": .flag(arrival.isForEverybody), "created": .integer(arrival.created.milliseconds),
            "received": .integer(arrival.received.milliseconds), "hops": .number(UInt64(max(0, arrival.hops))),
        ]
        switch content {
        case .structured(let value): fields["content"] = StructuredJSON.json(value)
        case .besideFile(let value, let name):
            fields["content"] = StructuredJSON.json(value)
            fields["file"] = .text(name)
        case .other: fields["content"] = .null
        }
        return fields
    }

    static func text(_ arrival: Arrival, _ content: BundleContent) -> String {
        var who = arrival.senderName?.shown ?? arrival.sender?.hex ?? "unproven \(arrival.signer)"
        if arrival.isForEverybody { who += " to everybody" }
        let said =
            switch content {
            case .structured(let value): text(value)
            case .besideFile(let value, let name): "\(text(value))  [\(TerminalText.escaped(name))]"
            case .other: "(something that a later nearshare can read)"
            }
        return "\(arrival.received.forPeople)  \(who): \(TerminalText.escaped(said, columns: 4_096))"
    }

    private static func text(_ value: StructuredValue) -> String {
        guard case .object(let members) = value, case .string(let text)? = members["text"] else {
            return StructuredJSON.text(value)
        }
        // A line of a conversation, or what of a long one went in one message.
        switch (members["id"], members["part"], members["of"], members.count) {
        case (nil, nil, nil, 1), (.string?, nil, nil, 2): return text
        case (.string?, .integer(let part)?, .integer(let count)?, 4): return "\(text)  (\(part &+ 1) of \(count))"
        default: break
        }
        return StructuredJSON.text(value)
    }
}
