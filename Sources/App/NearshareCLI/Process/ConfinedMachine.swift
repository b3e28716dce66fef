internal import Logging
internal import Nearshare
internal import NearshareAudio
internal import NearshareSandbox

/// This machine, for a process that has dropped its privileges, and the helper process that does what it no longer may.
struct ConfinedMachine {
    let machine: LocalMachine
    /// Detects media types, moves accepted items into the inbox, and decodes voice notes.
    let helper: any WorkerLauncher

    /// The terminal, for questions, and the null device.
    private static let devices = ["/dev/tty", "/dev/null"]
    /// The devices of ALSA.
    private static let soundDevices = "/dev/snd"

    /// Starts the helper process, and confines this one. It must have one thread: Landlock restricts only the calling thread and
    /// those that it starts.
    /// - Parameters:
    ///   - options: may keep the process unconfined.
    ///   - inbox: the path that the user has given.
    ///   - createsInbox: whether a missing inbox is created. A command that uses the running node, which may have another inbox,
    ///     creates none, unless it writes there itself.
    ///   - recordsVoice: whether notes are recorded and played.
    ///   - log: receives a warning for each feature that the kernel lacks.
    init(
        _ options: SandboxOptions, inbox path: String? = nil, createsInbox: Bool = false, recordsVoice: Bool = false,
        log: Logger
    ) throws {
        let machine = try LocalMachine()
        let inbox = try machine.inbox(path, limits: InboxLimits())
        // A failure is reported when the inbox is used.
        if createsInbox { try? inbox.prepare() }
        // Creates the runtime directory while that is still allowed.
        _ = try machine.makeControlSocketDirectory()
        if recordsVoice { try StateDirectory.makeDirectories(machine.directories.data) }
        if !options.noSandbox, let problem = Confinement.restrictSystemCalls() {
            log.warning("system calls of this process are not restricted: \(problem)")
        }
        let helper = try startHelper([
            .detectMediaType: MediaTypeDetector.routine, .deliverPending: inbox.deliveryRoutine,
            .decodeNote: IsolatedNoteReader.routine,
        ])
        let directories = machine.directories
        let paths = [inbox.path, directories.state, directories.runtime] + (recordsVoice ? [directories.data] : [])
        let devices = Self.devices + (recordsVoice ? [Self.soundDevices] : [])
        if !options.noSandbox, let problem = Confinement.restrictFiles(toWriting: paths, usingDevices: devices) {
            log.warning("this process can write to all of your files: \(problem)")
        }
        self.machine = LocalMachine(machine, launcher: helper) { log.warning("\($0)") }
        self.helper = helper
    }
}
