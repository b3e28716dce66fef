internal import ArgumentParser
internal import Nearshare
internal import NearshareService

struct MessagesCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages", abstract: "List received messages.",
        discussion: "With --follow, this machine runs a mesh node meanwhile, unless one is running already.")

    @Flag(help: "Keep running, and show new messages, until Ctrl-C.")
    var follow = false

    @Option(help: ArgumentHelp("Only messages after this number, as in the events of --json.", valueName: "number"))
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
            let messages = MessageListOperation(machine, after: after, reporter: reporter)
            guard follow else {
                try await messages.list()
                if !json, messages.isEmpty { Console.notice("no messages\(after > 0 ? " after \(after)" : " yet")") }
                return
            }
            let options = NodeOptions(interface: interface, radio: bluetooth.makeOpener(log: global.logger), log: global.logger)
            try await withNodeClient(machine, options, .command, continues: true) { try await messages.follow($0) }
        }
    }
}
