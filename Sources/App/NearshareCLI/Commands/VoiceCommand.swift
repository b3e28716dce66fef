internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal

struct VoiceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "voice", abstract: "Record, send and play voice notes.",
        discussion: """
            nearshare voice --to anna     speak, press Enter, and Enter again to send it
            nearshare voice               record a note and keep it
            nearshare voice play FILE     play one

            Options for recording: nearshare voice record --help
            """,
        subcommands: [VoiceRecordCommand.self, VoicePlayCommand.self, VoiceShowCommand.self, VoiceListCommand.self],
        defaultSubcommand: VoiceRecordCommand.self)
}

struct VoiceRecordCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "record", abstract: "Record a voice note; the default subcommand.",
        discussion: """
            Space pauses and resumes; Enter or Ctrl-C ends. The recording is on disk from the first second, and is always kept.
            """)

    @Option(
        name: .customLong("to"),
        help: PeerArgument.receiverHelp, completion: .custom(PeerArgument.completions), transform: PeerArgument.validated)
    var peers: [String] = []

    @Option(
        name: .shortAndLong,
        help: ArgumentHelp("File for the note, instead of a dated name in the voice directory.", valueName: "file"),
        completion: .file(), transform: PathArgument.expanded)
    var output: String?

    @Option(
        help: ArgumentHelp(
            "Encode this file instead of recording: WAV, FLAC, MP3, Ogg, M4A or AAC, or raw samples; - is standard input.",
            valueName: "file"),
        completion: .file(), transform: PathArgument.expanded)
    var input: String?

    @Flag(help: "The input has no header: one channel, 16 bits, little-endian, at --rate.")
    var raw = false

    @Option(help: ArgumentHelp("Record from this device; alsa:NAME selects an ALSA device.", valueName: "name"))
    var device: String?

    @Flag(help: "List the devices for recording and playback.")
    var listDevices = false

    @Option(
        help: ArgumentHelp("Maximum length, 0.1 seconds to a day, such as 90 or 1:30 (default: none).", valueName: "time"),
        transform: DurationArgument.expecting("0.1 seconds to a day, such as 90 or 1:30"))
    var duration: DurationArgument?

    @Option(
        help: ArgumentHelp("Bit rate in kbit/s, 6 to 256 (default: 24).", valueName: "kbit"),
        transform: BitrateArgument.expecting("6 to 256 kbit/s"))
    var bitrate: BitrateArgument?

    @Option(help: ArgumentHelp("Sample rate in Hz, 8000 to 192000 (default: 16000).", valueName: "hertz"))
    var rate: Int?

    @Flag(name: .customLong("no-trim"), help: "Keep the silence at both ends.")
    var noTrim = false

    @Option(
        help: ArgumentHelp(
            "Maximum size of the note, such as 5MiB, at least 16KiB; the remaining time is shown (default: what the connection takes).",
            valueName: "size"),
        transform: SizeArgument.expected)
    var limit: SizeArgument?

    @Flag(name: .shortAndLong, help: "Send the note without a review.")
    var yes = false

    @OptionGroup var unsealed: UnsealedFileOptions

    @OptionGroup var transport: TransportOptions

    @Option(
        help: ArgumentHelp(
            "Time to look for a receiver, and to wait for its answer, 0.1 to 600 (default: 5 to 30; for the answer, the configured "
                + "time, or 30).",
            valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @Flag(help: "Write one JSON event per line to standard output.")
    var json = false

    @Flag(help: "Write errors only.")
    var quiet = false

    @OptionGroup var global: GlobalOptions

    mutating func validate() throws {
        peers = PeerArgument.unique(peers)
        if transport.via != nil, peers.isEmpty { throw ValidationError("--via needs --to") }
        if unsealed.isAllowed, peers.isEmpty { throw ValidationError("--allow-unencrypted needs --to") }
        try transport.validateReceivers(peers)
        if raw, input == nil { throw ValidationError("--raw needs --input") }
        if input != nil, device != nil { throw ValidationError("give either --input or --device, not both") }
        if input != nil, rate != nil, !raw {
            throw ValidationError("--rate is for recording and for --raw; other files have a rate of their own")
        }
        if let rate, AudioFormat(rate: rate, channels: 1) == nil {
            throw ValidationError("--rate must be 8000 to 192000")
        }
        if output == "-" {
            throw ValidationError("a note cannot be written to a pipe, because its header is written last; name a file")
        }
        if let limit, NoteSizeLimit(byteCount: limit.bytes) == nil {
            throw ValidationError("--limit must be at least 16KiB")
        }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        let decoders = try startDecoders()
        return { try await record(with: decoders) }
    }

    private func record(with decoders: any WorkerLauncher) async throws {
        if listDevices { return try listAllDevices() }
        let machine = try LocalMachine()
        let parameters = try makeParameters(machine)
        if peers.isEmpty {
            guard let note = try await makeRecordingSession(machine, parameters, decoders).run() else { return }
            OutputOptions.makeReporter(json: json).writeText { Console.writeResult(note.path) }
        } else {
            try await recordAndSend(parameters, decoders, from: machine)
        }
    }

    private func makeRecordingSession(
        _ machine: LocalMachine, _ parameters: RecordingSession.Parameters, _ decoders: any WorkerLauncher
    ) -> RecordingSession {
        RecordingSession(
            store: VoiceNoteStore(machine), parameters: parameters, decoders: decoders, reporter: reporter,
            isQuiet: quiet || json)
    }

    /// The reporter of the operation. Results are written also with --quiet, by another one.
    private var reporter: any CommandReporter { OutputOptions.makeReporter(json: json, isQuiet: quiet) }

    private func makeParameters(_ machine: LocalMachine) throws -> RecordingSession.Parameters {
        let settings = NoteSettings(
            bitrate: bitrate?.bitsPerSecond ?? NoteSettings.speechBitrate, speaker: try machine.name().claimed,
            recorded: SystemClock.wall(), limit: limit.flatMap { NoteSizeLimit(byteCount: $0.bytes) })
        guard let settings else { throw CommandFailure(.usage, "--bitrate must be 6 to 256") }
        let source: RecordingSession.Source =
            switch input {
            case "-"?: raw ? .rawSamples(STDIN_FILENO) : .pipe(STDIN_FILENO)
            case let path?: raw ? .rawFile(path) : .file(path)
            case nil: .microphone(device)
            }
        return RecordingSession.Parameters(
            source: source, rate: rate ?? AudioFormat.speech.rate, settings: settings, output: output,
            duration: duration?.duration, isTrimmed: !noTrim, receivers: peers, needsReview: !yes && !json && input == nil)
    }

    private func recordAndSend(
        _ parameters: RecordingSession.Parameters, _ decoders: any WorkerLauncher, from machine: LocalMachine
    ) async throws {
        // Fails early where the microphone or the file is not available.
        try await makeRecordingSession(machine, parameters, decoders).checkSource()
        let settings = try transport.nodeSettings(machine, log: global.logger)
        let security = transport.localSendSecurity(of: machine, for: peers, log: global.logger)
        // One node for the whole command: neighbours stay connected during the recording.
        try await withNode(settings) { node in
            node.findLocalSendDevices(security)
            var parameters = parameters
            let receivers: VoiceNoteReceivers = try await SignalHandling.run(onSignal: { SignalHandling.exitNow() }) {
                try await lookUpReceivers(from: machine, on: node)
            }
            reporter.writeText { for notice in receivers.notices { Console.notice(notice) } }
            let requestedLimit = parameters.settings.limit
            parameters.settings.limit = NoteSizeLimit.smaller(requestedLimit, receivers.limit)
            if parameters.settings.limit != requestedLimit, let text = receivers.limitText {
                if let requestedLimit {
                    Console.warn("--limit \(requestedLimit.byteCount.formattedByteCount) is too large: \(text)")
                }
                parameters.receiverLimit = text
            }
            guard let note = try await makeRecordingSession(machine, parameters, decoders).run() else { return }
            try await send(note, from: machine, on: node)
        }
    }

    /// Looks for the receivers before the recording: the paths to them limit the size of the note.
    private func lookUpReceivers(from machine: LocalMachine, on node: Node) async throws -> VoiceNoteReceivers {
        // A temporary line; a permanent one follows when the note is sent.
        let names = peers.map { TerminalText.escaped($0, columns: 24) }.joined(separator: ", ")
        if TerminalProperties.isTerminal(STDERR_FILENO) {
            reporter.writeText { StatusDisplay.shared.show(["looking for \(names)…"]) }
        }
        defer { StatusDisplay.shared.show([]) }
        let resolver = PeerResolver(machine: machine, reporter: SilentReporter(), transport: transport.preferred)
        // An input file can be sent later; a recording cannot be repeated, so it does not wait for its receivers.
        return try await VoiceNoteReceivers.resolve(peers, with: resolver, on: node, requiresAll: input != nil)
    }

    private func send(_ note: VoiceNote, from machine: LocalMachine, on node: Node) async throws {
        let operation = try VoiceNoteSendOperation(
            note, to: peers, from: machine, reporter: reporter,
            timeout: machine.configuration.answerTimeout(timeout?.duration), searchLimit: timeout?.duration,
            transport: transport.preferred,
            unsealed: unsealed.confirmation(isQuiet: json || quiet), pin: PINPrompt.onTerminal(isQuiet: json || quiet))
        @Sendable func cancelOrExit() {
            guard !operation.cancel() else { return }
            operation.reportInterruption()
            SignalHandling.exitNow()
        }
        do {
            try await SignalHandling.run(onSignal: cancelOrExit) { try await operation.run(on: node) }
        } catch {
            // The recording is kept also when it could not be sent.
            let missed = operation.missedPeers.map { " --to \(ShellWord.quoted($0))" }.joined()
            let file = ShellWord.quoted(note.path)
            Console.warn(
                missed.isEmpty
                    ? "the note is kept: \(file)" : "the note is kept; send it later with `nearshare send \(file)\(missed)`")
            throw error
        }
    }

    private func listAllDevices() throws {
        let audio = try LinuxAudio.make(for: device)
        let devices = try audio.devices()
        func members(_ device: AudioDevice) -> [String: JSONValue] {
            [
                "name": .string(device.name), "title": .string(device.title),
                "direction": .string(device.direction == .input ? "input" : "output"),
                "is_default": .bool(device.isDefault), "system": .string(audio.title),
            ]
        }
        OutputOptions.makeReporter(json: json).emit("device", for: devices, members: members) {
            Self.write(devices, of: audio.title)
        }
    }

    private static func write(_ devices: [AudioDevice], of system: String) {
        Console.notice("audio system: \(TerminalText.escaped(system))")
        for (direction, heading) in [(AudioDevice.Direction.input, "recording"), (.output, "playback")] {
            let rows = devices.filter { $0.direction == direction }.map { device in
                [
                    device.isDefault ? "*" : " ", TerminalText.escaped(device.name, columns: 200),
                    TerminalText.escaped(device.title),
                ]
            }
            Console.writeResult("\(heading):")
            if rows.isEmpty { Console.writeResult("  none") }
            for line in Table.lines(rows) { Console.writeResult(line) }
        }
    }
}
