internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Send files, folders, standard input or text to somebody nearby.",
        discussion: "Without --to, on a terminal, a list of who is nearby is shown to pick from.")

    @Argument(help: ArgumentHelp("Files and folders; - is standard input.", valueName: "file"), completion: .file())
    var files: [String] = []

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp(
            "Whom to send to: a name, the beginning of one, an id, or an address with a port; may be given several times.",
            valueName: "peer"),
        completion: .custom(completePeers), transform: PeerText.check)
    var peers: [String] = []

    @Option(help: ArgumentHelp("Send this text instead of files.", valueName: "text"))
    var text: String?

    @Option(name: .customLong("as"), help: ArgumentHelp("What standard input is called at the receiver.", valueName: "name"))
    var sentName: String?

    @Flag(help: "Send symbolic links inside folders as links instead of leaving them out.")
    var links = false

    @Flag(help: "Keep permission bits, never the set-user and set-group ones.")
    var keepModes = false

    @Option(help: ArgumentHelp("How long to wait for an answer, 0.1 to 600 (default: 30).", valueName: "seconds"))
    var timeout: TimeoutArgument?

    @Flag(name: .customLong("no-resume"), help: "Start from the beginning even if a part is there already.")
    var noResume = false

    @OptionGroup var way: TransportOptions

    @Flag(help: "Write one JSON event a line to standard output.")
    var json = false

    @Flag(help: "Say nothing unless something goes wrong.")
    var quiet = false

    @OptionGroup var global: GlobalOptions

    mutating func validate() throws {
        peers = PeerText.unique(peers)
        if text != nil, !files.isEmpty { throw ValidationError("give either files or --text, not both") }
        if text == nil, files.isEmpty { throw ValidationError("nothing to send: name files or folders, - or --text") }
        if files.contains("-"), files.count > 1 { throw ValidationError("standard input is sent alone; leave the files out") }
        if sentName != nil, files != ["-"] { throw ValidationError("--as names standard input; use it with -") }
        if way.via == .mesh, peers.isEmpty {
            throw ValidationError("--via mesh needs --to: nobody can be picked from a list there")
        }
        try way.check(peers)
        if peers.isEmpty, files == ["-"] { throw ValidationError("--to is needed when standard input is sent") }
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let reporter = makeSendReporter(isJSON: json, isQuiet: quiet)
            let source = try makeSource(receivers: max(1, peers.count))
            for file in source.skipped { Console.complain("left out: \(file)") }
            let settings = try way.nodeSettings(machine, for: peers, log: global.logger)
            let operation = SendOperation(
                machine: machine, source: source, reporter: reporter,
                timeout: timeout?.duration ?? machine.configuration.timeout ?? .seconds(30),
                resumes: !noResume, transport: way.via)
            try await withNode(settings) { [peers, way] node in
                try await SignalHandling.run(onSignal: { operation.cancelOrExit() }) {
                    let wanted =
                        peers.isEmpty
                        ? [try await PeerPicker.pick(on: node, Transport.media(for: way.via), knowing: machine.trust.read())]
                        : peers.map { .text($0) }
                    try await operation.run(to: wanted, on: node)
                }
            }
        }
    }

    private func makeSource(receivers: Int) throws -> SendSource {
        if let text { return try .text(text, receivers: receivers) }
        if files == ["-"] {
            guard let name = ClaimedFileName(sentName ?? "stdin") else {
                throw CommandFailure(.usage, "the name after --as is longer than 255 bytes")
            }
            return .standardInput(named: name, receivers: receivers)
        }
        var options = FileSource.Options()
        options.links = links
        options.keepModes = keepModes
        return try .files(files, options: options, receivers: receivers)
    }
}

extension SendOperation {
    /// Cancels the transfers at a signal; where none runs, there is nothing to end in order.
    func cancelOrExit() {
        if !cancel() { SignalHandling.exitNow() }
    }
}

/// The reporter of a command that sends.
func makeSendReporter(isJSON: Bool, isQuiet: Bool) -> any Reporter {
    if isJSON { return JSONReporter() }
    return isQuiet ? SilentReporter() : TextReporter()
}

/// Names of those who were seen lately, for the shell's completion.
@Sendable func completePeers(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let state = try? LocalMachine().state, let recent = try? RecentPeers.read(in: state) else { return [] }
    // A name that would have to be escaped is not offered to a shell.
    return recent.entries.map(\.name).filter { $0.shown == $0.claimed }.map(\.claimed)
}
