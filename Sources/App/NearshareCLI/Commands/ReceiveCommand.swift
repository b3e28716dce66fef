internal import ArgumentParser
internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct ReceiveCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "receive", abstract: "Advertise this machine, and receive what peers nearby send.",
        discussion: "Every invitation is shown and must be accepted, unless --accept is given. Ctrl-C ends the command.")

    @OptionGroup var receiving: ReceivingOptions

    @Flag(help: "End after the first completed transfer.")
    var once = false

    @Flag(help: "Show a QR code for phones: it opens a page that sends files and texts to this machine, without an app.")
    var qr = false

    @OptionGroup var hotspot: HotspotOptions

    @Flag(
        name: .customLong("localsend"), inversion: .prefixedNo,
        help: """
            Receive from LocalSend as well: phones and computers with that app see this machine. Default: on a terminal.
            """)
    var localSend: Bool?

    @Option(
        name: .customLong("localsend-pin-file"),
        help: ArgumentHelp("Require the PIN in this file from senders with LocalSend.", valueName: "file"),
        completion: .file(), transform: PathArgument.expanded)
    var localSendPINFile: String?

    @OptionGroup var output: OutputOptions

    @Flag(help: "Write the received content to standard output instead of the inbox; ends after the first transfer.")
    var stdout = false

    @Option(
        parsing: .remaining,
        help: ArgumentHelp(
            "Run this command, with the path as its last argument, for each item that has arrived in the inbox. The rest of the "
                + "command line belongs to it.", valueName: "command"), completion: .shellCommand("compgen -c"))
    var exec: [String] = []

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    /// TLS for LocalSend devices; nil where they are not served. By default they are where the user can be asked, and where the
    /// configuration names them.
    private func localSendSecurity(_ machine: LocalMachine, canAsk: Bool) throws -> (any LinkSecurity)? {
        if let localSend { return localSend ? try machine.localSendSecurity() : nil }
        guard canAsk || machine.configuration.protocols != nil, !stdout else { return nil }
        return machine.localSendSecurityIfAvailable(log: global.logger)
    }

    func validate() throws {
        if localSendPINFile != nil, localSend == false {
            throw ValidationError("--localsend-pin-file is for senders with LocalSend; omit --no-localsend")
        }
        if stdout, output.json { throw ValidationError("--stdout and --json both use standard output; choose one") }
        if stdout, !exec.isEmpty { throw ValidationError("--exec runs for items in the inbox; omit --stdout") }
        // An empty list of words is that of a command line without the option, too.
        if exec.first?.isEmpty == true || exec.isEmpty && CommandLine.arguments.last == "--exec" {
            throw ValidationError("--exec expects a command")
        }
        if stdout, receiving.existing != nil {
            throw ValidationError("--stdout replaces no files; omit --update and --overwrite")
        }
        if let inbox = receiving.inbox, LocalPath(inbox).isExistingNonDirectory {
            throw ValidationError("--inbox expects a folder; \(TerminalText.escaped(inbox, columns: 400)) is a file")
        }
        if hotspot.hotspot, !qr { throw ValidationError("--hotspot needs --qr") }
        if stdout, receiving.inbox != nil { throw ValidationError("--stdout does not use an inbox; omit one of them") }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        let runner = try startRunner()
        let machine = try ConfinedMachine(sandbox, inbox: receiving.inbox, createsInbox: !stdout, log: global.logger).machine
        return { try await receive(on: machine, runner) }
    }

    /// Starts the helper process that runs the command of `--exec`, before this process gives up the right to.
    private func startRunner() throws -> (any WorkerLauncher)? {
        guard !exec.isEmpty else { return nil }
        let inbox = try LocalMachine().inbox(receiving.inbox, limits: InboxLimits())
        // A sender could replace it, or be taken for its author.
        if let word = exec.first(where: { ArrivalCommand.leadsInto(inbox.path, $0) }) {
            throw CommandFailure(
                .usage,
                "\(TerminalText.escaped(word, columns: 4096)) is in the inbox, where files of others arrive; move it elsewhere")
        }
        return try startHelper([.runCommand: ArrivalCommand.routine(exec, inbox: inbox.path)])
    }

    private func receive(on machine: LocalMachine, _ runner: (any WorkerLauncher)?) async throws {
        // Peers are served whether or not the terminal, or the program, takes what is written.
        DescriptorOutput.startQueueing(omittedEvents: output.json ? JSONEvents.omitted : nil)
        let limiter = UnknownPeerLimiter(output.json ? .bytes : .rows, of: machine)
        let rendering: any Reporter =
            output.json ? JSONReporter(showsProgress: true, unknownPeers: limiter) : TextReporter(unknownPeers: limiter)
        let reception = Reception(
            machine: machine, settings: try makeSettings(machine), rendering: rendering, unknownPeers: limiter, runner: runner,
            pin: try localSendPINFile.map { try LocalSendPIN.read(path: $0) },
            security: try localSendSecurity(machine, canAsk: TerminalPromptDisplay.terminal != nil))
        try await hotspot.run(on: reception.settings.interface, rendering) { hotspot in
            try await SignalHandling.run(onSignal: { reception.interruption.interrupt(Interruption(signal: $0)) }) {
                // Two processes with one key in the mesh, or on one adapter, would receive each other's packets.
                var role = try PrimaryRole.claimIfFree(on: machine)
                repeat {
                    role = try await receive(reception, as: role, hotspot)
                } while role != nil
            }
        }
    }

    /// The parts of the command that all its nodes share.
    private struct Reception: Sendable {
        let machine: LocalMachine
        let settings: NodeSettings
        let rendering: any Reporter
        /// The limiter of ``rendering``.
        let unknownPeers: UnknownPeerLimiter
        /// Runs the command of --exec.
        let runner: (any WorkerLauncher)?
        /// The PIN for senders with LocalSend; nil for none.
        let pin: String?
        /// nil where LocalSend devices are not served.
        let security: (any LinkSecurity)?
        /// Where the command has said that it receives; nil before it has.
        let shown = Monitor<ReceiverPort.State?>(nil)
        let interruption = PendingInterruption()
    }

    /// The parts that serve the offers to one node.
    private struct OfferService: Sendable {
        let destination: ReceiveDestination
        let controller: ReceiveController
        let feed: ReceiveFeed
        let reporter: any Reporter
        let command: ArrivalCommand?
    }

    private func makeOfferService(_ reception: Reception) throws -> OfferService {
        let (machine, rendering) = (reception.machine, reception.rendering)
        let destination = try makeDestination(machine)
        let command = reception.runner.map { runner in
            ArrivalCommand(runner, reporter: rendering) { isRunning in
                guard TerminalProperties.isTerminal(STDERR_FILENO) else { return }
                isRunning ? StatusDisplay.shared.beginForeignOutput() : StatusDisplay.shared.endForeignOutput()
            }
        }
        let reporter: any Reporter = command ?? rendering
        let display: TerminalPromptDisplay? = .terminal
        let feed = ReceiveFeed()
        let controller = ReceiveController(
            machine: machine, destination: destination,
            accept: machine.configuration.acceptance(given: receiving.accept, hasTerminal: display != nil),
            quota: receiving.makeQuota(for: machine), reporter: reporter, endsAfterFirst: once || stdout, display: display,
            feed: feed, arrivalCommand: exec,
            // The device is in use already where there is one for phones.
            hotspot: hotspot.hotspot ? nil : HotspotPreparer(interface: reception.settings.interface),
            leavesWiFi: hotspot.leavesWiFi)
        return OfferService(
            destination: destination, controller: controller, feed: feed, reporter: reporter, command: command)
    }

    /// Receives until the command ends, or until this process has the role of the node that has ended.
    /// - Parameter role: nil where another process is the node.
    /// - Returns: the role to go on with; nil where the command ends.
    private func receive(
        _ reception: Reception, as role: PrimaryRole?, _ hotspot: Hotspot?
    ) async throws -> PrimaryRole? {
        let (machine, settings) = (reception.machine, reception.settings)
        let offers = try makeOfferService(reception)
        let (destination, controller, reporter, command) = (
            offers.destination, offers.controller, offers.reporter, offers.command
        )
        let failure = Monitor<(any Error)?>(nil)
        let successor = Monitor<PrimaryRole?>(nil)
        try await withNode(settings) {
            [options = receiving, isJSON = output.json, qr, engine = settings.discovery?.engine] node in
            let listener =
                role != nil || options.port != nil
                ? try node.listen(
                    onPort: options.port ?? machine.configuration.port, usesRadio: role != nil, joinsMesh: role != nil)
                : node.makeListener(joinsMesh: false)
            let properties = NodeService.Properties(
                purpose: .receiver, port: listener.port, inbox: destination.inbox?.path ?? "",
                profileName: machine.configuration.profile)
            let service = try role?.start(
                on: node, properties, feed: offers.feed,
                // Standard output is reserved for the content if it is the destination.
                observe: { if destination.inbox != nil { reporter.report(.node($0)) } })
            reception.unknownPeers.followLinks { [weak service] in service?.linkShare(of: $0) }
            let page = qr ? try node.servePage(for: listener, port: Node.defaultPagePort) : nil
            let localSend = try reception.security.map { try node.serveLocalSend(for: listener, $0, pin: reception.pin) }
            let greeting = Greeting(
                node: node, destination: destination, engine: engine,
                chosenPort: options.port ?? machine.configuration.port, page: page, hotspot: hotspot,
                localSend: localSend, pageInterface: options.interface, isJSON: isJSON, shown: reception.shown)
            if service != nil { greeting.show(.own(port: listener.port)) }
            do {
                reception.interruption.begin { cause in
                    controller.interrupt(node, cause)
                    command?.interrupt()
                }
                defer { reception.interruption.end() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    defer { group.cancelAll() }
                    group.addTask { await NetworkNotice(settings, NetworkNotice.show)?.run() }
                    group.addTask {
                        await Self.reportBluetooth(listener, isJSON: isJSON, isRequested: options.bluetooth.adapter != nil)
                    }
                    group.addTask {
                        do {
                            try await servePort(
                                of: listener, on: node, reception, offers, as: role, service, successor, greeting.show)
                        } catch {
                            guard !Task.isCancelled else { return }
                            failure.withLock { $0 = error }
                            controller.interrupt(node, .terminated)
                        }
                    }
                    if let command { group.addTask { await command.run() } }
                    if let hotspot {
                        group.addTask { if await hotspot.hasFailed() { controller.interrupt(node, .terminated) } }
                    }
                    do {
                        try await controller.serve(listener, on: node)
                    } catch {
                        await command?.finish()
                        throw error
                    }
                    await command?.finish()
                }
            }
        }
        if let error = failure.withLock(\.self) { throw error }
        return successor.withLock { $0 }
    }

    /// Serves the user's other commands while this process has the role, and after that follows the process that has it.
    /// - Parameter successor: receives the role when that process has ended.
    private func servePort(
        of listener: Listener, on node: Node, _ reception: Reception, _ offers: OfferService, as role: PrimaryRole?,
        _ service: NodeService?, _ successor: Monitor<PrimaryRole?>, _ show: @Sendable (ReceiverPort.State) -> Void
    ) async throws {
        let (machine, reporter) = (reception.machine, offers.reporter)
        if let role, let service {
            let isHandedOver = await Self.run(
                role, service, on: node, listener, closesPort: receiving.port == nil, reporter)
            guard isHandedOver else { return }
        }
        let port = ReceiverPort(
            machine, node, listener, isFixed: receiving.port != nil,
            hasOwnAdvertisement: receiving.name != nil || receiving.interface != nil)
        // The address of a page would change, and --once means one transfer of this node.
        let takesRole = !qr && !once && !stdout
        try await port.run(
            awaitsNode: role != nil,
            onNodeLoss: {
                guard takesRole else { return reporter.report(.warning(Self.nodeLoss)) }
                offers.controller.whenIdle {
                    Self.takeRole(into: successor, on: machine, endingNode: node, reporter)
                }
            }, show)
    }

    /// Takes the role of a node that has ended, and shuts this process's node down: the next one has the role from its start.
    private static func takeRole(
        into successor: Monitor<PrimaryRole?>, on machine: LocalMachine, endingNode node: Node, _ reporter: any Reporter
    ) {
        do {
            guard let role = try PrimaryRole.claimIfFree(on: machine) else { return }
            successor.withLock { $0 = role }
            reporter.report(.notice(receivesMessages))
            node.beginShutdown()
        } catch {
            reporter.report(.warning("\(nodeLoss): \(error)"))
        }
    }

    private static let receivesMessages =
        "no other node of this user runs any more: messages, and what peers send over Bluetooth and the mesh, arrive here now"

    /// Said where this process does not take the place of the one that has received messages.
    private static let nodeLoss =
        "messages are not received, nor what peers send over Bluetooth and the mesh: no node of this user runs any more; "
        + "`nearshare mesh run` starts one, as does this command when it is started again"

    /// Serves the user's other commands as their node, until another process takes over.
    /// - Returns: false when none does.
    private static func run(
        _ role: PrimaryRole, _ service: NodeService, on node: Node, _ listener: Listener, closesPort: Bool,
        _ reporter: any Reporter
    ) async -> Bool {
        do {
            return try await role.run(service, on: node, listener, closesPort: closesPort)
        } catch {
            reporter.report(.warning("other commands can't use this node: \(error)"))
            return false
        }
    }

    private func makeSettings(_ machine: LocalMachine) throws -> NodeSettings {
        let log = global.logger
        var settings = try machine.nodeSettings(
            name: receiving.name?.name, interface: receiving.interface, discovery: machine.discovery(log: log),
            radio: receiving.bluetooth.makeOpener(log: log), log: log)
        // No command reads invitations into sessions.
        settings.acceptsSessions = false
        return settings
    }

    private func makeDestination(_ machine: LocalMachine) throws -> ReceiveDestination {
        let limits = receiving.makeLimits(for: machine)
        if stdout { return .standardOutput(limit: limits.maximumSize) }
        let inbox = try machine.inbox(receiving.inbox, limits: limits)
        do {
            try inbox.prepare()
        } catch {
            // Accepted items are not lost: they wait in the spool.
            Console.warn("\(error); received items wait in the spool until the inbox is available")
        }
        return .inbox(inbox)
    }

    /// - Parameter isRequested: whether the user has named an adapter; otherwise a machine without Bluetooth is not worth a
    ///   message.
    private static func reportBluetooth(_ listener: Listener, isJSON: Bool, isRequested: Bool) async {
        switch await listener.radio {
        case .on(let channel)?:
            if isJSON { JSONEvents.emit("bluetooth", ["state": .string("on"), "channel": .number(UInt64(channel))]) }
            if !isJSON { Console.notice("peers in range find it over Bluetooth, too") }
        case .unavailable(let reason)?:
            if isJSON { JSONEvents.emit("bluetooth", ["state": .string("unavailable"), "reason": .string(reason)]) }
            if isRequested, !isJSON { Console.warn("Bluetooth is not available: \(reason)") }
        case nil: break
        }
    }
}

/// A signal to end, for the node that runs, or else for the next one.
private final class PendingInterruption: Sendable {
    private struct State {
        var cause: Interruption?
        var interrupt: (@Sendable (Interruption) -> Void)?
    }

    private let state = Monitor(State())

    /// - Parameter interrupt: makes the node that runs now end soon.
    func begin(_ interrupt: @escaping @Sendable (Interruption) -> Void) {
        let earlier = state.update { state in
            state.interrupt = interrupt
            return state.cause
        }
        if let earlier { interrupt(earlier) }
    }

    func end() { state.update { $0.interrupt = nil } }

    func interrupt(_ cause: Interruption) {
        let interrupt = state.update { state in
            state.cause = cause
            return state.interrupt
        }
        interrupt?(cause)
    }
}

/// The lines at the start, and when the port changes.
private struct Greeting: Sendable {
    let node: Node
    let destination: ReceiveDestination
    let engine: String?
    /// The port that the user has chosen.
    let chosenPort: UInt16?
    /// The page for browsers; nil for none.
    let page: PageServer?
    /// The Wi-Fi network for the page; nil for none.
    let hotspot: Hotspot?
    /// The server for LocalSend devices; nil for none.
    let localSend: LocalSendServer?
    /// The interface at whose addresses the page is shown; nil for all.
    let pageInterface: String?
    let isJSON: Bool
    /// The last state; nil before the first.
    let shown: Monitor<ReceiverPort.State?>

    func show(_ state: ReceiverPort.State) {
        let last = shown.withLock { shown in
            defer { shown = state }
            return shown
        }
        guard last != state else { return }
        let isFirst = last == nil
        isJSON ? emit(state, isFirst: isFirst) : write(state, isFirst: isFirst)
        let action = "send files to this machine"
        if isFirst, let page, hotspot == nil {
            PageNotice.show(page, at: PageHosts.all(on: pageInterface), isJSON: isJSON, toDo: action)
        }
        if isFirst, let localSend { LocalSendNotice.show(localSend, isJSON: isJSON) }
        // Last: two codes fill a terminal, and other lines would scroll them away.
        if isFirst, let page, let hotspot { HotspotNotice.show(hotspot, page, isJSON: isJSON, toDo: action) }
        guard case .own(let port, let other) = state else { return }
        if let other {
            Console.warn(
                "another `nearshare receive` of this user is running (process \(other)): peers see one machine, and what they send "
                    + "arrives at either of the two, in its inbox; end one of them")
        } else if let notice = Node.fallbackNotice(port: port, chosen: chosenPort) {
            Console.warn(notice)
        }
    }

    private func emit(_ state: ReceiverPort.State, isFirst: Bool) {
        var members: [String: JSONValue] = ["port": .number(UInt64(state.port))]
        if case .node(_, let process) = state { members["node"] = .number(UInt64(max(0, process))) }
        guard isFirst else { return JSONEvents.emit("port", members) }
        (members["name"], members["id"]) = (.string(node.name.claimed), .string(node.id.hex))
        members["discovery"] = JSONValue(engine)
        JSONEvents.emit("ready", members)
    }

    private func write(_ state: ReceiverPort.State, isFirst: Bool) {
        let place =
            switch state {
            case .own(let port, _): "on port \(port)"
            case .node(let port, let process): "on port \(port) of the running node (process \(process))"
            }
        guard isFirst else { return Console.notice("now \(place)") }
        Console.notice("\(node.name.unquoted) (\(node.id.hex)) is visible to those nearby, \(place)")
        switch destination {
        case .inbox(let inbox):
            Console.notice("files go to \(TerminalText.escaped(inbox.path, columns: 1000)); Ctrl-C ends this")
        case .standardOutput: Console.notice("received content goes to standard output; Ctrl-C ends this")
        }
    }
}
