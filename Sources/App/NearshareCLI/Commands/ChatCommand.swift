internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct ChatCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "chat", abstract: "Talk to somebody, in a full-screen conversation or by a pipe.",
        discussion: """
            nearshare chat anna             a conversation; /help lists what can be done in it
            nearshare chat                  all conversations
            echo hi | nearshare chat anna   each line is a message

            What is written to somebody who is away waits, and goes when they are near.
            """)

    @Argument(
        help: ArgumentHelp("Whom to talk to: a name, the beginning of one, or an id.", valueName: "peer"),
        completion: .custom(completePeers), transform: PeerText.check)
    var peer: String?

    @Flag(name: .customLong("public"), help: "Talk in everybody's room, which whoever is reached can read.")
    var isPublic = false

    @Option(
        help: ArgumentHelp("By a pipe: end when all is sent, or delivered (default: sent).", valueName: "state"))
    var wait: ChatGoal?

    @Option(help: ArgumentHelp("By a pipe: how long to wait for that (default: 30).", valueName: "seconds"))
    var timeout: TimeoutArgument?

    @Flag(help: "By a pipe: go on after the last line, and show what is said, until Ctrl-C.")
    var follow = false

    @Option(help: ArgumentHelp("By a pipe: begin with so many lines of before, at most 500.", valueName: "count"))
    var history: Int?

    @Flag(help: "Write one JSON event a line to standard output, and read lines from standard input.")
    var json = false

    @Flag(help: "Ring no bell for messages in other conversations.")
    var quiet = false

    @Option(help: ArgumentHelp("Look for others through this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var radio: RadioOptions

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if isPublic, peer != nil { throw ValidationError("--public talks to everybody; leave the peer out") }
        if json, peer == nil, !isPublic { throw ValidationError("--json needs a peer, or --public") }
        if let history, !(0...500).contains(history) { throw ValidationError("--history goes from 0 to 500") }
    }

    func run() async throws {
        try await runCommand {
            let isScreen = !json && TerminalProperties.isTerminal(STDIN_FILENO) && TerminalProperties.isTerminal(STDOUT_FILENO)
            let terminal = isScreen ? try openTerminal() : nil
            if terminal == nil, peer == nil, !isPublic {
                throw CommandFailure(.usage, "by a pipe it has to be said to whom: nearshare chat PEER, or --public")
            }
            let machine = try LocalMachine()
            let options = NodeOptions(interface: interface, radio: radio.radio(log: global.logger), log: global.logger)
            guard let terminal else {
                return try await withNodeClient(machine, options, .command) { [order] client in
                    let piping = PipedConversation(client: client, order: order)
                    try await SignalHandling.run(onSignal: { piping.stop() }) { try await piping.run() }
                }
            }
            defer {
                FullScreen.leave()
                Console.messageHandler.withLock { $0 = nil }
            }
            let keyboard = KeyboardReader(terminal)
            let screen = Monitor(ChatScreen(settings))
            try await withNodeClient(machine, options, .command, continues: true) { client in
                try await ChatTerminal(
                    client: client, machine: machine, terminal: terminal, keyboard: keyboard, screen: screen
                ).run()
            }
        }
    }

    private func openTerminal() throws -> TerminalDevice {
        guard TerminalProperties.canMoveCursor, let terminal = TerminalDevice() else {
            throw CommandFailure(
                .usage, "this terminal can't show a full screen; a pipe can be used: echo hi | nearshare chat PEER")
        }
        return terminal
    }

    private var settings: ChatScreen.Settings {
        ChatScreen.Settings(
            opening: isPublic ? .everybody : peer.map { .person($0) } ?? .latest, isQuiet: quiet,
            hasColor: TerminalProperties.hasColor(STDOUT_FILENO), hasUTF8: TerminalProperties.usesUTF8, localTime: { .init($0) }
        )
    }

    private var order: PipedConversation.Order {
        PipedConversation.Order(
            peer: peer, goal: wait == .delivered ? .delivered : .sent, timeout: timeout?.duration ?? .seconds(30),
            follows: follow, history: history ?? 0, isJSON: json)
    }
}

/// How far a message has to come before a pipe ends.
enum ChatGoal: String, ExpressibleByArgument, CaseIterable {
    case sent
    case delivered
}
