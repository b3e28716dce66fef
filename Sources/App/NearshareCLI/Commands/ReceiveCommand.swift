internal import ArgumentParser
internal import Glibc
internal import Logging
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct ReceiveCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "receive", abstract: "Advertise this machine, and receive what peers nearby send.",
        discussion: """
            Every invitation is shown and must be accepted, unless --accept is given. Ctrl-C ends the command.

            nearshare receive --inbox ~/Inbox
            nearshare receive --accept friends
            nearshare receive --stdout --accept all | tar x
            """)

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
                + "command line belongs to it.", valueName: "command"), completion: .custom(ProgramCompletion.completions))
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
        if hotspot.hotspot, !qr { throw ValidationError("--hotspot needs --qr") }
        if stdout, receiving.inbox != nil { throw ValidationError("--stdout does not use an inbox; omit one of them") }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        if !stdout { try receiving.requireInboxFolder() }
        let runner = try startRunner()
        let machine = try ConfinedMachine(sandbox, inbox: receiving.inbox, createsInbox: !stdout, log: global.logger).machine
        return { try await receive(on: machine, runner) }
    }

    /// Starts the helper process that runs the command of `--exec`, before this process gives up the right to.
    private func startRunner() throws -> (any WorkerLauncher)? {
        guard let program = exec.first else { return nil }
        // Otherwise a mistyped name would be noticed at the first item, which gets no second try.
        if let code = ChildProgram.lookupError(of: program) {
            throw CommandFailure(
                .usage, "--exec: could not start \(TerminalText.escaped(program, columns: 4096)): \(systemErrorText(code))")
        }
        let inbox = try LocalMachine().inbox(receiving.inbox, limits: InboxLimits())
        // A sender could replace it, or be taken for its author.
        if let word = exec.first(where: { ArrivalCommand.isWord($0, leadingInto: inbox.path) }) {
            throw CommandFailure(
                .usage,
                "\(TerminalText.escaped(word, columns: 4096)) is in the inbox, where files of others arrive; move it elsewhere")
        }
        return try startHelper([.runCommand: ArrivalCommand.routine(exec, inbox: inbox.path)])
    }

    private func receive(on machine: LocalMachine, _ runner: (any WorkerLauncher)?) async throws {
        let (rendering, limiter) = output.startServing(on: machine)
        // The program that reads the pipe may write to the same terminal.
        if stdout, TerminalProperties.isPipe(STDOUT_FILENO) { StatusDisplay.shared.recordPipedOutput() }
        let context = Context(
            machine: machine, settings: try makeSettings(machine), rendering: rendering, unknownPeers: limiter, runner: runner,
            pin: try localSendPINFile.map { try LocalSendPIN.read(path: $0) },
            security: try localSendSecurity(machine, canAsk: TerminalPromptDisplay.terminal != nil))
        try await hotspot.withHotspot(on: context.settings.interface, reporter: rendering) { hotspot in
            try await SignalHandling.run(onSignal: { context.interruption.interrupt(Interruption(signal: $0)) }) {
                // Two processes with one key in the mesh, or on one adapter, would receive each other's packets.
                var role = try PrimaryRole.claimIfFree(on: machine)
                repeat {
                    role = try await receive(context, as: role, hotspot)
                } while role != nil
            }
        }
    }

    /// The parts of the command that all its nodes share.
    private struct Context: Sendable {
        let machine: LocalMachine
        let settings: NodeSettings
        let rendering: any CommandReporter
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

    private func makeOfferService(_ context: Context) throws -> OfferService {
        let (machine, rendering) = (context.machine, context.rendering)
        let destination = try makeDestination(machine)
        let command = context.runner.map { runner in
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
            hotspot: hotspot.hotspot ? nil : HotspotPreparer(interface: context.settings.interface),
            leavesWiFi: hotspot.leavesWiFi)
        return OfferService(
            destination: destination, controller: controller, feed: feed, reporter: reporter, command: command)
    }

    /// Receives until the command ends, or until this process has the role of the node that has ended.
    /// - Parameter role: nil where another process is the node.
    /// - Returns: the role to go on with; nil where the command ends.
    private func receive(
        _ context: Context, as role: PrimaryRole?, _ hotspot: Hotspot?
    ) async throws -> PrimaryRole? {
        let (machine, settings) = (context.machine, context.settings)
        let offers = try makeOfferService(context)
        let (destination, controller, reporter, command) = (
            offers.destination, offers.controller, offers.reporter, offers.command
        )
        let failure = Monitor<(any Error)?>(nil)
        let successor = Monitor<PrimaryRole?>(nil)
        try await withNode(settings) {
            [options = receiving, qr, followerSettings, engine = settings.discovery?.engine] node in
            let listener =
                role != nil || options.port != nil
                ? try node.listen(
                    onPort: machine.configuration.listeningPort(options.port), usesRadio: role != nil, joinsMesh: role != nil)
                : node.makeListener(joinsMesh: false)
            let properties = NodeService.Properties(
                purpose: .receiver, port: listener.port, inbox: destination.inbox?.path ?? "",
                profileName: machine.configuration.profile)
            let service = try role?.start(
                on: node, properties, feed: offers.feed,
                // Standard output is reserved for the content if it is the destination.
                observe: { if destination.inbox != nil { reporter.report(.node($0)) } })
            context.unknownPeers.followLinks { [weak service] in service?.linkShare(of: $0) }
            let page = qr ? try node.servePage(for: listener, port: Node.defaultPagePort) : nil
            let localSend = try context.security.map { try node.serveLocalSend(for: listener, $0, pin: context.pin) }
            let notice = ReceiverNotice(
                node: node, destination: destination, discoveryEngine: engine,
                chosenPort: machine.configuration.listeningPort(options.port), page: page, hotspot: hotspot,
                localSend: localSend, pageInterface: options.nearby.interface, reporter: context.rendering,
                isNetworkAbsent: NetworkNotice.isAbsent(settings), shown: context.shown)
            let follower = PrimaryRoleFollower(
                machine: machine, node: node, listener: listener, controller: controller, reporter: reporter,
                settings: followerSettings)
            defer { successor.withLock { $0 = follower.successor } }
            if service != nil { notice.show(ReceiverPort.State(port: listener.port)) }
            do {
                context.interruption.begin { cause in
                    controller.interrupt(node, cause)
                    command?.interrupt()
                }
                defer { context.interruption.end() }
                try await withThrowingTaskGroup(of: Void.self) { group in
                    defer { group.cancelAll() }
                    group.addTask { await NetworkNotice(settings, NetworkNotice.show)?.run() }
                    group.addTask {
                        await ReceiverNotice.showRadio(
                            of: listener, isRequested: options.nearby.bluetooth.adapter != nil, to: context.rendering)
                    }
                    group.addTask {
                        do {
                            try await follower.run(as: role, service, notice.show)
                        } catch {
                            guard !Task.isCancelled else { return }
                            failure.withLock { $0 = error }
                            controller.interrupt(node, .terminated)
                        }
                    }
                    if let command { group.addTask { await command.run() } }
                    if let hotspot {
                        group.addTask { if await hotspot.waitForFailure() { controller.interrupt(node, .terminated) } }
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

    private var followerSettings: PrimaryRoleFollower.Settings {
        PrimaryRoleFollower.Settings(
            isPortFixed: receiving.port != nil, hasOwnAdvertisement: receiving.name != nil || receiving.nearby.interface != nil,
            // The address of a page would change, and --once means one transfer of this node.
            claimsRole: !qr && !once && !stdout)
    }

    private func makeSettings(_ machine: LocalMachine) throws -> NodeSettings {
        let log = global.logger
        var settings = try machine.nodeSettings(
            name: receiving.name?.name, interface: receiving.nearby.interface, discovery: machine.discovery(log: log),
            radio: receiving.nearby.bluetooth.makeOpener(log: log), log: log)
        // No command reads invitations into sessions.
        settings.acceptsSessions = false
        return settings
    }

    private func makeDestination(_ machine: LocalMachine) throws -> ReceiveDestination {
        let limits = receiving.makeLimits(for: machine)
        if stdout { return .standardOutput(limit: limits.maximumSize) }
        let inbox = try machine.inbox(receiving.inbox, limits: limits)
        // A failure is shown with the start of the command. Accepted items are not lost: they wait in the spool.
        try? inbox.prepare()
        return .inbox(inbox)
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
