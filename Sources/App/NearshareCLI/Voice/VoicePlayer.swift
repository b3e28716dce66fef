internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareTerminal

/// Plays one note, with a screen and keys where there is a terminal.
struct VoicePlayer: Sendable {
    let note: VoiceFacts
    let device: String?
    let keyboard: SharedKeyboard?
    let style: ANSIStyle

    func run(_ playback: Playback) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer {
                group.cancelAll()
                StatusDisplay.shared.show([])
            }
            if let keyboard {
                group.addTask { await draw(playback) }
                group.addTask { await steer(playback, by: keyboard.keys()) }
            }
            try await BlockingThread.run {
                let reader = try NoteReader(NoteFile.open(note.path))
                let audio = try LinuxAudio.make(for: device)
                let output = try audio.openOutput(device: LinuxAudio.bareName(device), format: reader.format)
                defer { output.close() }
                _ = try playback.run(reader, on: output)
            }
        }
    }

    private func draw(_ playback: Playback) async {
        while !Task.isCancelled {
            StatusDisplay.shared.show(
                VoiceScreen.player(
                    playback.snapshot, note, title: note.title, columns: TerminalProperties.size(of: STDERR_FILENO).columns,
                    style: style))
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    private func steer(_ playback: Playback, by keys: AsyncStream<TerminalKey>) async {
        for await key in keys {
            for key in VoiceKey.all(in: key) {
                switch key {
                case .space: playback.togglePause()
                case .left: playback.skip(.seconds(-Self.step))
                case .right: playback.skip(.seconds(Self.step))
                case .letter("q"), .enter: playback.stop()
                default: break
                }
            }
        }
    }

    private static let step = 5
}

struct VoicePlayCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "play", abstract: "Play a voice note.",
        discussion: "Space pauses, the arrow keys go 5 seconds back and on, q ends.")

    @Argument(
        help: ArgumentHelp("A file, or an id as `nearshare voice list` shows them.", valueName: "note"), completion: .file())
    var note: String

    @Option(help: ArgumentHelp("Play on this device; alsa:NAME is one of ALSA's.", valueName: "name"))
    var device: String?

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let facts = try VoiceArchive(LocalMachine()).find(note)
            let keyboard = TerminalProperties.isTerminal(STDERR_FILENO) ? TerminalDevice().map { SharedKeyboard($0) } : nil
            let player = VoicePlayer(
                note: facts, device: device, keyboard: keyboard,
                style: ANSIStyle(isEnabled: TerminalProperties.hasColor(STDERR_FILENO)))
            let playback = Playback()
            try await withThrowingTaskGroup(of: Void.self) { group in
                defer { group.cancelAll() }
                if let keyboard { group.addTask { await keyboard.run() } }
                try await SignalHandling.run(onSignal: { playback.stop() }) { try await player.run(playback) }
            }
        }
    }
}

struct VoiceShowCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show", abstract: "Show length, bit rate, size and waveform of a voice note, without decoding it.")

    @Argument(
        help: ArgumentHelp("A file, or an id as `nearshare voice list` shows them.", valueName: "note"), completion: .file())
    var note: String

    @Flag(help: "Write one JSON object.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let facts = try VoiceArchive(LocalMachine()).find(note)
            if json { return JSONEvents.emit("note", facts.json) }
            var rows: [[String]] = [["file", TerminalText.escaped(facts.path, columns: 4096)], ["id", facts.id]]
            if let speaker = facts.speaker { rows.append(["of", speaker]) }
            if let recorded = facts.recorded { rows.append(["recorded", recorded]) }
            rows += [
                ["length", facts.duration.asClock], ["bit rate", facts.bitrateText],
                ["size", facts.summary.byteCount.asByteCount],
            ]
            for line in Table.lines(rows) { Console.result(line) }
            if facts.summary.isCut { Console.complain("its end is missing: it was cut off on the way") }
            let columns = TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : 80
            let picture = VoiceScreen.summary(
                facts, columns: columns, style: ANSIStyle(isEnabled: TerminalProperties.hasColor(STDOUT_FILENO)))
            for line in picture { Console.result(line) }
        }
    }
}

struct VoiceListCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list", abstract: "List voice notes that were received, sent and kept, the newest last.")

    @Flag(help: "Write one JSON object a line.")
    var json = false

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let entries = try VoiceArchive(LocalMachine()).entries()
            if json {
                for entry in entries {
                    JSONEvents.emit(
                        "note",
                        entry.note.json.merging([
                            "way": .text(entry.way), "when": .number(UInt64(max(0, entry.when.milliseconds))),
                            "is_received": .flag(entry.isReceived),
                        ]) { $1 })
                }
                return
            }
            if entries.isEmpty { Console.say("no voice notes yet; `nearshare voice` records one") }
            for line in Self.lines(
                entries,
                columns: TerminalProperties.isTerminal(STDOUT_FILENO) ? TerminalProperties.size(of: STDOUT_FILENO).columns : nil
            ) {
                Console.result(line)
            }
        }
    }

    /// - Parameter columns: where there is less room than whole paths take, the names of the files are shown.
    private static func lines(_ entries: [VoiceArchive.Entry], columns: Int?) -> [String] {
        func table(_ place: (String) -> String) -> [String] {
            Table.lines(
                entries.map { entry in
                    [
                        entry.note.id, entry.when.forPeople, entry.way, entry.note.duration.asClock,
                        entry.note.summary.byteCount.asByteCount, TerminalText.escaped(place(entry.note.path), columns: 4096),
                    ]
                })
        }
        let whole = table { $0 }
        guard let columns, whole.contains(where: { TerminalText.width(of: $0) > columns }) else { return whole }
        return table { String($0.split(separator: "/").last ?? "") }
    }
}
