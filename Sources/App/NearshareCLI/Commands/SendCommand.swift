internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

struct SendCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "send", abstract: "Send files, folders, standard input or text to a peer nearby.",
        discussion: """
            Without --to, on a terminal, the receiver is picked from a list of the peers nearby.

            nearshare send photo.jpg trip/ --to anna
            tar c src | nearshare send - --as src.tar --to anna
            """)

    @Argument(help: ArgumentHelp("Files and folders; - is standard input.", valueName: "file"), completion: .file())
    var files: [String] = []

    @Option(
        name: .customLong("to"),
        help: PeerArgument.receiverHelp, completion: .custom(PeerArgument.completions), transform: PeerArgument.validated)
    var peers: [String] = []

    @Flag(help: "Send to everyone in the mesh, readable by all; needs --via mesh.")
    var toEveryone = false

    @OptionGroup var unsealed: UnsealedFileOptions

    @Option(help: ArgumentHelp("Send this text instead of files, or that of standard input for -.", valueName: "text"))
    var text: String?

    @Option(
        name: .customLong("as"),
        help: ArgumentHelp("File name for standard input at the receiver (default: stdin).", valueName: "name"))
    var sentName: String?

    @Flag(help: "Send symbolic links inside folders as links instead of leaving them out.")
    var links = false

    @Flag(help: "Send permission bits, except set-user-ID and set-group-ID.")
    var keepModes = false

    @Option(
        help: ArgumentHelp(
            "Leave out what matches: a file name pattern, or one of a path if it contains a slash; may be repeated.",
            valueName: "pattern"))
    var exclude: [String] = []

    @Option(
        help: ArgumentHelp("Leave out what matches a pattern of this file, one on each line.", valueName: "file"),
        completion: .file(), transform: PathArgument.expanded)
    var excludeFrom: [String] = []

    @Flag(name: [.long, .customShort("n")], help: "List what would be sent, and send nothing.")
    var dryRun = false

    @Option(
        help: ArgumentHelp(
            "Time to look for a receiver, and to wait for its answer, 0.1 to 600 (default: 5 to 30; for the answer, the configured "
                + "time, or 30).",
            valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @Option(
        help: ArgumentHelp(
            "How long to try again after the connection was lost, 0 to 86400 (default: 120).", valueName: "seconds"),
        transform: RetryArgument.init(parsing:))
    var retry: RetryArgument?

    @Flag(
        name: .customLong("no-resume"),
        help: "Send all of it again, whatever the receiver has of it; a lost connection ends the send.")
    var noResume = false

    @Option(
        help: ArgumentHelp(
            "Send at most this many bytes a second, such as 500KB, to all receivers together; not over the mesh.",
            valueName: "rate"), transform: SizeArgument.expected)
    var limit: SizeArgument?

    @Flag(
        help: "Pick the receiver in a dialog of the desktop, and report in notifications; for menus of file managers.")
    var dialog = false

    @Flag(help: "Show a QR code: phones that scan it open a page, and get what is sent without an app.")
    var qr = false

    @OptionGroup var hotspot: HotspotOptions

    @Flag(help: "With --qr: go on when the first phone has everything, until Ctrl-C.")
    var keep = false

    @Option(
        help: ArgumentHelp(
            "With --qr: ask about each browser that opens the page, or send to all (default: ask).",
            valueName: "policy"))
    var accept: PageAcceptance?

    @Option(
        help: ArgumentHelp("Give the PIN in this file to a device with LocalSend that requires one.", valueName: "file"),
        completion: .file(), transform: PathArgument.expanded)
    var pinFile: String?

    @OptionGroup var transport: TransportOptions

    @OptionGroup var output: OutputOptions

    @Flag(help: "Write errors only.")
    var quiet = false

    @OptionGroup var global: GlobalOptions

    mutating func validate() throws {
        peers = PeerArgument.unique(peers)
        if text != nil, !files.isEmpty { throw ValidationError("give either files or --text, not both") }
        if text == nil, files.isEmpty {
            throw ValidationError("nothing to send: name files or folders, - for standard input, or --text")
        }
        // Behind `--`, options are names of files. A name with U+FFFD may stand for one that is not UTF-8, which cannot be looked
        // up here; no option has other characters than ASCII.
        if let option = files.first(where: { $0.hasPrefix("--") && $0.allSatisfy(\.isASCII) && access($0, F_OK) != 0 }) {
            throw ValidationError("there is no file \(TerminalText.escaped(option)); options such as --to go before --")
        }
        if text == "" { throw ValidationError("the text is empty") }
        if files.contains("") { throw ValidationError("a file name is empty") }
        if files.contains("-"), files.count > 1 { throw ValidationError("standard input cannot be combined with files") }
        if sentName != nil, files != ["-"] { throw ValidationError("--as needs standard input as the only file: -") }
        if files.isEmpty || files == ["-"] {
            if !exclude.isEmpty || !excludeFrom.isEmpty { throw ValidationError("--exclude needs files or folders to send") }
            if dryRun { throw ValidationError("--dry-run needs files or folders to send") }
        }
        if toEveryone {
            if !peers.isEmpty { throw ValidationError("give either --to or --to-everyone, not both") }
            if transport.via != .mesh { throw ValidationError("--to-everyone needs --via mesh") }
            if text != nil || files == ["-"] {
                throw ValidationError("--to-everyone sends files; `nearshare chat --public` sends texts to everyone")
            }
        }
        if transport.via == .mesh, peers.isEmpty, !toEveryone, !dryRun, !qr, !dialog {
            throw ValidationError("--via mesh needs --to or --to-everyone")
        }
        if dialog { try validateDialog() }
        if limit?.bytes == 0 { throw ValidationError("--limit expects at least one byte a second") }
        if limit != nil, transport.via == .mesh { throw ValidationError("--limit does not apply to --via mesh") }
        try transport.validateReceivers(peers)
        try validatePage()
        var exclusions = ExclusionPatterns()
        for pattern in exclude where !exclusions.add(pattern) {
            throw ValidationError("--exclude '\(TerminalText.escaped(pattern))' matches nothing; name a file or a pattern")
        }
        if peers.isEmpty, files == ["-"], !qr { throw ValidationError("--to is needed when standard input is sent") }
    }

    func run() async throws {
        try await runCommand {
            if dialog { return try await sendWithDialog() }
            let machine = try LocalMachine()
            if dryRun {
                let source = try makeFileSource()
                reportLeftOut(source.skipped, of: source.skippedCount)
                try listEntries(of: source)
                return try Self.failIfUnreadable(source.unreadableCount)
            }
            let reporter = self.reporter
            let source = try makeSource()
            reportLeftOut(source.skipped, of: source.skippedCount)
            let settings = try transport.nodeSettings(machine, log: global.logger)
            let unreadableCount = source.unreadableCount
            if qr {
                try await sendThroughPage(source, reporter, on: machine, settings)
                return try Self.failIfUnreadable(unreadableCount)
            }
            let operation = SendOperation(
                machine: machine, source: source, reporter: reporter,
                timeout: machine.configuration.answerTimeout(timeout?.duration),
                resumes: !noResume, retryTime: retry?.duration, transport: transport.preferred,
                unsealed: unsealed.confirmation(isQuiet: output.json || quiet),
                pin: try PINPrompt.make(file: pinFile, isQuiet: output.json || quiet),
                hotspot: hotspot.makeRequester(on: settings.interface), searchLimit: timeout?.duration)
            let security = transport.localSendSecurity(of: machine, for: peers, log: global.logger)
            // A connection to an address fails with a reason of its own.
            let searches = peers.isEmpty || peers.contains { LinkAddress(parsing: $0) == nil }
            let showNetwork = searches && !quiet ? NetworkNotice.show : nil
            try await withNode(settings) { [peers, transport, toEveryone] node in
                node.findLocalSendDevices(security)
                try await SignalHandling.run(onSignal: { operation.cancelOrExit() }) {
                    try await withNetworkNotice(settings, report: showNetwork) {
                        let wanted: [SendOperation.Target] =
                            if toEveryone {
                                [.everyone]
                            } else if peers.isEmpty {
                                try await PeerPicker.pick(
                                    on: node, Transport.media(for: transport.preferred), knowing: machine.trust.read())
                            } else {
                                peers.map { .text($0) }
                            }
                        try await operation.run(to: wanted, on: node)
                    }
                }
            }
            try Self.failIfUnreadable(unreadableCount)
        }
    }

    /// Asks for the receiver in a dialog, or in a terminal that is opened for this. A menu has started it: what fails is shown
    /// in a notification, as its output is not visible.
    private func sendWithDialog() async throws {
        let notifications = SendNotifications(log: global.logger)
        do {
            try await sendWithDialog(notifications)
        } catch let error as SignalHandling.Interrupted {
            throw error
        } catch DialogPicker.Cancelled.byUser {
            throw CommandFailure(.interrupted, "no receiver was picked")
        } catch {
            await notifications.showEarlyFailure(error)
            throw error
        }
    }

    private func sendWithDialog(_ notifications: SendNotifications) async throws {
        let machine = try LocalMachine()
        guard let picker = try DialogPicker.ofDesktop(knowing: machine.trust.read()) else {
            try DialogPicker.openTerminal(sending: localPaths())
        }
        let source = try makeSource()
        notifications.setContent(source)
        let operation = SendOperation(
            machine: machine, source: source, reporter: notifications,
            timeout: machine.configuration.answerTimeout(timeout?.duration), resumes: !noResume, retryTime: retry?.duration,
            transport: transport.preferred, unsealed: nil)
        let settings = try transport.nodeSettings(machine, log: global.logger)
        let security = transport.localSendSecurity(of: machine, for: peers, log: global.logger)
        try await withNode(settings) { [transport, source] node in
            node.findLocalSendDevices(security)
            try await SignalHandling.run(onSignal: { if !picker.close() { operation.cancelOrExit() } }) {
                let peer = try await picker.pick(
                    sending: source.label, on: node, Transport.media(for: transport.preferred))
                try await notifications.during(onCancel: { _ = operation.cancel() }) {
                    try await operation.run(to: [.peer(peer)], on: node)
                    try Self.failIfUnreadable(source.unreadableCount)
                }
            }
        }
    }

    private func validateDialog() throws {
        if !peers.isEmpty || toEveryone {
            throw ValidationError("--dialog picks the receiver; omit \(toEveryone ? "--to-everyone" : "--to")")
        }
        if qr { throw ValidationError("give either --dialog or --qr, not both") }
        if output.json { throw ValidationError("--dialog reports in notifications; omit --json") }
        if dryRun { throw ValidationError("--dialog reports in notifications; omit --dry-run") }
        if files.isEmpty { throw ValidationError("--dialog sends files; omit --text") }
        if files == ["-"] { throw ValidationError("--dialog sends files, not standard input; omit -") }
        if transport.via == .mesh { throw ValidationError("--dialog does not send over the mesh; omit --via") }
        if pinFile != nil || unsealed.isAllowed {
            throw ValidationError("--pin-file and --allow-unencrypted do not apply to --dialog")
        }
    }

    private func validatePage() throws {
        if hotspot.leavesWiFi, !hotspot.hotspot { throw ValidationError("--leave-wifi needs --hotspot") }
        guard qr else {
            try validateTransferHotspot()
            if keep { throw ValidationError("--keep needs --qr") }
            if accept != nil { throw ValidationError("--accept needs --qr") }
            return
        }
        if !peers.isEmpty || toEveryone { throw ValidationError("give either --qr or a receiver, not both") }
        if transport.via != nil { throw ValidationError("--qr sends over the local network; omit --via") }
        if links || keepModes {
            throw ValidationError("a page gives neither links nor permissions; omit --links and --keep-modes")
        }
        if timeout != nil || retry != nil || noResume {
            throw ValidationError("--timeout, --retry and --no-resume do not apply to --qr")
        }
        if pinFile != nil || unsealed.isAllowed {
            throw ValidationError("--pin-file and --allow-unencrypted do not apply to --qr")
        }
        if keep, files == ["-"] { throw ValidationError("standard input can be read once; omit --keep") }
    }

    /// A hotspot moves one transfer that can be resumed from Bluetooth to Wi-Fi.
    private func validateTransferHotspot() throws {
        guard hotspot.hotspot else { return }
        if toEveryone || peers.count > 1 { throw ValidationError("--hotspot is for one receiver, or for --qr") }
        if dialog { throw ValidationError("--dialog makes no hotspot") }
        if transport.via == .network || transport.via == .mesh {
            throw ValidationError("--hotspot needs Bluetooth to find the receiver; omit --via, or use --via bluetooth")
        }
        if noResume || files == ["-"] {
            throw ValidationError(
                "--hotspot continues what Bluetooth has begun; it needs files or --text, and no --no-resume")
        }
    }

    /// Shows a page, and sends to the browsers that open it.
    private func sendThroughPage(
        _ source: SendSource, _ reporter: any Reporter, on machine: LocalMachine, _ settings: NodeSettings
    ) async throws {
        let display: TerminalPromptDisplay? = accept == .all ? nil : .terminal
        guard accept == .all || display != nil else {
            throw CommandFailure(.usage, "there is no terminal to ask on; use --accept all")
        }
        let operation = PageSendOperation(
            machine: machine, source: source, reporter: reporter, acceptsAll: accept == .all, endsAfterFirst: !keep,
            display: display)
        try await hotspot.withHotspot(on: settings.interface, reporter: reporter) {
            [interface = transport.interface, results = output.reporter] hotspot in
            try await withNode(settings) { node in
                let page = try node.servePage(
                    sending: operation.contents(), rateLimit: source.rateLimit, port: Node.defaultPagePort)
                let action = "get \(source.label)"
                if let hotspot {
                    HotspotNotice.show(hotspot, page, purpose: action, to: results)
                } else {
                    PageNotice.show(page, at: PageHosts.all(on: interface), purpose: action, to: results)
                }
                try await SignalHandling.run(onSignal: { _ in operation.interrupt(node) }) {
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        defer { group.cancelAll() }
                        if let hotspot { group.addTask { if await hotspot.waitForFailure() { operation.interrupt(node) } } }
                        try await operation.serve(page, on: node)
                    }
                }
            }
        }
    }

    /// Reports what is left out: each entry whose reason is known, and the number of the others.
    private func reportLeftOut(_ reasons: [String], of count: Int) {
        for reason in reasons { warn("left out: \(reason)", event: "left_out", ["reason": .string(reason)]) }
        let more = count - reasons.count
        if more > 0 { warn("left out: \(more) more", event: "left_out_more", ["count": .number(UInt64(clamping: more))]) }
    }

    private func warn(_ text: String, event: String, _ members: [String: JSONValue]) {
        reporter.emit(event, members) { Console.warn(text) }
    }

    /// The reporter of the operation. Results are written also with --quiet, by another one.
    private var reporter: any CommandReporter { OutputOptions.makeReporter(json: output.json, isQuiet: quiet) }

    private static func failIfUnreadable(_ count: Int) throws(CommandFailure) {
        guard count > 0 else { return }
        let entries = count == 1 ? "file or folder" : "files or folders"
        throw CommandFailure(.partly, "\(count) \(entries) could not be read and \(count == 1 ? "was" : "were") left out")
    }

    /// Writes the entries that would be sent: their paths, as the receiver gets them, and sizes.
    private func listEntries(of source: FileSource) throws {
        var counts = OfferText.EntryCounts()
        let results = output.reporter
        try source.forEachEntry { entry in
            counts.add(entry.kind)
            let path = entry.path.map { String(decoding: $0.bytes, as: UTF8.self) }.joined(separator: "/")
            let (kind, facts) =
                switch entry.kind {
                case .file: ("file", "  (\((entry.size ?? 0).formattedByteCount))")
                case .folder: ("folder", "/")
                case .link(let target):
                    ("link", " -> \(TerminalText.escaped(String(decoding: target, as: UTF8.self), columns: 4096))")
                }
            results.emit("entry", ["path": .string(path), "kind": .string(kind), "size": JSONValue(entry.size)]) {
                Console.writeResult(TerminalText.path(path) + facts)
            }
        }
        let size = (source.offer.totalSize ?? 0).formattedByteCount
        reporter.writeText { Console.notice("\(counts.text), \(size); nothing was sent") }
    }

    private func makeSource() throws -> SendSource {
        var source = try makeUnlimitedSource()
        source.rateLimit = limit.map { TransmissionLimit(bytesPerSecond: $0.bytes) }
        return source
    }

    private func makeUnlimitedSource() throws -> SendSource {
        if let text {
            let limit = TextSource.maximumByteCount
            return try .text(
                text == "-" ? InputReader.readText(upTo: limit, tooLong: TextSource.tooLong.description) : text)
        }
        if files == ["-"] {
            guard let name = ClaimedFileName(sentName ?? StreamSource.defaultName) else {
                throw CommandFailure(.usage, "the name after --as is longer than 255 bytes")
            }
            return .standardInput(named: name)
        }
        return try .files(makeFileSource())
    }

    /// The files; file managers name them by addresses where that is the only form without special characters.
    private func localPaths() throws -> [LocalPath] {
        let paths = try CommandLineBytes.ofProcess.paths(of: files)
        return dialog ? paths.map { LocalPath(address: $0.text) ?? $0 } : paths
    }

    private func makeFileSource() throws -> FileSource {
        var options = FileSource.Options()
        options.links = links
        // A page gives no links, and the entry of a menu takes no options.
        if !qr, !dialog { options.linkAdvice = "--links sends links" }
        options.streamAdvice = "`nearshare send -` sends what another command writes to it"
        options.keepModes = keepModes
        options.skipsUnreadable = true
        for pattern in exclude { _ = options.exclusions.add(pattern) }
        for file in excludeFrom { try options.exclusions.add(linesOf: ResolvedPath.of(file)) }
        let (paths, repeated) = try LocalPath.separatingRepeated(
            localPaths(), areFoldersWhole: options.exclusions.isEmpty)
        let source = try FileSource(localPaths: paths, options: options)
        for path in repeated {
            let reason = "\(TerminalText.path(path.text)) is sent once: another path that you named is the same, or contains it"
            warn(reason, event: "left_out", ["reason": .string(reason)])
        }
        reportUnused(source.unusedExclusions)
        return source
    }

    /// Warns of each pattern of an option that leaves nothing out, and of those of a file in one line.
    private func reportUnused(_ exclusions: [ExclusionPatterns.Unused]) {
        reporter.emit("unused_exclusion", for: exclusions.prefix(Self.maximumUnusedEvents), members: Self.jsonMembers) {
            for line in Self.unusedLines(exclusions) { Console.warn(line) }
        }
        let more = exclusions.count - Self.maximumUnusedEvents
        if more > 0 { reporter.emit("unused_exclusion_more", ["count": .number(UInt64(clamping: more))]) {} }
    }

    private static func jsonMembers(_ unused: ExclusionPatterns.Unused) -> [String: JSONValue] {
        var members: [String: JSONValue] = ["pattern": .string(unused.pattern)]
        if let file = unused.file { members["file"] = .string(file) }
        return members
    }

    /// A file of patterns may have any number of lines.
    private static let maximumUnusedEvents = 1_000
    private static let maximumUnusedNames = 3

    static func unusedLines(_ exclusions: [ExclusionPatterns.Unused]) -> [String] {
        func quoted(_ unused: ExclusionPatterns.Unused) -> String { "'\(TerminalText.escaped(unused.pattern))'" }
        var lines = exclusions.filter { $0.file == nil }.map { "--exclude \(quoted($0)) leaves nothing out" }
        for (file, patterns) in Dictionary(grouping: exclusions.filter { $0.file != nil }, by: \.file).sorted(by: {
            $0.key ?? "" < $1.key ?? ""
        }) {
            let names = patterns.prefix(maximumUnusedNames).map(quoted).joined(separator: ", ")
            let more = patterns.count - maximumUnusedNames
            lines.append(
                "--exclude-from \(TerminalText.path(file ?? "")): \(names)\(more > 0 ? " and \(more) more" : "") "
                    + (patterns.count == 1 ? "leaves nothing out" : "leave nothing out"))
        }
        return lines
    }
}

/// The browsers that a page gives content to.
enum PageAcceptance: String, ExpressibleByArgument, CaseIterable {
    /// Browsers that the user accepts.
    case ask
    /// All browsers that have the page's key.
    case all
}

extension SendOperation {
    /// Cancels the transfers at a signal, or exits at once when none is running.
    func cancelOrExit() {
        guard !cancel() else { return }
        reportInterruption()
        SignalHandling.exitNow()
    }
}
