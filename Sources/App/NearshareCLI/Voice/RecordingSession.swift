internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// Takes one note: records it, or makes it of a file, and lets the person listen, redo or drop it.
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
    }

    /// What was asked for.
    struct Order: Sendable {
        var source: Source
        /// Of microphones and raw samples.
        var rate: Int
        var settings: NoteSettings
        var output: String?
        var duration: Duration?
        var trims: Bool
        var receivers: [String]
        /// The person is asked what to do with it, where there is one.
        var reviews: Bool
    }

    private struct State {
        var recording: Recording?
        var player: Playback?
        /// The process is to end.
        var isTerminated = false
        /// Ctrl-C where nothing is recorded any more.
        var isLeft = false
        var review: AsyncStream<Verdict>.Continuation?
    }

    private enum Verdict: Sendable {
        case take, listen, redo, drop, leave
    }

    private let archive: VoiceArchive
    private let order: Order
    private let isJSON: Bool
    private let isQuiet: Bool
    private let keyboard: SharedKeyboard?
    private let state = Mutex(State())
    private let style = ANSIStyle(isEnabled: TerminalProperties.hasColor(STDERR_FILENO))

    init(archive: VoiceArchive, order: Order, isJSON: Bool, isQuiet: Bool) {
        self.archive = archive
        self.order = order
        self.isJSON = isJSON
        self.isQuiet = isQuiet
        // Keys are read where a person can see what they do.
        keyboard =
            order.source.isMicrophone && TerminalProperties.isTerminal(STDERR_FILENO)
            ? TerminalDevice().map { SharedKeyboard($0) } : nil
    }

    /// - Returns: the note, complete and kept; nil when the person has dropped it.
    /// - Throws: also when it was ended by a signal or a device; the message then says where the note is.
    func take() async throws -> VoiceFacts? {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { for await number in SignalHandling.signals() { self.interrupt(number) } }
            if let keyboard { group.addTask { await keyboard.run() } }
            while true {
                let note = try await record()
                switch try await review(note) {
                case .take: return note
                case .redo: unlink(note.path)
                case .drop:
                    unlink(note.path)
                    say("dropped")
                    return nil
                case .leave, .listen:
                    throw CommandFailure(.interrupted, "not sent; the note is kept in \(shown(note.path))")
                }
            }
        }
    }

    private func interrupt(_ number: Int32) {
        state.withLock { state in
            if number != SIGINT { state.isTerminated = true }
            if let recording = state.recording {
                recording.stop(number == SIGINT ? .interrupted : .terminated)
            } else {
                state.isLeft = true
                state.player?.stop()
                state.review?.yield(.leave)
            }
        }
    }

    // MARK: Recording

    private func record() async throws -> VoiceFacts {
        let file = try createFile()
        let recording = Recording(trims: order.trims, maximumDuration: order.duration)
        state.withLock { $0.recording = recording }
        defer { state.withLock { $0.recording = nil } }
        let result: Recording.Result
        do {
            result = try await withThrowingTaskGroup(of: Void.self) { group in
                defer {
                    group.cancelAll()
                    StatusDisplay.shared.show([])
                }
                group.addTask { await self.draw(recording) }
                if let keyboard { group.addTask { await self.steer(recording, by: keyboard.keys()) } }
                return try await BlockingThread.run { try self.run(recording, into: file) }
            }
        } catch {
            unlink(file.path)
            throw error
        }
        return try conclude(result, file)
    }

    private func run(_ recording: Recording, into file: NoteFile) throws -> Recording.Result {
        var settings = order.settings
        let input: any AudioInput
        var system = "file"
        switch order.source {
        case .microphone(let device):
            let audio = try LinuxAudio.make(for: device)
            guard let format = AudioFormat(rate: order.rate, channels: 1) else {
                throw CommandFailure(.usage, "--rate goes from 8000 to 192000 samples a second")
            }
            input = try audio.openInput(device: LinuxAudio.bareName(device), format: format)
            system = audio.title
            if keyboard == nil { say("recording through \(TerminalText.escaped(system)); Ctrl-C ends it") }
        case .file(let path): input = try SoundFileInput(NoteFile.open(path))
        case .pipe(let descriptor): input = try SoundFileInput(PipeSpooler.spool(descriptor))
        case .rawFile(let path): input = try RawSampleInput(file: NoteFile.open(path), rate: order.rate)
        case .rawSamples(let descriptor): input = try RawSampleInput(descriptor: descriptor, rate: order.rate)
        }
        // Nothing is lost with the process where the source is still there.
        if !order.source.isMicrophone { settings.lookAhead = 2 }
        defer { input.close() }
        return try recording.run(from: input, into: file, settings: settings) {
            guard isJSON else { return }
            JSONEvents.emit(
                "recording",
                [
                    "path": .text(file.path), "rate": .number(UInt64(input.format.rate)),
                    "bitrate": .number(UInt64(settings.bitrate)), "system": .text(system),
                    "limit": JSONValue(settings.limit?.byteCount),
                ])
        }
    }

    private func createFile() throws -> NoteFile {
        guard let output = order.output else { return try archive.create(at: order.settings.recorded ?? SystemClock.wall()) }
        guard let file = try NoteFile.create(output) else {
            throw CommandFailure(.failure, "\(shown(output)) is there already; name another file, or remove that one")
        }
        return file
    }

    private func draw(_ recording: Recording) async {
        guard !isQuiet, TerminalProperties.isTerminal(STDERR_FILENO) else { return }
        while !Task.isCancelled {
            let columns = TerminalProperties.size(of: STDERR_FILENO).columns
            let now = recording.snapshot
            StatusDisplay.shared.show(
                order.source.isMicrophone
                    ? VoiceScreen.recorder(now, columns: columns, style: style)
                    : ["encoding  \(now.elapsed.asClock)  \(now.byteCount.asByteCount)"])
            try? await Task.sleep(for: .milliseconds(50))
        }
    }

    private func steer(_ recording: Recording, by keys: AsyncStream<TerminalKey>) async {
        for await key in keys {
            for key in VoiceKey.all(in: key) {
                switch key {
                case .space: recording.togglePause()
                case .enter: recording.stop(.requested)
                default: break
                }
            }
        }
    }

    /// Says what the person has to know of how it ended.
    private func conclude(_ result: Recording.Result, _ file: NoteFile) throws -> VoiceFacts {
        let lengthText = result.duration.asClock
        if result.isEmpty {
            unlink(file.path)
            switch result.reason {
            case .failed(let error): throw CommandFailure(error)
            case .terminated: throw CommandFailure(.interrupted, "ended before anything was said")
            default:
                throw CommandFailure(
                    .failure,
                    result.recorded == .zero
                        ? "nothing was recorded"
                        : "nothing but silence was heard; is it the right microphone (--list-devices), and is it switched on? "
                            + "--no-trim keeps silence")
            }
        }
        let note = try VoiceFacts(path: file.path)
        if isJSON {
            JSONEvents.emit(
                "recorded",
                note.json.merging(["ending": .text(result.reason.word), "lost_samples": .number(result.lostFrames)]) { $1 })
        }
        if result.lostFrames > 0 {
            Console.complain("\(result.lostFrames) samples were lost on the way from the device; silence stands in their place")
        }
        switch result.reason {
        case .failed(let error):
            Console.complain("\(error)")
            let kept = "what was said until then, \(lengthText), is kept in \(shown(file.path))"
            // Somebody who is there decides what becomes of it; a script has to notice.
            guard canAsk else { throw CommandFailure(CommandFailure(error).status, kept) }
            Console.complain(kept)
        case .terminated:
            throw CommandFailure(
                .interrupted, "ended by a signal; what was said, \(lengthText), is kept in \(shown(file.path))")
        case .limit:
            say("that is what fits into \(order.settings.limit?.byteCount.asByteCount ?? ""), \(lengthText); all of it is kept")
        case .requested, .interrupted, .duration, .sourceEnded: break
        }
        let trimmed = result.recorded - result.duration
        let remark = trimmed >= .seconds(1) ? "; \(trimmed.asClock) of silence left out" : ""
        say("voice note, \(lengthText), \(note.summary.byteCount.asByteCount)\(remark)")
        return note
    }

    // MARK: Afterwards

    private var canAsk: Bool { order.reviews && keyboard != nil }

    private func review(_ note: VoiceFacts) async throws -> Verdict {
        guard canAsk, let keyboard else { return .take }
        while true {
            let verdict = await ask(about: note, keyboard)
            guard verdict == .listen else { return verdict }
            let playback = Playback()
            state.withLock { $0.player = playback }
            defer { state.withLock { $0.player = nil } }
            do {
                try await VoicePlayer(note: note, device: nil, keyboard: keyboard, style: style).run(playback)
            } catch {
                // Without a loudspeaker the note can be sent all the same.
                Console.complain(CommandFailure(error).message)
            }
            if state.withLock({ $0.isLeft }) { return .leave }
        }
    }

    private func ask(about note: VoiceFacts, _ keyboard: SharedKeyboard) async -> Verdict {
        let (verdicts, continuation) = AsyncStream.makeStream(of: Verdict.self)
        let isOver = state.withLock { state in
            state.review = continuation
            return state.isLeft || state.isTerminated
        }
        if isOver { return .leave }
        defer {
            state.withLock { $0.review = nil }
            StatusDisplay.shared.show([])
        }
        return await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                while !Task.isCancelled {
                    StatusDisplay.shared.show(self.question(note))
                    try? await Task.sleep(for: .milliseconds(200))
                }
            }
            group.addTask {
                for await key in keyboard.keys() {
                    for key in VoiceKey.all(in: key) {
                        switch key {
                        case .enter, .letter("s"), .letter("k"): continuation.yield(.take)
                        case .letter("l"), .space: continuation.yield(.listen)
                        case .letter("r"): continuation.yield(.redo)
                        case .letter("d"): continuation.yield(.drop)
                        default: break
                        }
                    }
                }
                // The terminal is gone; nobody can be asked any more.
                if !Task.isCancelled { continuation.yield(.leave) }
            }
            for await verdict in verdicts { return verdict }
            return .leave
        }
    }

    private func question(_ note: VoiceFacts) -> [String] {
        let columns = TerminalProperties.size(of: STDERR_FILENO).columns
        let receivers = order.receivers.map { TerminalText.escaped($0, columns: 24) }.joined(separator: ", ")
        let isKept = order.receivers.isEmpty
        let words = "[l]isten · [r]edo · [d]rop"
        let choices = [
            isKept ? "[k]eep · \(words)" : "[s]end to \(receivers) · \(words)", isKept ? "k l r d" : "[s]end · \(words)",
            "s l r d",
        ]
        let fitting = choices.first { TerminalText.width(of: $0) < columns } ?? ""
        return VoiceScreen.summary(note, columns: columns, style: style) + [fitting]
    }

    private func say(_ line: String) {
        if !isQuiet { Console.say(line) }
    }

    private func shown(_ path: String) -> String { TerminalText.escaped(path, columns: 4096) }
}

extension RecorderMachine.StopReason {
    /// One word for scripts.
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
