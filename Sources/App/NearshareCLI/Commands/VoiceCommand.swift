internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal

struct VoiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "voice", abstract: "Record a voice note, and send it to somebody nearby.",
        discussion: """
            nearshare voice --to anna     speak, press Enter, and it is sent
            nearshare voice               record a note and keep it
            nearshare voice play FILE     hear one

            All about recording: nearshare voice record --help
            """,
        subcommands: [VoiceRecordCommand.self, VoicePlayCommand.self, VoiceShowCommand.self, VoiceListCommand.self],
        defaultSubcommand: VoiceRecordCommand.self)
}

struct VoiceRecordCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "record", abstract: "Record a voice note; the word record may be left out.",
        discussion: """
            Space pauses and goes on; Enter or Ctrl-C ends. What was said is in a file from the first second on, and is kept \
            whatever happens.
            """)

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp(
            "Whom to send it to: a name, the beginning of one, an id, or an address with a port; may be given several times.",
            valueName: "peer"),
        completion: .custom(completePeers), transform: PeerText.check)
    var peers: [String] = []

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("Where the note is kept, instead of a dated name in the voice folder.", valueName: "file"),
        completion: .file())
    var output: String?

    @Option(
        help: ArgumentHelp(
            "Make the note of this WAV, FLAC or raw file instead of a microphone; - is standard input.", valueName: "file"),
        completion: .file())
    var input: String?

    @Flag(help: "The input has no header: one channel, 16 bits, little-endian, at --rate.")
    var raw = false

    @Option(help: ArgumentHelp("Record from this device; alsa:NAME is one of ALSA's.", valueName: "name"))
    var device: String?

    @Flag(help: "List the devices that can be recorded from and played on.")
    var listDevices = false

    @Option(help: ArgumentHelp("End after so long, such as 90 or 1:30.", valueName: "time"))
    var duration: ClockArgument?

    @Option(help: ArgumentHelp("Kilobits a second, 6 to 256 (default: 24).", valueName: "kbit"))
    var bitrate: BitrateArgument?

    @Option(help: ArgumentHelp("Samples a second that are recorded, 8000 to 192000 (default: 16000).", valueName: "hertz"))
    var rate: Int?

    @Flag(name: .customLong("no-trim"), help: "Keep the silence at both ends.")
    var noTrim = false

    @Option(
        help: ArgumentHelp(
            "Never let the note become larger than this, such as 5MiB; the seconds that are left are shown.", valueName: "size")
    )
    var limit: SizeArgument?

    @Flag(name: .shortAndLong, help: "Send it without asking whether to listen, redo or drop it.")
    var yes = false

    @OptionGroup var way: TransportOptions

    @Option(help: ArgumentHelp("How long to wait for an answer, 0.1 to 600 (default: 30).", valueName: "seconds"))
    var timeout: TimeoutArgument?

    @Flag(help: "Write one JSON event a line to standard output.")
    var json = false

    @Flag(help: "Say nothing unless something goes wrong.")
    var quiet = false

    @OptionGroup var global: GlobalOptions

    mutating func validate() throws {
        peers = PeerText.unique(peers)
        if way.via != nil, peers.isEmpty { throw ValidationError("--via is for sending; say to whom with --to") }
        try way.check(peers)
        if raw, input == nil { throw ValidationError("--raw describes --input; give that as well") }
        if input != nil, device != nil { throw ValidationError("--input and --device are two sources; choose one") }
        if input != nil, rate != nil, !raw {
            throw ValidationError("a file says its own rate; --rate is for recording and for --raw")
        }
        if let rate, AudioFormat(rate: rate, channels: 1) == nil {
            throw ValidationError("--rate goes from 8000 to 192000 samples a second")
        }
        if output == "-" {
            throw ValidationError("a note can't be written to a pipe: its beginning is finished last; name a file")
        }
        if let limit, NoteSizeLimit(byteCount: limit.bytes) == nil {
            throw ValidationError("--limit is so small that no note fits; 16KiB is the least")
        }
    }

    func run() async throws {
        try await runCommand {
            if listDevices { return try listAllDevices() }
            let machine = try LocalMachine()
            let order = try makeOrder(machine)
            if peers.isEmpty {
                guard let note = try await makeStudio(machine, order).take() else { return }
                if !json { Console.result(note.path) }
            } else {
                try await recordAndSend(order, from: machine)
            }
        }
    }

    private func makeStudio(_ machine: LocalMachine, _ order: RecordingSession.Order) -> RecordingSession {
        RecordingSession(archive: VoiceArchive(machine), order: order, isJSON: json, isQuiet: quiet || json)
    }

    private func makeOrder(_ machine: LocalMachine) throws -> RecordingSession.Order {
        let settings = NoteSettings(
            bitrate: bitrate?.bitsPerSecond ?? NoteSettings.speechBitrate, speaker: try machine.name().claimed,
            recorded: SystemClock.wall(), limit: limit.flatMap { NoteSizeLimit(byteCount: $0.bytes) })
        guard let settings else { throw CommandFailure(.usage, "--bitrate goes from 6 to 256") }
        let source: RecordingSession.Source =
            switch input {
            case "-"?: raw ? .rawSamples(STDIN_FILENO) : .pipe(STDIN_FILENO)
            case let path?: raw ? .rawFile(path) : .file(path)
            case nil: .microphone(device)
            }
        return RecordingSession.Order(
            source: source, rate: rate ?? AudioFormat.speech.rate, settings: settings, output: output,
            duration: duration?.duration, trims: !noTrim, receivers: peers, reviews: !yes && !json && input == nil)
    }

    private func recordAndSend(_ order: RecordingSession.Order, from machine: LocalMachine) async throws {
        let settings = try way.nodeSettings(machine, for: peers, log: global.logger)
        // One node from beginning to end: neighbours that were found stay while somebody speaks.
        try await withNode(settings) { node in
            var order = order
            let reach: VoiceNoteReach = try await SignalHandling.run(onSignal: { SignalHandling.exitNow() }) {
                try await self.reach(from: machine, on: node)
            }
            for remark in reach.remarks where !quiet && !json { Console.say(remark) }
            order.settings.limit = NoteSizeLimit.smaller(order.settings.limit, reach.limit)
            guard let note = try await makeStudio(machine, order).take() else { return }
            try await send(note, from: machine, on: node)
        }
    }

    /// Looks for the receivers before anything is recorded: what the way to them carries is what a note may be.
    private func reach(from machine: LocalMachine, on node: Node) async throws -> VoiceNoteReach {
        // A line that goes away: it is said again, and stays, when the note is sent.
        let names = peers.map { TerminalText.escaped($0, columns: 24) }.joined(separator: ", ")
        if !quiet, !json, TerminalProperties.isTerminal(STDERR_FILENO) { StatusDisplay.shared.show(["looking for \(names)…"]) }
        defer { StatusDisplay.shared.show([]) }
        let resolver = PeerResolver(machine: machine, reporter: SilentReporter(), transport: way.via)
        // A file that is there already can wait until somebody is; what is about to be said can't.
        return try await VoiceNoteReach.resolve(peers, with: resolver, on: node, requiresAll: input != nil)
    }

    private func send(_ note: VoiceFacts, from machine: LocalMachine, on node: Node) async throws {
        let source = try FileSource(paths: [note.path])
        let named = SendSource(
            sources: Array(repeating: source, count: peers.count), content: .files([note.path]),
            label: "voice note, \(note.duration.asClock)", canResume: true)
        let operation = SendOperation(
            machine: machine, source: named, reporter: makeSendReporter(isJSON: json, isQuiet: quiet),
            timeout: timeout?.duration ?? machine.configuration.timeout ?? .seconds(30), resumes: true, transport: way.via)
        do {
            let targets = peers.map { SendOperation.Target.text($0) }
            try await SignalHandling.run(onSignal: operation.cancelOrExit) { try await operation.run(to: targets, on: node) }
        } catch {
            // Nothing that was said is lost because nobody could be reached.
            Console.complain("the note is kept; `nearshare send` sends \(TerminalText.escaped(note.path, columns: 4096))")
            throw error
        }
        try? VoiceArchive(machine).noteSent(note.path, to: peers, at: SystemClock.wall())
    }

    private func listAllDevices() throws {
        let audio = try LinuxAudio.make(for: device)
        let devices = try audio.devices()
        if json {
            for device in devices {
                JSONEvents.emit(
                    "device",
                    [
                        "name": .text(device.name), "title": .text(device.title),
                        "direction": .text(device.direction == .input ? "input" : "output"),
                        "is_default": .flag(device.isDefault), "system": .text(audio.title),
                    ])
            }
            return
        }
        Console.say("through \(TerminalText.escaped(audio.title)):")
        for (direction, heading) in [(AudioDevice.Direction.input, "to record from"), (.output, "to play on")] {
            let rows = devices.filter { $0.direction == direction }.map { device in
                [
                    device.isDefault ? "*" : " ", TerminalText.escaped(device.name, columns: 200),
                    TerminalText.escaped(device.title),
                ]
            }
            Console.result("\(heading):")
            if rows.isEmpty { Console.result("  nothing") }
            for line in Table.lines(rows) { Console.result("\(line)") }
        }
    }
}

/// A length of time as people write it: seconds, or minutes and seconds with a colon; at the most a day.
struct ClockArgument: ExpressibleByArgument {
    let duration: Duration

    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...3).contains(parts.count), let last = Double(parts[parts.count - 1]), last >= 0 else { return nil }
        var seconds = last
        var unit = 60.0
        for part in parts.dropLast().reversed() {
            guard let number = UInt16(part), last < 60 else { return nil }
            seconds += Double(number) * unit
            unit *= 60
        }
        guard (0.1...86_400).contains(seconds) else { return nil }
        duration = .milliseconds(Int64((seconds * 1000).rounded()))
    }
}

/// Kilobits a second.
struct BitrateArgument: ExpressibleByArgument {
    let bitsPerSecond: Int

    init?(argument: String) {
        guard let number = Double(argument), (0...1000).contains(number) else { return nil }
        bitsPerSecond = Int((number * 1000).rounded())
        guard NoteSettings.bitrates.contains(bitsPerSecond) else { return nil }
    }
}
