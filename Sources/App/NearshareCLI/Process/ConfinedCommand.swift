internal import ArgumentParser
internal import Nearshare
internal import NearshareAudio
internal import NearshareSandbox
internal import NearshareService

/// A command that confines its process, or starts a helper process, while it has one thread: Landlock restricts a thread and
/// those that it starts, and a process with several threads cannot be forked safely.
protocol ConfinedCommand: AsyncParsableCommand {
    /// Prepares the process.
    /// - Returns: the rest of the command.
    func prepare() throws -> @Sendable () async throws -> Void
}

/// Starts the helper process of a command that decodes sound.
func startDecoders() throws -> any WorkerLauncher {
    try startHelper([
        .decodeNote: IsolatedNoteReader.routine, .decodeSoundFile: IsolatedSoundFileInput.routine,
    ])
}

/// Starts a helper process. Called while the program has one thread.
func startHelper(_ routines: [WorkerJob: WorkerRoutine]) throws -> HelperProcess {
    do throws(SystemCallError) {
        return try HelperProcess.start(routines)
    } catch {
        throw CommandFailure(.failure, "could not start a helper process: \(systemErrorText(error.code))")
    }
}
