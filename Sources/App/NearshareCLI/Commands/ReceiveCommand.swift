internal import ArgumentParser
internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareTerminal

struct ReceiveCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "receive", abstract: "Be visible to those nearby, and receive what they offer.",
        discussion: "Everything offered is shown and asked about, unless --accept says otherwise. Ctrl-C ends it.")

    @OptionGroup var receiving: ReceivingOptions

    @Flag(help: "End after the first transfer that is complete.")
    var once = false

    @Flag(help: "Write one JSON event a line to standard output.")
    var json = false

    @Flag(help: "Write the received content to standard output instead of the inbox; ends after the first transfer.")
    var stdout = false

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if stdout, json { throw ValidationError("--stdout and --json both want standard output; choose one") }
        if stdout, receiving.inbox != nil { throw ValidationError("--stdout does not use an inbox; leave one of them out") }
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let log = global.logger
            let limits = receiving.limits(machine)
            let place: ReceivingPlace
            if stdout {
                place = .standardOutput(limit: limits.maximumSize)
            } else {
                let inbox = try machine.inbox(receiving.inbox, limits: limits)
                do {
                    try inbox.check()
                } catch {
                    // Nothing that is accepted is lost: it waits in the spool.
                    Console.complain("\(error); what arrives waits in the spool until the inbox is there")
                }
                inbox.removeStaleTransfers(now: SystemClock.wall())
                place = .inbox(inbox)
            }
            let terminal = TerminalDevice()
            let policy = try machine.configuration.policy(receiving.accept, terminal)
            let settings = try machine.nodeSettings(
                name: receiving.name?.name, interface: receiving.interface, discovery: machine.discovery(),
                radio: receiving.radio.radio(log: log), log: log)
            let controller = ReceiveController(
                machine: machine, place: place, policy: policy,
                quota: receiving.quota(machine), voice: DeskVoice(isJSON: json),
                endsAfterFirst: once || stdout, terminal: terminal, log: log)
            // Two processes with one key in the mesh, or on one adapter, would receive each other's packets.
            let role = try PrimaryRole.claimIfFree(on: machine)
            try await withNode(settings) { [options = receiving, json] node in
                let receiving = try node.listen(
                    port: options.port ?? machine.configuration.port ?? 0,
                    usesRadio: role != nil, joinsMesh: role != nil)
                let service = try role?.start(
                    on: node,
                    NodeService.Facts(
                        isStanding: false, handsOver: true, port: receiving.port, inbox: place.inboxPath ?? "",
                        started: SystemClock.monotonic(), profileName: machine.configuration.profile),
                    profile: nil, observe: { if place.inboxPath != nil { NodeEventText.show($0, isJSON: json) } })
                if json {
                    JSONEvents.emit(
                        "ready",
                        [
                            "name": .text(node.name.claimed), "id": .text(node.id.hex), "port": .number(UInt64(receiving.port)),
                            "discovery": JSONValue(settings.discovery?.engine),
                        ])
                } else {
                    Console.say("\(node.name.shown) (\(node.id.hex)) is visible to those nearby, on port \(receiving.port)")
                    Console.say(place.announcement)
                }
                try await SignalHandling.run(onSignal: { controller.interrupt(node) }) {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        group.addTask { await Self.tellRadio(receiving, isJSON: json, isWanted: options.radio.adapter != nil) }
                        if let role, let service { group.addTask { try await role.run(service, on: node, receiving) } }
                        try await controller.serve(receiving, on: node)
                        group.cancelAll()
                    }
                }
            }
        }
    }
}

extension ReceiveCommand {
    /// - Parameter isWanted: the person has asked for it by name; without, a machine that has no Bluetooth is nothing to talk about.
    private static func tellRadio(_ receiving: Listener, isJSON: Bool, isWanted: Bool) async {
        switch await receiving.radio {
        case .on(let channel)?:
            if isJSON { JSONEvents.emit("bluetooth", ["state": .text("on"), "channel": .number(UInt64(channel))]) }
            if !isJSON { Console.say("those in range find it over Bluetooth, too") }
        case .unavailable(let reason)?:
            if isJSON { JSONEvents.emit("bluetooth", ["state": .text("unavailable"), "reason": .text(reason)]) }
            if isWanted, !isJSON { Console.complain("not over Bluetooth: \(reason)") }
        case nil: break
        }
    }
}

/// Where received content goes.
enum ReceivingPlace: Sendable {
    case inbox(Inbox)
    case standardOutput(limit: UInt64?)

    var announcement: String {
        switch self {
        case .inbox(let inbox): "files go to \(TerminalText.escaped(inbox.path, columns: 1000)); Ctrl-C ends this"
        case .standardOutput: "what is accepted goes to standard output; Ctrl-C ends this"
        }
    }

    /// nil where nothing is kept.
    var inboxPath: String? {
        switch self {
        case .inbox(let inbox): inbox.path
        case .standardOutput: nil
        }
    }

    var freeSpace: UInt64? {
        switch self {
        case .inbox(let inbox): inbox.freeSpace
        case .standardOutput: nil
        }
    }
}
