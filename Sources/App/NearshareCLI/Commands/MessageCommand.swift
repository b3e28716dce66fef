internal import ArgumentParser
internal import Glibc
internal import Nearshare
package import NearshareBundles
internal import NearshareService

struct MessageCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "message", abstract: "Send a message to somebody, near or far, or to everybody.",
        discussion: """
            Somebody who is out of range gets it through others who pass by: it is held, carried and delivered. \
            The message's id is written to standard output.
            """)

    @Argument(help: ArgumentHelp("What to say; - reads it from standard input.", valueName: "text"))
    var text: String?

    @Option(
        help: ArgumentHelp(
            "Send this value instead of a text; {\"$base64\": \"…\"} in it stands for bytes.", valueName: "value"))
    var json: String?

    @Option(
        name: .customLong("to"),
        help: ArgumentHelp("Whom it is for: a name, the beginning of one, or an id.", valueName: "peer"),
        completion: .custom(completePeers), transform: PeerText.check)
    var peer: String?

    @Flag(help: "Send it to everybody who is reached; everybody can read it.")
    var broadcast = false

    @Option(
        help: ArgumentHelp(
            "How it goes: direct (only to somebody in range), mesh (carried by others) or full (direct if they are in range, "
                + "else by the mesh; the default).", valueName: "mode"))
    var mode: MessageMode?

    @Option(help: ArgumentHelp("Send a file beside it, in mode direct: at most 5 MiB.", valueName: "file"), completion: .file())
    var file: String?

    @Flag(help: "Do not encrypt it: everybody who carries it can read it.")
    var unencrypted = false

    @Flag(name: .customLong("private"), help: "Do not let those who carry it see who sent it and whom it is for.")
    var isPrivate = false

    @Option(
        help: ArgumentHelp(
            "Wait until it is sent (somebody has taken it; the default) or delivered, or for none of that.", valueName: "event")
    )
    var wait: MessageOperation.Goal?

    @Option(
        help: ArgumentHelp(
            "How long to look for somebody, and to wait (default: 10; 30 until a file is accepted).", valueName: "seconds"))
    var timeout: TimeoutArgument?

    @Option(help: ArgumentHelp("Look for others through this network interface only.", valueName: "interface"))
    var interface: String?

    @OptionGroup var radio: RadioOptions

    @OptionGroup var global: GlobalOptions

    /// What the person has asked for, as one mode.
    private var effectiveMode: MessageMode { broadcast ? .broadcast : mode ?? .full }

    func validate() throws {
        guard (text == nil) != (json == nil) else {
            throw ValidationError(
                text == nil ? "nothing to send: give a text, or --json" : "give either a text or --json, not both")
        }
        if text == "" { throw ValidationError(MessengerError.nothingToSay.description) }
        if broadcast, let mode, mode != .broadcast {
            throw ValidationError("--broadcast is a mode of its own; leave --mode \(mode.rawValue) out")
        }
        do throws(MessageRule) {
            // All that can be told before anybody is looked for.
            _ = try MessageRoute(effectiveMode, to: peer.map { _ in PeerID(bytes: [UInt8](repeating: 0, count: 8))! })
        } catch {
            throw ValidationError(error.description)
        }
        if isPrivate, unencrypted, effectiveMode != .broadcast {
            throw ValidationError(MessageRule.privacyNeedsEncryption.description)
        }
        if file != nil, effectiveMode != .direct {
            throw ValidationError("\(MessageRule.fileNeedsDirectMode(effectiveMode).description), with --mode direct")
        }
    }

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            let path = try file.map(AbsolutePath.of)
            // What is wrong with it is told before a node is looked for or begun.
            let value = try json.map(StructuredJSON.value)
            let options = NodeOptions(interface: interface, radio: radio.radio(log: global.logger), log: global.logger)
            let said = text == "-" ? try Self.readStandardInput() : text
            let operation = MessageOperation(
                value ?? .object(["text": .string(said ?? "")]), mode: effectiveMode, to: peer,
                isEncrypted: effectiveMode != .broadcast && !unencrypted, isPrivate: isPrivate, file: path, goal: wait,
                timeout: timeout?.duration ?? .seconds(10), fileTimeout: timeout?.duration ?? .seconds(30),
                reporter: TextReporter())
            try await withNodeClient(machine, options, .command, continues: true) { try await operation.run(through: $0) }
        }
    }

    private static func readStandardInput() throws -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4_096)
        // One byte more than fits, so that the rule about the size is what tells.
        while bytes.count <= BundleContent.maximumByteCount {
            let count = read(STDIN_FILENO, &buffer, buffer.count)
            guard count > 0 else { break }
            bytes += buffer[..<count]
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw CommandFailure(.usage, "standard input is no UTF-8 text; send it as a file with `nearshare send -`")
        }
        let said = text.hasSuffix("\n") ? String(text.dropLast()) : text
        guard !said.isEmpty else { throw CommandFailure(.usage, MessengerError.nothingToSay.description) }
        return said
    }
}

extension MessageMode: ExpressibleByArgument {}

extension MessageOperation.Goal: ExpressibleByArgument {}
