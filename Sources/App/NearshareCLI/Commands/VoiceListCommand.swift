internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct VoiceListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List received, sent and kept voice notes, the newest last.")

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let entries = try VoiceNoteStore(LocalMachine()).entries()
            output.reporter.emit("note", for: entries, members: Self.jsonMembers) {
                if entries.isEmpty { Console.notice("no voice notes yet; `nearshare voice` records one") }
                let columns =
                    TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : nil
                for line in Self.lines(entries, columns: columns) { Console.writeResult(line, isMessage: true) }
            }
        }
    }

    private static func jsonMembers(_ entry: VoiceNoteStore.Entry) -> [String: JSONValue] {
        entry.note.json.merging(entry.origin.json) { $1 }.merging(["when": .number(entry.time.unixMilliseconds)]) { $1 }
    }

    /// Shell completion: the ids of the notes, with the times at which they were made where the shell shows them. The scripts
    /// offer files as well.
    @Sendable static func noteCompletions(_ arguments: [String], _ index: Int, _ prefix: String) -> [String] {
        guard let entries = try? VoiceNoteStore(LocalMachine()).entries() else { return [] }
        let shell = CompletionShell.requesting
        let separator: String? = shell == .zsh ? ":" : shell == .fish ? "\t" : nil
        return entries.map { entry in entry.note.id + (separator.map { $0 + entry.time.localText } ?? "") }
    }

    /// - Parameter columns: width of the terminal; nil for other outputs. File names replace paths that do not fit.
    private static func lines(_ entries: [VoiceNoteStore.Entry], columns: Int?) -> [String] {
        func table(_ shownPath: (String) -> String) -> [String] {
            Table.lines(
                entries.map { entry in
                    [
                        entry.note.id, entry.time.localText, entry.originText, entry.note.duration.asClock,
                        entry.note.summary.byteCount.formattedByteCount,
                        TerminalText.escaped(shownPath(entry.note.path), columns: 4096),
                    ]
                })
        }
        let whole = table { $0 }
        guard let columns, whole.contains(where: { TerminalText.width(of: $0) > columns }) else { return whole }
        return table { $0.pathComponents.last ?? "" }
    }
}

extension VoiceNoteStore.Origin {
    /// The members of a JSON event that tell where a note comes from.
    fileprivate var json: [String: JSONValue] {
        let (word, sender, receivers): (String, String?, [String]) =
            switch self {
            case .received(let name): ("received", name.claimed, [])
            case .sent(let receivers): ("sent", nil, receivers)
            case .recorded: ("recorded", nil, [])
            }
        return [
            "origin": .string(word), "sender": JSONValue(sender), "receivers": .array(receivers.map { .string($0) }),
        ]
    }
}

extension VoiceNoteStore.Entry {
    /// "from anna", "to ben" or "kept", escaped for a terminal.
    fileprivate var originText: String {
        switch origin {
        case .received(let name): "from \(name.shown)"
        case .sent(let receivers): "to " + receivers.map { TerminalText.escaped($0, columns: 40) }.joined(separator: ", ")
        case .recorded: "kept"
        }
    }
}
