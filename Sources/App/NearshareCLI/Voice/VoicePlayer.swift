internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal

/// Plays a note; on a terminal, with a status display and keys.
struct VoicePlayer: Sendable {
    let note: VoiceNote
    let device: String?
    let decoders: any WorkerLauncher
    let keyboard: SharedKeyboard?
    let style: ANSIStyle

    func run(_ playback: Playback) async throws {
        // After the tasks have ended, so that none of them draws again.
        defer { StatusDisplay.shared.show([]) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            if let keyboard {
                // Before anything is drawn, so that no key is lost.
                let keys = keyboard.keys()
                group.addTask { await VoiceDisplay.run(playback.changes()) { lines(playback) } }
                group.addTask { await control(playback, by: keys) }
            }
            try await BlockingThread.run { Result { try play(playback) } }.get()
        }
    }

    private func play(_ playback: Playback) throws {
        let reader = try IsolatedNoteReader(NoteFile.open(note.path), by: decoders)
        let audio = try LinuxAudio.make(for: device)
        let output = try audio.openOutput(device: LinuxAudio.bareName(device), format: reader.format)
        defer { output.close() }
        _ = try playback.run(reader, on: output)
    }

    private func lines(_ playback: Playback) -> [String] {
        VoiceScreen.player(
            playback.snapshot, note, title: note.title, columns: TerminalProperties.size(of: STDERR_FILENO).columns,
            style: style)
    }

    private func control(_ playback: Playback, by keys: AsyncStream<TerminalKey>) async {
        for await key in keys {
            if key == .control("l") { StatusDisplay.shared.show(lines(playback)) }
            for key in VoiceKey.all(in: key) {
                switch key {
                case .space: playback.togglePause()
                case .left: playback.skip(Duration.zero - Self.step)
                case .right: playback.skip(Self.step)
                case .character("q"), .enter: playback.stop()
                default: break
                }
            }
        }
    }

    /// Skipped by an arrow key.
    private static let step = Duration.seconds(5)
}
