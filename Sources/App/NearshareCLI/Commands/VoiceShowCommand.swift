internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

struct VoiceShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show length, bit rate, size and waveform of a voice note, without decoding the audio.")

    @Argument(
        help: ArgumentHelp("A file, or an id as shown by `nearshare voice list`.", valueName: "note"),
        completion: .custom(VoiceListCommand.noteCompletions))
    var note: String

    @OptionGroup var output: OutputOptions

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let found = try VoiceNoteStore(LocalMachine()).find(note)
            output.reporter.emit("note", found.json) { Self.write(found) }
        }
    }

    private static func write(_ found: VoiceNote) {
        var rows: [[String]] = [["file", TerminalText.path(found.path)], ["id", found.id]]
        if let speaker = found.speaker { rows.append(["speaker", speaker]) }
        if let recorded = found.recordedText { rows.append(["recorded", recorded]) }
        rows += [
            ["length", found.duration.asClock], ["bit rate", found.bitrateText],
            ["size", found.summary.byteCount.formattedByteCount],
        ]
        for line in Table.lines(rows) { Console.writeResult(line, isMessage: true) }
        if found.summary.isTruncated { Console.warn("its end is missing: it was truncated in transit") }
        let columns = TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : 80
        let picture = VoiceScreen.summary(
            found, columns: columns, style: ANSIStyle(isEnabled: TerminalProperties.hasColor(STDOUT_FILENO)))
        for line in picture { Console.writeResult(line, isMessage: true) }
    }
}
