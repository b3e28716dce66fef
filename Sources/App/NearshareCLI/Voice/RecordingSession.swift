internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// One voice note from recording, or encoding of a file, to the user's decision to send, play, repeat or drop it.
final class RecordingSession: Sendable {
    enum Source: Sendable {
        case microphone(String?)
        case file(String)
        case pipe(Int32)
        case rawFile(String)
        case rawSamples(Int32)

        var isMicrophone: Bool {
            if case .microphone = self { return true }
            return false
        }

        /// The name of an input that is encoded, escaped; nil for a microphone.
        var inputName: String? {
            switch self {
            case .microphone: nil
            case .file(let path), .rawFile(let path): TerminalText.path(path)
            case .pipe, .rawSamples: "standard input"
            }
        }
    }

    /// The user's request.
    struct Parameters: Sendable {
        var source: Source
        /// Sample rate of microphones and raw samples, in Hz.
        var rate: Int
        var settings: NoteSettings
        var output: String?
        var duration: Duration?
        var isTrimmed: Bool
        var receivers: [String]
        /// Whether the user decides about the note, if there is a terminal.
        var needsReview: Bool
        /// The sentence about the receiver whose limit is that of the note; nil for the user's own limit.
        var receiverLimit: String?
        /// The command or option that sends a recording of another program, where there is no microphone.
        var fileAdvice = "`--input FILE`"
    }

    private struct State {
        var recording: Recording?
        var player: Playback?
        /// A termination signal has arrived.
        var isTerminated = false
        /// Ctrl-C after the recording.
        var isLeft = false
        var review: AsyncStream<Decision>.Continuation?
    }

    private enum Decision: Sendable {
        case accept, play, redo, drop, quit
    }

    private let store: VoiceNoteStore
    private let parameters: Parameters
    private let decoders: any WorkerLauncher
    private let reporter: any CommandReporter
    private let isQuiet: Bool
    private let keyboard: SharedKeyboard?
    private let state = Mutex(State())
    private let style = ANSIStyle(isEnabled: TerminalProperties.hasColor(STDERR_FILENO))

    init(
        store: VoiceNoteStore, parameters: Parameters, decoders: any WorkerLauncher, reporter: any CommandReporter,
        isQuiet: Bool
    ) {
        self.store = store
        self.decoders = decoders
        self.parameters = parameters
        self.reporter = reporter
        self.isQuiet = isQuiet
        // Keys are read only where their effect is visible.
        keyboard =
            parameters.source.isMicrophone && TerminalProperties.isTerminal(STDERR_FILENO)
            ? TerminalDevice().map { SharedKeyboard($0) } : nil
    }

    /// - Returns: the stored note; nil when the user has dropped it.
    /// - Throws: ``CommandFailure``; after a signal or a device failure its message names the file with the recording.
    func run() async throws -> VoiceNote? {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { for await number in SignalHandling.signals() { self.interrupt(number) } }
            if let keyboard { group.addTask { await keyboard.run() } }
            while true {
                let note = try await record()
                switch try await review(note) {
                case .accept: return note
                case .redo: unlink(note.path)
                case .drop:
                    unlink(note.path)
                    say("dropped")
                    return nil
                case .quit, .play:
                    throw CommandFailure(.interrupted, "not sent; the note is kept in \(shown(note.path))")
                }
            }
        }
    }

    private func interrupt(_ number: Int32) {
        state.withLock { state in
            if number != SIGINT { state.isTerminated = true }
            if let recording = state.recording {
                // The note is complete, and the user has not been asked about it yet.
                if recording.snapshot.isFinished { state.isLeft = true }
                recording.stop(number == SIGINT ? .interrupted : .terminated)
            } else {
                state.isLeft = true
                state.player?.stop()
                state.review?.yield(.quit)
            }
        }
    }

    // MARK: Recording

    private func record() async throws -> VoiceNote {
        let file = try createFile()
        let recording = Recording(trims: parameters.isTrimmed, maximumDuration: parameters.duration)
        state.withLock { $0.recording = recording }
        defer { state.withLock { $0.recording = nil } }
        let result: Recording.Result
        do {
            // After the tasks have ended, so that none of them draws again.
            defer { StatusDisplay.shared.show([]) }
            result = try await withThrowingTaskGroup(of: Void.self) { group in
                defer { group.cancelAll() }
                // Before anything is drawn, so that no key is lost.
                if let keys = keyboard?.keys() { group.addTask { await self.control(recording, by: keys) } }
                group.addTask { await self.draw(recording) }
                return try await BlockingThread.run { Result { try self.run(recording, into: file) } }.get()
            }
        } catch {
            guard file.size > 0 else {
                unlink(file.path)
                throw error
            }
            let failure = CommandFailure(error)
            throw CommandFailure(
                failure.status, "\(failure.message); the recording until then is kept in \(shown(file.path))")
        }
        return try conclude(result, file)
    }

    private func run(_ recording: Recording, into file: NoteFile) throws -> Recording.Result {
        var settings = parameters.settings
        let input: any AudioInput
        var system = "file"
        switch parameters.source {
        case .microphone(let device):
            (input, system) = try openMicrophone(device)
            if keyboard == nil { say("recording from \(TerminalText.escaped(system)); Ctrl-C ends the recording") }
        case .file(let path): input = try IsolatedSoundFileInput(NoteFile.open(path), by: decoders)
        case .pipe(let descriptor):
            guard let spooled = try PipeSpooler.spool(descriptor, until: recording.stopping) else {
                throw CommandFailure(.interrupted, "ended before all of standard input was read")
            }
            input = try IsolatedSoundFileInput(spooled, by: decoders)
        case .rawFile(let path): input = try RawSampleInput(file: NoteFile.open(path), rate: parameters.rate)
        case .rawSamples(let descriptor):
            input = try RawSampleInput(descriptor: descriptor, rate: parameters.rate, wakeup: recording.stopping)
        }
        // A crash loses nothing while the source file exists.
        if !parameters.source.isMicrophone { settings.lookAhead = 2 }
        defer { input.close() }
        return try recording.run(from: input, into: file, settings: settings) {
            reporter.emit(
                "recording",
                [
                    "path": .string(file.path), "rate": .number(UInt64(input.format.rate)),
                    "bitrate": .number(UInt64(settings.bitrate)), "system": .string(system),
                    "limit": JSONValue(settings.limit?.byteCount),
                ]
            ) {}
        }
    }

    private func openMicrophone(_ device: String?) throws -> (input: any AudioInput, system: String) {
        guard let format = AudioFormat(rate: parameters.rate, channels: 1) else {
            throw CommandFailure(.usage, "--rate goes from 8000 to 192000 samples a second")
        }
        do throws(AudioError) {
            return try LinuxAudio.openMicrophone(device, format: format)
        } catch {
            guard error.code == .unavailable, device == nil else { throw error }
            throw AudioError(
                .unavailable, "\(error.description); \(parameters.fileAdvice) sends a recording of another program")
        }
    }

    /// Throws what would keep ``run()`` from recording or reading anything, before other work is done for it.
    func checkSource() async throws {
        if let output = parameters.output, access(output, F_OK) == 0 { throw exists(output) }
        try await BlockingThread.run {
            Result {
                switch self.parameters.source {
                case .microphone(let device): try self.openMicrophone(device).input.close()
                case .file(let path): try IsolatedSoundFileInput(NoteFile.open(path), by: self.decoders).close()
                case .rawFile(let path): try RawSampleInput(file: NoteFile.open(path), rate: self.parameters.rate).close()
                // Can be read once.
                case .pipe, .rawSamples: break
                }
            }
        }.get()
    }

    private func exists(_ output: String) -> CommandFailure {
        CommandFailure(.failure, "\(shown(output)) already exists; choose another file, or remove it")
    }

    private func createFile() throws -> NoteFile {
        guard let output = parameters.output else {
            return try store.createFile(recordedAt: parameters.settings.recorded ?? SystemClock.wall())
        }
        guard let file = try NoteFile.create(output) else { throw exists(output) }
        return file
    }

    private func draw(_ recording: Recording) async {
        guard !isQuiet, TerminalProperties.isTerminal(STDERR_FILENO) else { return }
        await VoiceDisplay.run(recording.changes()) { self.lines(recording) }
    }

    private func lines(_ recording: Recording) -> [String] {
        let now = recording.snapshot
        guard parameters.source.isMicrophone else {
            return ["encoding  \(now.elapsed.asClock)  \(now.byteCount.formattedByteCount)"]
        }
        return VoiceScreen.recorder(now, columns: TerminalProperties.size(of: STDERR_FILENO).columns, style: style)
    }

    private func control(_ recording: Recording, by keys: AsyncStream<TerminalKey>) async {
        for await key in keys {
            if key == .control("l"), !isQuiet { StatusDisplay.shared.show(lines(recording)) }
            for key in VoiceKey.all(in: key) {
                switch key {
                case .space: recording.togglePause()
                case .enter: recording.stop(.requested)
                default: break
                }
            }
        }
    }

    /// Reports how the recording ended.
    private func conclude(_ result: Recording.Result, _ file: NoteFile) throws -> VoiceNote {
        let conclusion: RecordingConclusion
        do throws(CommandFailure) {
            conclusion = try RecordingConclusion(
                of: result, at: file.path, limit: parameters.settings.limit, receiverLimit: parameters.receiverLimit,
                input: parameters.source.inputName, isReviewed: canAsk)
        } catch {
            unlink(file.path)
            throw error
        }
        let note = try VoiceNote(path: file.path)
        reporter.emit(
            "recorded",
            note.json.merging(["ending": .string(result.reason.word), "lost_samples": .number(result.lostFrames)]) { $1 }
        ) {}
        for warning in conclusion.warnings { Console.warn(warning) }
        if let failure = conclusion.failure { throw failure }
        for notice in conclusion.notices { say(notice) }
        let trimmed = result.recorded - result.duration
        let remark = trimmed >= .seconds(1) ? "; \(trimmed.asClock) of silence removed" : ""
        say("voice note, \(result.duration.asClock), \(note.summary.byteCount.formattedByteCount)\(remark)")
        return note
    }

    // MARK: Review

    private var canAsk: Bool { parameters.needsReview && keyboard != nil }

    private func review(_ note: VoiceNote) async throws -> Decision {
        if state.withLock({ $0.isLeft || $0.isTerminated }) { return .quit }
        guard canAsk, let keyboard else { return .accept }
        while true {
            let decision = await ask(about: note, keyboard)
            guard decision == .play else { return decision }
            let playback = Playback()
            state.withLock { $0.player = playback }
            defer { state.withLock { $0.player = nil } }
            do {
                try await VoicePlayer(note: note, device: nil, decoders: decoders, keyboard: keyboard, style: style)
                    .run(playback)
            } catch {
                // The note can be sent even if it cannot be played.
                Console.warn(CommandFailure(error).message)
            }
            if state.withLock({ $0.isLeft }) { return .quit }
        }
    }

    private func ask(about note: VoiceNote, _ keyboard: SharedKeyboard) async -> Decision {
        let (decisions, continuation) = AsyncStream.makeStream(of: Decision.self)
        let isOver = state.withLock { state in
            state.review = continuation
            return state.isLeft || state.isTerminated
        }
        if isOver { return .quit }
        defer {
            state.withLock { $0.review = nil }
            StatusDisplay.shared.show([])
        }
        // Before the question is shown, so that no answer is lost.
        let keys = keyboard.keys()
        return await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { await VoiceDisplay.run(AsyncStream { $0.finish() }) { self.question(note) } }
            group.addTask {
                for await key in keys {
                    if key == .control("l") { StatusDisplay.shared.show(self.question(note)) }
                    for key in VoiceKey.all(in: key) {
                        switch key {
                        case .enter, .character("s"), .character("k"): continuation.yield(.accept)
                        case .character("l"), .space: continuation.yield(.play)
                        case .character("r"): continuation.yield(.redo)
                        case .character("d"): continuation.yield(.drop)
                        default: break
                        }
                    }
                }
                // The terminal is closed.
                if !Task.isCancelled { continuation.yield(.quit) }
            }
            for await decision in decisions { return decision }
            return .quit
        }
    }

    private func question(_ note: VoiceNote) -> [String] {
        let columns = TerminalProperties.size(of: STDERR_FILENO).columns
        let receivers = parameters.receivers.map { TerminalText.escaped($0, columns: 24) }.joined(separator: ", ")
        let isKept = parameters.receivers.isEmpty
        let words = "[l]isten · [r]edo · [d]rop"
        let choices = [
            isKept ? "[k]eep · \(words)" : "[s]end to \(receivers) · \(words)", isKept ? "k l r d" : "[s]end · \(words)",
            "s l r d",
        ]
        let fitting = choices.first { TerminalText.width(of: $0) < columns } ?? ""
        return VoiceScreen.summary(note, columns: columns, style: style) + [fitting]
    }

    private func say(_ line: String) {
        if !isQuiet { Console.notice(line) }
    }

    private func shown(_ path: String) -> String { TerminalText.path(path) }
}

extension RecorderMachine.StopReason {
    /// The JSON value of the ending.
    var word: String {
        switch self {
        case .requested: "asked"
        case .interrupted: "interrupted"
        case .terminated: "terminated"
        case .duration: "duration"
        case .limit: "limit"
        case .sourceEnded: "source-ended"
        case .failed(let error): error.code == .noSpace ? "disk-full" : error.code == .deviceGone ? "device-gone" : "failed"
        }
    }
}
