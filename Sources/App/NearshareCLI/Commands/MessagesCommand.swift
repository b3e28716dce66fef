internal import ArgumentParser
internal import Nearshare
internal import NearshareService

struct MessagesCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "messages", abstract: "List received messages.",
        discussion: "With --follow, this machine runs a mesh node while the command runs, unless one is running already.")

    @Flag(help: "Keep running, and show new messages, until Ctrl-C.")
    var follow = false

    @Option(help: ArgumentHelp("Only messages after this number, as in the events of --json.", valueName: "number"))
    var after: Int = 0

    @OptionGroup var output: OutputOptions

    @OptionGroup var nearby: NearbyOptions

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    func validate() throws {
        if after < 0 { throw ValidationError("--after expects a number of 0 or more") }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        guard follow else { return { try await list() } }
        let machine = try ConfinedMachine(sandbox, log: global.logger).machine
        return { try await follow(on: machine) }
    }

    private func list() async throws {
        let messages = MessageListOperation(
            try LocalMachine(), after: after, joinsParts: !output.json, reporter: output.reporter)
        try await messages.list()
        guard messages.isEmpty else { return }
        output.reporter.writeText { Console.notice("no messages\(after > 0 ? " after \(after)" : " yet")") }
    }

    private func follow(on machine: LocalMachine) async throws {
        let messages = MessageListOperation(machine, after: after, joinsParts: !output.json, reporter: output.reporter)
        let options = nearby.nodeOptions(global)
        try await withNodeClient(on: machine, options: options, environment: .command, continues: true) {
            try await messages.follow($0)
        }
    }
}
