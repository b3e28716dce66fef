internal import ArgumentParser
internal import Glibc
internal import Nearshare
package import NearshareBundles
internal import NearshareService

struct MessageCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "message", abstract: "Send a message to a peer, in or out of range, or to everyone.",
        discussion: """
            Other nodes store and forward a message for a receiver that is out of range. \
            The message's id is written to standard output.

            nearshare message "see you at 8" --to anna
            """)

    @Argument(help: ArgumentHelp("The text; - reads it from standard input.", valueName: "text"))
    var text: String?

    @Option(
        help: ArgumentHelp(
            "Send this JSON value instead of a text, with bytes as {\"$base64\": \"…\"}.", valueName: "value"))
    var json: String?

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp("Receiver: a name, an unambiguous prefix of one, or an id.", valueName: "peer"),
        completion: .custom(PeerArgument.completions), transform: PeerArgument.validated)
    var peer: String?

    @Flag(help: "Send the message to every node that is reached; everyone can read it.")
    var broadcast = false

    @Option(
        help: ArgumentHelp(
            "Routing: direct (only to a receiver in range), mesh (relayed by other nodes) or full (direct if the receiver is in range, "
                + "otherwise by the mesh; the default).", valueName: "mode"))
    var mode: MessageMode?

    @Option(
        help: ArgumentHelp("Attach a file of at most 5 MiB, in mode direct.", valueName: "file"), completion: .file(),
        transform: PathArgument.expanded)
    var file: String?

    @Flag(help: "Do not encrypt the message: every node that relays it can read it.")
    var unencrypted = false

    @Flag(name: .customLong("private"), help: "Hide sender and receiver from the nodes that relay it.")
    var isPrivate = false

    @Option(
        help: ArgumentHelp(
            "Event to wait for: sent (another node has accepted the message; the default), delivered, or none.",
            valueName: "event")
    )
    var wait: MessageOperation.Goal?

    @Option(
        help: ArgumentHelp(
            "Time to look for the receiver, and to wait, 0.1 to 600 (default: 10; for the answer to a file, the configured timeout, "
                + "or 30).",
            valueName: "seconds"),
        transform: TimeoutArgument.init(parsing:))
    var timeout: TimeoutArgument?

    @OptionGroup var nearby: NearbyOptions

    @OptionGroup var sandbox: SandboxOptions

    @OptionGroup var global: GlobalOptions

    @Flag(help: "Send only if there is a Noise session with the receiver that has not expired.")
    var requireSession = false

    /// The mode that the options select together.
    private var effectiveMode: MessageMode { broadcast ? .broadcast : mode ?? .full }

    func validate() throws {
        guard (text == nil) != (json == nil) else {
            throw ValidationError(
                text == nil ? "nothing to send: give a text or --json" : "give either a text or --json, not both")
        }
        if text == "" { throw ValidationError(MessengerError.nothingToSay.description) }
        if effectiveMode == .broadcast, wait == .delivered {
            throw ValidationError("broadcasts are not acknowledged; omit --wait delivered")
        }
        if broadcast, let mode, mode != .broadcast {
            throw ValidationError("--broadcast is a mode; omit --mode \(mode.rawValue)")
        }
        do throws(MessageError) {
            // Checks everything that is known before the receiver is looked for. Safe: 8 bytes make a peer ID.
            _ = try MessageRoute(effectiveMode, to: peer.map { _ in PeerID(bytes: [UInt8](repeating: 0, count: 8))! })
        } catch .receiverIsMissing {
            throw ValidationError("no receiver: name one with --to, or send it to everyone with --broadcast")
        } catch {
            throw ValidationError(error.description)
        }
        if isPrivate, unencrypted, effectiveMode != .broadcast {
            throw ValidationError(MessageError.privacyNeedsEncryption.description)
        }
        if requireSession, effectiveMode == .broadcast || unencrypted {
            throw ValidationError("--require-session needs an encrypted message to one receiver")
        }
        if file != nil, effectiveMode != .direct {
            throw ValidationError("\(MessageError.fileNeedsDirectMode(effectiveMode).description), with --mode direct")
        }
    }

    func prepare() throws -> @Sendable () async throws -> Void {
        let path = try file.map(ResolvedPath.of)
        // Invalid input is reported before a node is looked for or started.
        let value = try json.map(StructuredJSON.value)
        let machine = try ConfinedMachine(sandbox, log: global.logger).machine
        return { try await send(value, file: path, from: machine) }
    }

    private func send(_ value: StructuredValue?, file path: String?, from machine: LocalMachine) async throws {
        let options = nearby.nodeOptions(global)
        let limit = BundleContent.maximumByteCount
        let lineText =
            text == "-"
            ? try InputReader.readText(upTo: limit, tooLong: MessengerError.tooLong(limit: limit).description) : text
        let operation = MessageOperation(
            value ?? .object(["text": .string(lineText ?? "")]), mode: effectiveMode, to: peer,
            isEncrypted: effectiveMode != .broadcast && !unencrypted, isPrivate: isPrivate, file: path, goal: wait,
            timeout: timeout?.duration ?? MessageOperation.defaultTimeout,
            fileTimeout: machine.configuration.answerTimeout(timeout?.duration),
            requiresSession: requireSession, reporter: TextReporter(), readTrust: { try? machine.trust.read() })
        let notice = NetworkNotice(on: machine, interface: nearby.interface, NetworkNotice.show)
        try await withNetworkNotice(notice) {
            try await withNodeClient(on: machine, options: options, environment: .command, continues: true) {
                try await operation.run(through: $0)
            }
        }
    }
}

extension MessageMode: ExpressibleByArgument {}

extension MessageOperation.Goal: ExpressibleByArgument {}
