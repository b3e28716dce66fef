internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// Drives a ``ChatScreen``: connects it to a terminal and a node.
final class ChatTerminal: Sendable {
    private enum Input: Sendable {
        case screen(ChatScreen.Input)
        /// An event of the node, which peers can cause. The next one is read once `isHandled` is fulfilled.
        case nodeEvent(ControlEvent, isHandled: Promise<Void>)
        /// Bytes from the keyboard; empty when a lone Escape can be decoded.
        case keyboardBytes([UInt8])
        /// A line that was typed on a terminal without cursor movement.
        case line(String)
        /// The user has ended the input with Ctrl-D.
        case inputEnded
        case resized
        case draw
        /// The recorder or player of voice notes, or a picture, has released the terminal.
        case terminalReturned
        /// A signal, or the terminal is closed.
        case interrupted
        /// The node's event stream has ended.
        case nodeEnded
        /// The time for pending requests after quitting has expired.
        case quitTimeout
    }

    private let client: any NodeClient
    private let machine: LocalMachine
    /// The only network interface that the command uses; nil for the configured one, or all.
    private let interface: String?
    private let decoders: any WorkerLauncher
    /// nil for plain lines.
    private let pictures: PictureViewer?
    private let terminal: TerminalDevice
    private let keyboard: KeyboardReader
    /// Reads whole lines, for a terminal without cursor movement, which shows plain lines; nil for the full screen.
    private let lineReader: LineReader?
    /// Whether Ctrl-D does not end a chat of plain lines.
    private let follows: Bool
    private let completion: PathCompletion
    /// The screen's state, kept while another node takes over.
    private let savedScreen: Monitor<ChatScreen>
    /// Set when the user wants everything removed after the command has ended.
    private let wantsErasure: Monitor<Bool>
    /// Unbounded, since all that peers cause comes through ``forward(_:)``: the rest is from the keyboard, or replies to a request.
    private let inputs: AsyncStream<Input>
    private let sink: AsyncStream<Input>.Continuation

    /// Minimum time between two frames.
    private static let drawInterval = Duration.milliseconds(33)
    /// Time for pending requests after the user has quit.
    private static let quitTimeout = Duration.seconds(2)
    /// Plain lines have no last row.
    private static let plainRowCount = 10_000
    private static let pictureAdvice = "this terminal shows no pictures; use `nearshare inbox open`"
    private static let voiceAdvice = "not available in plain lines; use `nearshare voice`"

    /// - Parameters:
    ///   - screen: a new screen, or that of an earlier node; saved when this node stops.
    ///   - wantsErasure: set when the user wants everything removed.
    ///   - lineReader: for plain lines; nil for the full screen.
    ///   - follows: whether a chat of plain lines goes on after Ctrl-D.
    init(
        client: any NodeClient, machine: LocalMachine, interface: String?, decoders: any WorkerLauncher,
        pictures: PictureViewer?, terminal: TerminalDevice,
        keyboard: KeyboardReader, screen: Monitor<ChatScreen>, wantsErasure: Monitor<Bool>, lineReader: LineReader? = nil,
        follows: Bool = false
    ) {
        (self.lineReader, self.follows) = (lineReader, follows)
        completion = PathCompletion(hasTabKey: lineReader == nil)
        self.wantsErasure = wantsErasure
        self.client = client
        (self.machine, self.interface) = (machine, interface)
        (self.decoders, self.pictures) = (decoders, pictures)
        self.terminal = terminal
        self.keyboard = keyboard
        savedScreen = screen
        (inputs, sink) = AsyncStream.makeStream(of: Input.self)
    }

    private enum EndReason {
        case quit
        /// A signal, or a closed terminal.
        case interrupted
        case nodeEnded
    }

    /// Runs until the user quits or the terminal closes, and then restores the terminal.
    /// - Throws: ``ControlFailure`` when the node in another process has stopped; the terminal stays in full-screen mode for
    ///   the next node.
    func run() async throws {
        let events = try await client.events()
        let offers = await subscribeToOffers()
        let (submissions, submissionSink) = AsyncStream.makeStream(of: (ControlRequest, ChatScreen.RequestTag).self)
        if lineReader == nil {
            Console.fullScreenMessageHandler.withLock { $0 = .init { [sink] in sink.yield(.screen(.event(.notice($0)))) } }
            FullScreen.enter(terminal)
        }
        let (endReason, screen, unsent, unhandledLines) = await withDiscardingTaskGroup { group in
            group.addTask { [self] in
                for await event in events { await forward(event) }
                if !Task.isCancelled { sink.yield(.nodeEnded) }
            }
            group.addTask { [self] in for await event in offers { await forward(.receiving(event)) } }
            group.addTask { [self] in
                for await _ in SignalHandling.terminations() { sink.yield(.interrupted) }
            }
            group.addTask { [sink] in for await _ in Signals.stream([SIGWINCH]) { sink.yield(.resized) } }
            let network = savedScreen.withLock(\.network)
            group.addTask { [machine, interface, sink] in
                await NetworkNotice(on: machine, interface: interface, known: network) { sink.yield(.screen(.network($0))) }?
                    .run()
            }
            // One after the other, so that lines keep their order.
            group.addTask { [self] in for await (request, tag) in submissions { await submit(request, tag) } }
            let last = await handleInputs(&group, submissionSink)
            submissionSink.finish()
            group.cancelAll()
            return last
        }
        switch endReason {
        case .quit:
            guard unsent.isEmpty || wantsErasure.withLock({ $0 }) else {
                throw CommandFailure(.failure, unsent.joined(separator: "; "))
            }
        case .interrupted: throw CommandFailure(.interrupted, unsent.joined(separator: "; "))
        case .nodeEnded:
            savedScreen.withLock { $0 = screen }
            await putBackLines(after: unhandledLines)
            throw ControlFailure(.gone, "the node has stopped")
        }
    }

    /// Leaves the lines that were typed while the node ended to the next one.
    private func putBackLines(after earlierLines: [String]) async {
        sink.finish()
        var lines = earlierLines
        for await input in inputs { if case .line(let line) = input { lines.append(line) } }
        lineReader?.putBack(lines)
    }

    /// Waits until an event of the node is handled. While the terminal accepts no output, as after Ctrl-S, events wait in the node's
    /// stream, which is bounded and drops the oldest.
    private func forward(_ event: ControlEvent) async {
        let isHandled = Promise<Void>()
        sink.yield(.nodeEvent(event, isHandled: isHandled))
        _ = await isHandled.value
    }

    /// Subscribes to the node's questions about offers. A node that receives nothing has none.
    private func subscribeToOffers() async -> AsyncStream<ReceiveEvent> {
        (try? await client.receiveEvents()) ?? AsyncStream { $0.finish() }
    }

    /// The state of ``run()`` between inputs.
    private struct RunState {
        var screen: ChatScreen
        var decoder = TerminalInput(maximumPasteByteCount: ChatMessage.maximumTextByteCount + 1)
        /// nil when all rows have to be drawn.
        var drawnFrame: ScreenFrame?
        var lastDrawn: MonotonicInstant?
        var isDrawPlanned = false
        /// Set when the command ends as soon as no request is pending.
        var endReason: EndReason?
        /// Whether the recorder or player of voice notes, or a picture, uses the terminal.
        var isTerminalReleased = false
        /// The reason to end once the terminal has returned.
        var endReasonAfterRelease: EndReason?
        /// Whether the command ends without waiting for pending requests.
        var isFinished = false
        var pendingCount = 0
        var sentFiles = SentFiles()
        /// The paths of the voice notes that were recorded here.
        var recordedNotes: Set<String> = []
        /// Failures after the user had quit or was interrupted, which no screen shows.
        var unsent: [String] = []
        /// Plain lines that were typed after the node had ended.
        var unhandledLines: [String] = []
    }

    private func handleInputs(
        _ group: inout DiscardingTaskGroup, _ submissions: AsyncStream<(ControlRequest, ChatScreen.RequestTag)>.Continuation
    ) async -> (EndReason, ChatScreen, unsent: [String], unhandledLines: [String]) {
        var state = RunState(screen: savedScreen.withLock { $0 })
        readInput(&group)
        var reactions = state.screen.handle(.resized(size), at: now)
        reactions += state.screen.hasStarted ? state.screen.handle(.nodeReplaced, at: now) : state.screen.start(at: now)
        for reaction in reactions { await perform(reaction, &state, in: &group, submittingTo: submissions) }
        sink.yield(.draw)
        for await input in inputs {
            // Reactions cause new inputs, never further reactions.
            for reaction in handle(input, &state, &group) where !state.isFinished {
                await perform(reaction, &state, in: &group, submittingTo: submissions)
            }
            if state.isFinished || (state.endReason != nil && state.pendingCount == 0) { break }
            draw(&state, &group)
            if case .nodeEvent(_, let isHandled) = input { isHandled.fulfil() }
        }
        keyboard.setHandler(nil)
        if lineReader != nil { writeLines(&state) }
        if state.endReason != .nodeEnded {
            await keyboard.stop()
            // Restores the terminal before pending requests end.
            FullScreen.leave()
        }
        state.unsent += state.screen.unsentLines
        if state.pendingCount > 0 {
            state.unsent.append("the node has not confirmed what was sent last")
            // Ends the wait for replies of a node that hangs.
            client.close()
        }
        return (state.endReason ?? .quit, state.screen, state.unsent, state.unhandledLines)
    }

    private func readInput(_ group: inout DiscardingTaskGroup) {
        if let lineReader {
            group.addTask { [sink] in
                while let line = await lineReader.next() { sink.yield(.line(line)) }
                if !Task.isCancelled { sink.yield(.inputEnded) }
            }
            return
        }
        keyboard.start()
        keyboard.setHandler { [sink] event in
            switch event {
            case .bytes(let bytes): sink.yield(.keyboardBytes(bytes))
            case .closed: sink.yield(.interrupted)
            }
        }
    }

    private var size: TerminalSize {
        let size = terminal.size
        return lineReader == nil ? size : TerminalSize(columns: size.columns, rows: Self.plainRowCount)
    }

    private func handle(_ input: Input, _ state: inout RunState, _ group: inout DiscardingTaskGroup) -> [ChatScreen.Reaction] {
        switch input {
        case .nodeEvent(let event, _): return handle(.screen(.event(event)), &state, &group)
        case .screen(let event):
            if case .replied(let tag, let result) = event, tag.isOrdered {
                state.pendingCount -= 1
                if state.endReason != nil, case .failure(let failure) = result {
                    // A node that has ended may have stored it.
                    let verb = failure.kind == .gone ? "perhaps not sent" : "not sent"
                    state.unsent.append("\(verb): \(TextLayout.sanitized(failure.description))")
                }
            }
            recordSentFile(event, &state, &group)
            return state.screen.handle(event, at: now)
        case .keyboardBytes(let bytes):
            let keys = bytes.isEmpty ? state.decoder.flush() : state.decoder.receive(bytes)
            return keys.flatMap { state.screen.handle(.key($0), at: now) }
        case .line(let line) where state.endReason == .nodeEnded: state.unhandledLines.append(line)
        // Typed behind /quit, perhaps for the shell.
        case .line where state.endReason != nil: break
        case .line(let line): return state.screen.enter(line: line, at: now)
        // The chat with the next node reads the end again.
        case .inputEnded where state.endReason == .nodeEnded: break
        case .inputEnded:
            if let line = lineReader?.removeUnfinishedLine(), line.contains(where: { !$0.isWhitespace }) {
                state.screen.hold(line)
            }
            return state.screen.handle(
                follows ? .event(.notice("no further lines are read; Ctrl-C ends the chat")) : .inputEnded, at: now)
        case .resized:
            state.drawnFrame = nil
            return state.screen.handle(.resized(size), at: now)
        case .draw: state.isDrawPlanned = false
        case .quitTimeout: state.isFinished = true
        case .terminalReturned:
            keyboard.start()
            (state.isTerminalReleased, state.drawnFrame) = (false, nil)
            switch state.endReasonAfterRelease {
            case .interrupted: return handle(.interrupted, &state, &group)
            case .nodeEnded: return handle(.nodeEnded, &state, &group)
            case .quit, nil: break
            }
        // Recorder and player receive signals themselves; the recorder keeps what it has recorded.
        case .interrupted where state.isTerminalReleased: state.endReasonAfterRelease = .interrupted
        case .nodeEnded where state.isTerminalReleased:
            state.endReasonAfterRelease = state.endReasonAfterRelease ?? .nodeEnded
        case .interrupted:
            state.screen.abandonLines(at: now)
            (state.endReason, state.isFinished) = (.interrupted, true)
        case .nodeEnded:
            if client.isEndFinal { return state.screen.handle(.nodeEnded, at: now) }
            if state.endReason == nil {
                state.endReason = .nodeEnded
                scheduleQuitTimeout(&group)
            }
        }
        return []
    }

    /// Adds a file that this screen has sent to the history, once its transfer has ended.
    private func recordSentFile(_ event: ChatScreen.Input, _ state: inout RunState, _ group: inout DiscardingTaskGroup) {
        let ended: SentFiles.Ended?
        switch event {
        case .recorded(_, .saved(let path)):
            state.recordedNotes.insert(path)
            return
        case .replied(.sendFile(_, let path), .success(.transferAccepted(let id))):
            ended = state.sentFiles.recordReply(.transfer(id), path: path)
        case .event(.transfer(let status)): ended = state.sentFiles.recordStatus(status)
        default: return
        }
        guard let ended else { return }
        let (name, isNote) = (state.screen.contacts[ended.status.peer]?.name, state.recordedNotes.contains(ended.path))
        group.addTask { [machine, sink, time = now] in
            do {
                try ended.record(to: name, isNote: isNote, at: time, on: machine)
            } catch {
                sink.yield(.screen(.event(.notice("\(error)"))))
            }
        }
    }

    private func perform(
        _ reaction: ChatScreen.Reaction, _ state: inout RunState, in group: inout DiscardingTaskGroup,
        submittingTo submissions: AsyncStream<(ControlRequest, ChatScreen.RequestTag)>.Continuation
    ) async {
        switch reaction {
        case .request(let request, let tag) where tag.isOrdered:
            state.pendingCount += 1
            submissions.yield((request, tag))
        case .request(let request, .lookup(let name)):
            group.addTask { [machine, sink] in
                if let trust = try? machine.trust.read() {
                    sink.yield(.screen(.stored(name: name, trust.knownPeers(selectedBy: name))))
                }
                await self.submit(request, .lookup(name))
            }
        case .request(let request, let tag): group.addTask { await self.submit(request, tag) }
        case .sendFile(let path, let peer, let isEncrypted, let tag):
            state.pendingCount += 1
            submitFile(path, for: peer, isEncrypted: isEncrypted, tag, submissions)
        case .listPaths(let path): completePath(path)
        case .export(let conversation, let name): group.addTask { await self.export(conversation, name: name) }
        case .listFiles(let peer, let end):
            group.addTask { [machine, sink] in
                // Without the log only these lines are missing.
                let history = try? TransferHistory(of: machine)
                // Limited first: the texts of messages are read only for those that are listed.
                let items = history?.conversationItems(with: peer, before: end, limit: SharedItem.maximumListedCount) ?? []
                sink.yield(.screen(.files(peer, items.map { SharedItem($0) })))
            }
        case .recall(let peers):
            group.addTask { [machine, sink] in
                // Without the files only the names are missing.
                guard let snapshot = try? ContactDirectory(machine).snapshot() else { return }
                let known = snapshot.contacts(peers.filter { snapshot.knownName(of: $0) != nil })
                let seen = ((try? RecentPeers.read(in: machine.state))?.entries ?? []).filter { entry in
                    peers.contains(entry.id) && !known.contains { $0.id == entry.id }
                }
                let forgotten = seen.map {
                    Contact(id: $0.id, name: $0.name, trustStatus: .new, isNear: false, software: .unknown, hasKeys: false)
                }
                sink.yield(.screen(.remembered(known + forgotten)))
            }
        case .erase:
            wantsErasure.withLock { $0 = true }
            state.endReason = .quit
            scheduleQuitTimeout(&group)
        // Typed ahead, while the terminal is in use already.
        case .record where state.isTerminalReleased, .play where state.isTerminalReleased,
            .showPicture where state.isTerminalReleased:
            break
        case .record(let peer, _) where lineReader != nil:
            sink.yield(.screen(.recorded(peer, .failed(reason: Self.voiceAdvice))))
        case .play(_, let conversation) where lineReader != nil:
            sink.yield(.screen(.playbackFailed(conversation, reason: Self.voiceAdvice)))
        case .record(let peer, let name):
            await keyboard.stop()
            state.isTerminalReleased = true
            // The events of the node are handled meanwhile.
            let limit = state.screen.contacts[peer].flatMap { VoiceNoteReceivers(through: $0).limit }
            group.addTask { await self.recordVoiceNote(for: peer, name: name, limit: limit) }
        case .play(let note, let conversation):
            await keyboard.stop()
            state.isTerminalReleased = true
            group.addTask { await self.playVoiceNote(note, in: conversation) }
        case .showPicture(let name, let conversation):
            guard let pictures else {
                sink.yield(.screen(.pictureFailed(conversation, reason: Self.pictureAdvice)))
                return
            }
            await keyboard.stop()
            state.isTerminalReleased = true
            group.addTask { await self.showPicture(name, in: conversation, by: pictures) }
        case .bell: DescriptorOutput.write("\u{7}", to: terminal.descriptor)
        case .redraw: state.drawnFrame = nil
        case .suspend:
            FullScreen.suspend(terminal)
            state.drawnFrame = nil
            sink.yield(.resized)
        case .quit:
            // The second time quits at once.
            if state.endReason == .quit {
                state.isFinished = true
                return
            }
            state.endReason = .quit
            scheduleQuitTimeout(&group)
        }
    }

    /// Draws what has changed, now or when the last picture has been shown for long enough.
    private func draw(_ state: inout RunState, _ group: inout DiscardingTaskGroup) {
        guard !state.isTerminalReleased else { return }
        let drawTime = SystemClock.monotonic()
        let delay = state.lastDrawn.map { Self.drawInterval - (drawTime - $0) } ?? .zero
        if delay <= .zero, lineReader != nil {
            writeLines(&state)
            state.lastDrawn = drawTime
            state.screen.recordDrawn()
        } else if delay <= .zero {
            let (frame, settings) = (state.screen.render(), state.screen.settings)
            if frame != state.drawnFrame {
                DescriptorOutput.write(
                    frame.encoded(replacing: state.drawnFrame, hasColor: settings.hasColor, hasUTF8: settings.hasUTF8),
                    to: terminal.descriptor)
                (state.drawnFrame, state.lastDrawn) = (frame, drawTime)
            }
            state.screen.recordDrawn()
        } else if !state.isDrawPlanned {
            state.isDrawPlanned = true
            group.addTask { [sink] in
                try? await Task.sleep(for: delay)
                sink.yield(.draw)
            }
        }
    }

    private func writeLines(_ state: inout RunState) {
        for line in state.screen.drainLines(at: now) { Console.writeResult(line, isMessage: true) }
    }

    /// Starts the timeout of pending requests.
    private func scheduleQuitTimeout(_ group: inout DiscardingTaskGroup) {
        group.addTask { [sink] in
            try? await Task.sleep(for: Self.quitTimeout)
            sink.yield(.quitTimeout)
        }
    }

    private var now: WallTime { SystemClock.wall() }

    private func submit(_ request: ControlRequest, _ tag: ChatScreen.RequestTag) async {
        do throws(ControlFailure) {
            sink.yield(.screen(.replied(tag, .success(try await client.submit(request)))))
        } catch {
            sink.yield(.screen(.replied(tag, .failure(error))))
        }
    }

    // MARK: Paths

    // On threads that the end of the chat does not wait for: the file system may not respond.

    /// Submits a file after its path is resolved.
    private func submitFile(
        _ path: String, for peer: PeerID, isEncrypted: Bool, _ tag: ChatScreen.RequestTag,
        _ submissions: AsyncStream<(ControlRequest, ChatScreen.RequestTag)>.Continuation
    ) {
        do throws(ThreadError) {
            _ = try BlockingThread.start { [completion, sink] in
                switch completion.resolve(path) {
                case .success(let path): submissions.yield((.sendFile(path: path, to: peer, isEncrypted: isEncrypted), tag))
                case .failure(let failure): sink.yield(.screen(.replied(tag, .failure(failure))))
                }
            }
        } catch {
            sink.yield(.screen(.replied(tag, .failure(ControlFailure(.unavailable, "\(error)")))))
        }
    }

    private func completePath(_ path: String) {
        // Without a thread there are no completions.
        _ = try? BlockingThread.start { [completion, sink] in
            sink.yield(.screen(.paths(path, completion.paths(beginningWith: path))))
        }
    }

    // MARK: Export

    private func export(_ conversation: Conversation, name: String) async {
        let result: Result<String, ControlFailure>
        do throws(ControlFailure) {
            let inbox = machine.configuration.inbox ?? machine.directories.defaultInbox
            result = .success(
                try await ChatExport(client: client, machine: machine).write(conversation, name: name, to: inbox, at: now))
        } catch {
            result = .failure(error)
        }
        sink.yield(.screen(.exported(conversation, result)))
    }

    // MARK: Voice notes

    /// Runs `body` with the terminal in its usual mode, while Ctrl-C has another meaning.
    private func withTerminalReleased(_ body: () async -> Void) async {
        let handler = Console.fullScreenMessageHandler.withLock { handler in
            defer { handler = nil }
            return handler
        }
        FullScreen.leave()
        await SignalHandling.withoutInterrupt(body)
        FullScreen.enter(terminal)
        Console.fullScreenMessageHandler.withLock { $0 = handler }
        sink.yield(.terminalReturned)
    }

    private func recordVoiceNote(for peer: PeerID, name: String, limit: NoteSizeLimit?) async {
        await withTerminalReleased {
            do {
                let path = try await recordNote(for: name, limit: limit)
                sink.yield(.screen(.recorded(peer, path.map { .saved(path: $0) } ?? .discarded)))
            } catch {
                sink.yield(.screen(.recorded(peer, .failed(reason: CommandFailure(error).message))))
            }
        }
    }

    private func playVoiceNote(_ text: String?, in conversation: Conversation?) async {
        await withTerminalReleased {
            do {
                try await play(try findNote(text, in: conversation))
            } catch {
                sink.yield(.screen(.playbackFailed(conversation, reason: CommandFailure(error).message)))
            }
        }
    }

    /// - Parameter text: an id or a path; nil for the newest received note.
    private func findNote(_ text: String?, in conversation: Conversation?) throws -> VoiceNote {
        if let text { return try VoiceNoteStore(machine).find(text) }
        for entry in try TransferHistory(of: machine).entries.reversed() {
            if case .peer(let peer)? = conversation, peer != entry.id { continue }
            if let note = entry.voiceNote { return note }
        }
        throw CommandFailure(.failure, "no voice note was received here; `nearshare voice list` lists all notes")
    }

    private func play(_ note: VoiceNote) async throws {
        let keyboard = SharedKeyboard(terminal)
        let player = VoicePlayer(
            note: note, device: nil, decoders: decoders, keyboard: keyboard,
            style: ANSIStyle(isEnabled: TerminalProperties.hasColor(STDERR_FILENO)))
        let playback = Playback()
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            group.addTask { for await _ in SignalHandling.signals() { playback.stop() } }
            group.addTask { await keyboard.run() }
            try await player.run(playback)
        }
    }

    /// - Returns: the path of the note; nil when the user discarded it.
    private func recordNote(for name: String, limit: NoteSizeLimit?) async throws -> String? {
        let settings = NoteSettings(
            bitrate: NoteSettings.speechBitrate, speaker: try machine.name().claimed, recorded: now, limit: limit)
        guard let settings else { throw CommandFailure(.failure, "no note can be recorded with these settings") }
        let parameters = RecordingSession.Parameters(
            source: .microphone(nil), rate: AudioFormat.speech.rate, settings: settings, output: nil, duration: nil,
            isTrimmed: true, receivers: [name], needsReview: true, fileAdvice: "/send FILE")
        let session = RecordingSession(
            store: VoiceNoteStore(machine), parameters: parameters, decoders: decoders, reporter: TextReporter(),
            isQuiet: false)
        return try await session.run()?.path
    }

    // MARK: Pictures

    private func showPicture(_ text: String?, in conversation: Conversation?, by pictures: PictureViewer) async {
        await withTerminalReleased {
            do {
                let picture = try await pictures.draw(try findPicture(text, in: conversation).path, in: pictureSize)
                // Before the sentence, so that each key that answers it counts.
                terminal.discardInput()
                DescriptorOutput.write(picture.bytes + Array("press a key to return".utf8), to: terminal.descriptor)
                await awaitKey()
                DescriptorOutput.write(DrawnPicture.end + "\n", to: terminal.descriptor)
            } catch {
                sink.yield(.screen(.pictureFailed(conversation, reason: CommandFailure(error).message)))
            }
        }
    }

    /// The terminal without its last row, for the sentence below the picture.
    private var pictureSize: TerminalSize {
        let size = terminal.size
        return TerminalSize(columns: size.columns, rows: size.rows - 1)
    }

    /// - Parameter text: a name or a path; nil for the newest received picture.
    private func findPicture(_ text: String?, in conversation: Conversation?) throws -> ReceiveHistory.Entry {
        let received = ReceivedItems(of: machine)
        if let text { return try received.findPicture(text) }
        let sender: PeerID? = if case .peer(let peer)? = conversation { peer } else { nil }
        return try received.latestPicture(from: sender)
    }

    /// Waits until the user presses a key, or a signal arrives.
    private func awaitKey() async {
        let (keys, continuation) = AsyncStream.makeStream(of: Void.self)
        await withTaskGroup(of: Void.self) { group in
            group.addTask { [terminal] in
                // Ctrl-L is also the return to the foreground.
                await terminal.readKeys { if $0 != .control("l") { continuation.yield() } }
                continuation.finish()
            }
            group.addTask { for await _ in SignalHandling.signals() { continuation.yield() } }
            for await _ in keys { break }
            group.cancelAll()
        }
    }
}

extension ChatScreen.RequestTag {
    /// Whether requests of this kind are sent in order, and completed before quitting.
    fileprivate var isOrdered: Bool {
        switch self {
        case .sendLine, .sendFile: true
        case .contacts, .conversations, .history, .markRead, .lookup, .verificationLink, .verify, .search, .setBlocked,
            .setFriend, .ping, .who, .cancel, .clear, .lifetime, .answer:
            false
        }
    }
}
