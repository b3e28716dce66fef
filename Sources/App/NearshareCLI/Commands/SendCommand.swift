internal import ArgumentParser
internal import Glibc
internal import Nearshare
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
            let voice = SendVoice(isJSON: json, isQuiet: quiet || json)
            let source = try makeSource(machine, receivers: max(1, peers.count))
            for note in source.notes { Console.complain("left out: \(note)") }
            let settings = try way.nodeSettings(machine, for: peers, log: global.logger)
            let sending = SendOperation(
                machine: machine, source: source, voice: voice,
                timeout: timeout?.duration ?? machine.configuration.timeout ?? .seconds(30),
                resumes: !noResume, via: way.via)
            try await withNode(settings) { [peers] node in
                try await SignalHandling.run(onSignal: { sending.interrupt() }) {
                    let wanted =
                        peers.isEmpty
                        ? [try await PeerPicker.pick(on: node, sending.media, knowing: machine.trust.read())]
                        : peers.map { .text($0) }
                    try await sending.run(to: wanted, on: node)
                }
            }
        }
    }

    private func makeSource(_ machine: LocalMachine, receivers: Int) throws -> NamedSource {
        if let text {
            let source = try TextSource(text)
            return NamedSource(
                sources: Array(repeating: source, count: receivers), carried: .text(text), label: "message", canResume: true,
                notes: [])
        }
        if files == ["-"] {
            guard let name = ClaimedFileName(sentName ?? "stdin") else {
                throw CommandFailure(.usage, "the name after --as is longer than 255 bytes")
            }
            let stream = StreamSource(descriptor: STDIN_FILENO, name: name, receivers: receivers)
            return NamedSource(sources: stream.readers, carried: .stream, label: name.shown, canResume: false, notes: [])
        }
        var options = FileSource.Options()
        options.links = links
        options.keepModes = keepModes
        let source = try FileSource(paths: files, options: options)
        return NamedSource(
            sources: Array(repeating: source, count: receivers), carried: .files(files),
            label: InvitationText.summary(source.offer), canResume: true, notes: source.skipped,
            parts: { [files, options] in try files.map { try FileSource(paths: [$0], options: options) } })
    }
}

/// How something gets to its receiver.
enum Way: String, ExpressibleByArgument, CaseIterable {
    case lan
    case bluetooth
    case mesh

    init(_ medium: LinkAddress.Medium) {
        self =
            switch medium {
            case .network: .lan
            case .bluetooth: .bluetooth
            }
    }
}

/// What is sent, and what it is called here.
struct NamedSource: Sendable {
    /// What another process is told of it.
    enum Carried: Sendable {
        case files([String])
        case text(String)
        case stream
    }

    /// One for each receiver.
    var sources: [any ResourceSource]
    var carried: Carried
    var label: String
    /// The same can be read again by another run of the command.
    var canResume: Bool
    /// What was left out.
    var notes: [String]
    /// The same one by one, for a way that carries one thing at a time; nil where it is one anyway.
    var parts: (@Sendable () throws -> [any ResourceSource])?
}

/// Addresses as people write them: `192.168.1.20:4000`, `[fe80::1%eth0]:4000`, `anna.local:4000`.
enum Address {
    static func parse(_ text: String) -> LinkAddress? {
        guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]), port > 0 else {
            return nil
        }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            // An IPv6 address without a port.
            return nil
        }
        return host.isEmpty ? nil : LinkAddress(host: host, port: port)
    }
}

/// Names of those who were seen lately, for the shell's completion.
@Sendable func completePeers(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
    guard let state = try? LocalMachine().state, let recent = try? RecentPeers.read(in: state) else { return [] }
    // A name that would have to be escaped is not offered to a shell.
    return recent.entries.map(\.name).filter { $0.shown == $0.claimed }.map(\.claimed)
}
