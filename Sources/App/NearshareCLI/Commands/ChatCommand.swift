internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct ChatCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "chat", abstract: "Chat with a peer, full-screen or through a pipe.",
        discussion: """
            nearshare chat anna             a conversation; /help lists its commands
            nearshare chat                  all conversations
            echo hi | nearshare chat anna   each line is a message

            Messages for a peer that is out of range are stored, and sent when it is in range.
            """)

    @Argument(
        help: ArgumentHelp("Peer: a name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(PeerArgument.completions), transform: PeerArgument.validated)
    var peer: String?

    @Flag(name: .customLong("public"), help: "Chat in the public room, which everyone in range can read.")
    var isPublic = false

    @Option(
        help: ArgumentHelp("With a pipe: end when all lines are sent (the default) or delivered; or none.", valueName: "state"))
    var wait: MessageOperation.Goal?

    @Option(
        help: ArgumentHelp("With a pipe: time to wait for that, 0.1 to 600 (default: 30).", valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @Flag(help: "With a pipe: keep running after the last line, and show new messages, until Ctrl-C.")
    var follow = false

    @Option(
        help: ArgumentHelp(
            "With a pipe or in plain lines: start with this number of earlier lines, 0 to 500 (default: 0, or 10 in plain lines).",
            valueName: "count"))
    var history: Int?

    @Flag(help: "Write one JSON event per line to standard output, and read lines from standard input.")
    var json = false

    @Flag(help: "Do not ring the bell for messages in other conversations.")
    var quiet = false

    @OptionGroup var nearby: NearbyOptions

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    /// Number of earlier lines on a terminal that shows plain lines, without `--history`.
    private static let shownLineCount = 10

    func validate() throws {
        if isPublic, peer != nil { throw ValidationError("give either a peer or --public, not both") }
        if json, peer == nil, !isPublic { throw ValidationError("--json needs a peer, or --public") }
        if let history, !(0...500).contains(history) { throw ValidationError("--history must be 0 to 500") }
    }

    /// How the conversation is shown.
    enum Presentation: Sendable, Hashable {
        case fullScreen
        /// Lines with commands, for a terminal that cannot move the cursor, and for output that is no terminal.
        case plainLines
        /// Each line of the input is a message.
        case pipe

        init(isInteractive: Bool, isOutputTerminal: Bool, canMoveCursor: Bool) {
            guard isInteractive else {
                self = .pipe
                return
            }
            self = isOutputTerminal && canMoveCursor ? .fullScreen : .plainLines
        }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        let presentation = self.presentation
        if presentation != .fullScreen, peer == nil, !isPublic {
            throw CommandFailure(
                .usage,
                presentation == .plainLines && TerminalProperties.isTerminal(STDOUT_FILENO)
                    ? "this terminal shows plain lines only (TERM=dumb, or none): name a peer: nearshare chat PEER, or --public"
                    : "a pipe needs a peer: nearshare chat PEER, or --public")
        }
        // Before this process gives up the right to execute programs.
        let pictures = try presentation == .fullScreen ? PictureViewer.start() : nil
        let confined = try ConfinedMachine(
            sandbox, createsInbox: presentation != .pipe, recordsVoice: presentation == .fullScreen, log: global.logger)
        return { try await chat(on: confined.machine, decoders: confined.helper, pictures: pictures) }
    }

    private var presentation: Presentation {
        Presentation(
            isInteractive: TerminalProperties.isTerminal(STDIN_FILENO) && !json,
            isOutputTerminal: TerminalProperties.isTerminal(STDOUT_FILENO), canMoveCursor: TerminalProperties.canMoveCursor)
    }

    private func chat(on machine: LocalMachine, decoders: any WorkerLauncher, pictures: PictureViewer?) async throws {
        let presentation = self.presentation
        let terminal: TerminalDevice? =
            switch presentation {
            case .fullScreen: try openTerminal()
            // Its bell must not be written to a pipe or a file.
            case .plainLines: TerminalDevice(descriptor: dup(STDIN_FILENO))
            case .pipe: nil
            }
        let options = nearby.nodeOptions(global)
        guard let terminal else {
            let piping = PipedConversation(parameters: parameters(on: machine))
            return try await withNetworkNotice(
                NetworkNotice(on: machine, interface: nearby.interface, NetworkNotice.show)
            ) {
                try await withNodeClient(on: machine, options: options, environment: .command, continues: true) { client in
                    try await SignalHandling.run(onSignal: { piping.stop() }) { try await piping.run(through: client) }
                }
            }
        }
        defer {
            FullScreen.leave()
            Console.fullScreenMessageHandler.withLock { $0 = nil }
        }
        let keyboard = KeyboardReader(terminal)
        let lineReader =
            presentation == .plainLines
            ? LineReader(STDIN_FILENO, maximumLineByteCount: ChatMessage.maximumTextByteCount + 1, needsFinalLineBreak: true)
            : nil
        let screen = Monitor(ChatScreen(settings(on: machine, presentation)))
        let wantsErasure = Monitor(false)
        // The process of the node that is stopped to remove everything.
        let node = Monitor<ProcessHandle?>(nil)
        do {
            try await withNodeClient(on: machine, options: options, environment: .command, continues: true) {
                [nearby, follow] client in
                let chat = ChatTerminal(
                    client: client, machine: machine, interface: nearby.interface, decoders: decoders,
                    pictures: pictures, terminal: terminal, keyboard: keyboard,
                    screen: screen, wantsErasure: wantsErasure, lineReader: lineReader, follows: follow)
                try await Self.run(chat, wantsErasure)
                guard wantsErasure.withLock({ $0 }), let process = try machine.state.otherNodeProcess() else { return }
                node.withLock { $0 = process }
                await ControlClient.stopNode(of: machine)
            }
        } catch {
            // A signal, or a node that ends, does not prevent what the user has confirmed.
            guard wantsErasure.withLock({ $0 }) else { throw error }
        }
        if wantsErasure.withLock({ $0 }) {
            try await IdentityDestroyCommand.destroy(machine.state, after: node.withLock { $0 })
            FullScreen.leave()
            Console.fullScreenMessageHandler.withLock { $0 = nil }
            Console.notice("the key, the address book and all conversations of this machine are removed")
        }
    }

    /// Runs the screen. Its failures do not prevent what the user has confirmed.
    private static func run(_ chat: ChatTerminal, _ wantsErasure: Monitor<Bool>) async throws {
        do {
            try await chat.run()
        } catch {
            guard wantsErasure.withLock({ $0 }) else { throw error }
        }
    }

    private func openTerminal() throws -> TerminalDevice {
        guard let terminal = TerminalDevice() else {
            throw CommandFailure(
                .usage,
                "could not open the terminal of this process; use a pipe: echo hi | nearshare chat PEER, or with --follow, which "
                    + "keeps running and shows what arrives")
        }
        return terminal
    }

    private func settings(on machine: LocalMachine, _ presentation: Presentation) -> ChatScreen.Settings {
        ChatScreen.Settings(
            opening: isPublic ? .publicRoom : peer.map { .peer($0) } ?? .latest, ownName: try? machine.name(), isQuiet: quiet,
            sendsReadReceipts: machine.configuration.sendsReadReceipts,
            hasColor: TerminalProperties.hasColor(STDOUT_FILENO) && presentation == .fullScreen,
            hasUTF8: TerminalProperties.usesUTF8,
            isPlain: presentation == .plainLines, historyLimit: history ?? Self.shownLineCount,
            endKey: follow ? "Ctrl-C" : "Ctrl-D",
            localTime: { .init($0) })
    }

    private func parameters(on machine: LocalMachine) -> PipedConversation.Parameters {
        PipedConversation.Parameters(
            peer: peer, requiredStatus: (wait ?? .sent).requiredStatus, timeout: timeout?.duration ?? .seconds(30),
            follows: follow, history: history ?? 0, sendsReadReceipts: machine.configuration.sendsReadReceipts,
            reportsContacts: json, reporter: OutputOptions.makeReporter(json: json))
    }
}
