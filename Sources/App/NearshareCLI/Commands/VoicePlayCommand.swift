internal import ArgumentParser
internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal

struct VoicePlayCommand: ConfinedCommand {
    static let configuration = CommandConfiguration(
        commandName: "play", abstract: "Play a voice note.",
        discussion: "Space pauses, the arrow keys skip 5 seconds, q ends.")

    @Argument(
        help: ArgumentHelp("A file, or an id as shown by `nearshare voice list`.", valueName: "note"),
        completion: .custom(VoiceListCommand.noteCompletions))
    var note: String

    @Option(help: ArgumentHelp("Play on this device; alsa:NAME selects an ALSA device.", valueName: "name"))
    var device: String?

    @OptionGroup var global: GlobalOptions

    func prepare() throws -> @Sendable () async throws -> Void {
        let decoders = try startDecoders()
        return { try await play(with: decoders) }
    }

    private func play(with decoders: any WorkerLauncher) async throws {
        let found = try VoiceNoteStore(LocalMachine()).find(note)
        let keyboard = TerminalProperties.isTerminal(STDERR_FILENO) ? TerminalDevice().map { SharedKeyboard($0) } : nil
        let player = VoicePlayer(
            note: found, device: device, decoders: decoders, keyboard: keyboard,
            style: ANSIStyle(isEnabled: TerminalProperties.hasColor(STDERR_FILENO)))
        let playback = Playback()
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            if let keyboard { group.addTask { await keyboard.run() } }
            try await SignalHandling.run(onSignal: { playback.stop() }) { try await player.run(playback) }
        }
    }
}
