internal import Glibc
internal import Nearshare
internal import NearshareAudio
internal import NearshareService
internal import NearshareTerminal
internal import Synchronization

/// Joins a ``ChatScreen`` with a terminal and a node.
final class ChatTerminal: Sendable {
    private enum Happening: Sendable {
        case screen(ChatScreen.Input)
        /// None when nothing was pressed for a while.
        case pressed([UInt8])
        case resized
        case draw
        /// A signal, or the terminal has gone.
        case interrupted
        /// The node tells nothing any more.
        case nodeGone
        /// Nobody waits any longer for what was on its way when the person quit, or the node went.
        case end
    }

    private let client: any NodeClient
    private let machine: LocalMachine
    private let terminal: TerminalDevice
    private let keyboard: KeyboardReader
    /// As it was when the last node ended.
    private let kept: Monitor<ChatScreen>
    private let happenings: AsyncStream<Happening>
    private let sink: AsyncStream<Happening>.Continuation

    /// A picture for each, and no more: 30 a second.
    private static let drawInterval = Duration.milliseconds(33)
    /// For lines that are on their way to the node when somebody quits.
    private static let timeout = Duration.seconds(2)

    /// - Parameter screen: a new one, or as another node has left it; kept when this one ends.
    init(
        client: any NodeClient, machine: LocalMachine, terminal: TerminalDevice, keyboard: KeyboardReader,
        screen: Monitor<ChatScreen>
    ) {
        self.client = client
        self.machine = machine
        self.terminal = terminal
        self.keyboard = keyboard
        kept = screen
        (happenings, sink) = AsyncStream.makeStream(of: Happening.self)
    }

    private enum Ending {
        case quit
        /// By a signal, or because the terminal has gone.
        case interrupted
        case nodeGone
    }

    /// Until the person quits, or the terminal goes. Then the terminal is as it was before; not so when another node is to be found.
    /// - Throws: a ``ControlFailure`` when the node in another process has ended.
    func run() async throws {
        let events = try await client.events()
        let (orders, orderSink) = AsyncStream.makeStream(of: (ControlRequest, ChatScreen.Ticket).self)
        Console.messageHandler.withLock { $0 = { [sink] line in sink.yield(.screen(.event(.notice(line)))) } }
        FullScreen.enter(terminal)
        let (ending, screen) = await withDiscardingTaskGroup { group in
            group.addTask { [sink] in
                for await event in events { sink.yield(.screen(.event(event))) }
                if !Task.isCancelled { sink.yield(.nodeGone) }
            }
            group.addTask { [self] in
                for await _ in SignalHandling.terminations() { sink.yield(.interrupted) }
            }
            group.addTask { [sink] in for await _ in Signals.stream([SIGWINCH]) { sink.yield(.resized) } }
            // One after the other: lines arrive in the order in which they were written.
            group.addTask { [self] in for await (request, ticket) in orders { await ask(request, ticket) } }
            let last = await handleAll(&group, orderSink)
            orderSink.finish()
            group.cancelAll()
            return last
        }
        switch ending {
        case .quit: return
        case .interrupted: throw CommandFailure(.interrupted, "")
        case .nodeGone:
            kept.withLock { $0 = screen }
            throw ControlFailure(.gone, "the node has ended")
        }
    }

    private func handleAll(
        _ group: inout DiscardingTaskGroup, _ orders: AsyncStream<(ControlRequest, ChatScreen.Ticket)>.Continuation
    ) async -> (Ending, ChatScreen) {
        var screen = kept.withLock { $0 }
        let settings = screen.settings
        var input = TerminalInput(maximumPasteByteCount: ChatMessage.maximumTextByteCount + 1)
        var drawn: ScreenFrame?
        var lastDrawn: MonotonicInstant?
        var isDrawPlanned = false
        /// Once what is on its way has come to an end.
        var ending: Ending?
        var openOrders = 0
        keyboard.start()
        keyboard.setHandler { [sink] event in
            switch event {
            case .bytes(let bytes): sink.yield(.pressed(bytes))
            case .closed: sink.yield(.interrupted)
            }
        }
        var effects =
            screen.handle(
                .resized(terminal.size), at: now)
            + (screen.hasStarted ? screen.handle(.reopened, at: now) : screen.start(at: now))
        sink.yield(.draw)
        loop: for await happening in happenings {
            switch happening {
            case .screen(let event):
                if case .answered(let ticket, _) = event, ticket.isOrder { openOrders -= 1 }
                effects += screen.handle(event, at: now)
            case .pressed(let bytes):
                let keys = bytes.isEmpty ? input.flush() : input.receive(bytes)
                // Nothing was pressed, and nothing came of it.
                if keys.isEmpty { continue }
                for key in keys { effects += screen.handle(.key(key), at: now) }
            case .resized:
                drawn = nil
                effects += screen.handle(
                    .resized(terminal.size), at: now)
            case .draw: isDrawPlanned = false
            case .end: break loop
            case .interrupted:
                ending = .interrupted
                break loop
            case .nodeGone:
                // One that is in this process has been told to end.
                if client is NodeService {
                    effects += screen.handle(.gone, at: now)
                } else if ending == nil {
                    ending = .nodeGone
                    endSoon(&group)
                }
            }
            // What comes of an effect is an input of its own, so this ends.
            for effect in effects {
                switch effect {
                case .ask(let request, let ticket):
                    if ticket.isOrder {
                        openOrders += 1
                        orders.yield((request, ticket))
                    } else {
                        group.addTask { await self.ask(request, ticket) }
                    }
                case .sendFile(let path, let peer, let ticket):
                    switch Self.resolve(path) {
                    case .success(let absolute):
                        openOrders += 1
                        orders.yield((.sendFile(path: absolute, to: peer), ticket))
                    case .failure(let failure):
                        openOrders += 1
                        sink.yield(.screen(.answered(ticket, .failure(failure))))
                    }
                case .listPaths(let path): sink.yield(.screen(.paths(path, Self.paths(beginningWith: path))))
                case .record(let peer, let name):
                    await keyboard.stop()
                    await record(for: peer, name: name)
                    keyboard.start()
                    drawn = nil
                case .bell: DescriptorOutput.write("\u{7}", to: terminal.descriptor)
                case .redraw: drawn = nil
                case .suspend:
                    FullScreen.suspend(terminal)
                    drawn = nil
                    sink.yield(.resized)
                case .quit:
                    // The second time, at once.
                    if ending == .quit { break loop }
                    ending = .quit
                    endSoon(&group)
                }
            }
            effects = []
            if ending != nil, openOrders == 0 { break }
            let moment = SystemClock.monotonic()
            let rest = lastDrawn.map { Self.drawInterval - (moment - $0) } ?? .zero
            if rest <= .zero {
                let picture = screen.render()
                if picture != drawn {
                    DescriptorOutput.write(
                        picture.encoded(replacing: drawn, hasColor: settings.hasColor, hasUTF8: settings.hasUTF8),
                        to: terminal.descriptor)
                    drawn = picture
                    lastDrawn = moment
                }
            } else if !isDrawPlanned {
                isDrawPlanned = true
                group.addTask { [sink] in
                    try? await Task.sleep(for: rest)
                    sink.yield(.draw)
                }
            }
        }
        keyboard.setHandler(nil)
        if ending != .nodeGone {
            await keyboard.stop()
            // A question that is still open may take its time to end.
            FullScreen.leave()
        }
        return (ending ?? .quit, screen)
    }

    /// What is on its way may still be answered.
    private func endSoon(_ group: inout DiscardingTaskGroup) {
        group.addTask { [sink] in
            try? await Task.sleep(for: Self.timeout)
            sink.yield(.end)
        }
    }

    private var now: WallTime { SystemClock.wall() }

    private func ask(_ request: ControlRequest, _ ticket: ChatScreen.Ticket) async {
        do throws(ControlFailure) {
            sink.yield(.screen(.answered(ticket, .success(try await client.submit(request)))))
        } catch {
            sink.yield(.screen(.answered(ticket, .failure(error))))
        }
    }

    // MARK: Voice notes

    private func record(for peer: PeerID, name: String) async {
        let handler = Console.messageHandler.withLock { handler in
            defer { handler = nil }
            return handler
        }
        FullScreen.leave()
        let conversation = Conversation.peer(peer)
        do {
            let path = try await SignalHandling.withoutInterrupt { try await recordNote(for: name) }
            sink.yield(.screen(.recorded(conversation, path: path, reason: nil)))
        } catch {
            sink.yield(.screen(.recorded(conversation, path: nil, reason: CommandFailure(error).message)))
        }
        FullScreen.enter(terminal)
        Console.messageHandler.withLock { $0 = handler }
    }

    /// - Returns: the path of the note; nil when the user dropped it.
    private func recordNote(for name: String) async throws -> String? {
        let settings = NoteSettings(
            bitrate: NoteSettings.speechBitrate, speaker: try machine.name().claimed, recorded: now)
        guard let settings else { throw CommandFailure(.failure, "no note can be recorded with these settings") }
        let order = RecordingSession.Order(
            source: .microphone(nil), rate: AudioFormat.speech.rate, settings: settings, output: nil, duration: nil,
            trims: true, receivers: [name], reviews: true)
        let archive = VoiceArchive(machine)
        let note = try await RecordingSession(archive: archive, order: order, isJSON: false, isQuiet: false).take()
        if let note { try? archive.noteSent(note.path, to: [name], at: now) }
        return note?.path
    }

    // MARK: Files

    /// An absolute path of what somebody calls so.
    private static func resolve(_ path: String) -> Result<String, ControlFailure> {
        let path = atHome(path)
        guard let real = realpath(path, nil) else {
            return .failure(ControlFailure(.refused, "\(String(cString: strerror(errno))); Tab completes names"))
        }
        defer { free(real) }
        guard access(real, R_OK) == 0 else { return .failure(ControlFailure(.refused, String(cString: strerror(errno)))) }
        return .success(String(cString: real))
    }

    private static func atHome(_ path: String) -> String {
        guard path == "~" || path.hasPrefix("~/"), let home = getenv("HOME") else { return path }
        return String(cString: home) + path.dropFirst()
    }

    /// Folders end with a slash.
    private static func paths(beginningWith path: String) -> [String] {
        let slash = path.lastIndex(of: "/")
        let folder = slash.map { String(path[...$0]) } ?? ""
        let begun = slash.map { path[path.index(after: $0)...] } ?? path[...]
        guard let stream = opendir(folder.isEmpty ? "." : atHome(folder)) else { return [] }
        defer { closedir(stream) }
        var found: [String] = []
        while found.count < maximumPaths, let entry = readdir(stream) {
            let name = withUnsafeBytes(of: entry.pointee.d_name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
            guard name.hasPrefix(begun), begun.hasPrefix(".") || !name.hasPrefix("."),
                TerminalText.escaped(name, columns: 255) == name
            else { continue }
            let isFolder = entry.pointee.d_type == UInt8(DT_DIR)
            found.append(folder + name + (isFolder ? "/" : ""))
        }
        return found.sorted()
    }

    private static let maximumPaths = 2000
}

extension ChatScreen.Ticket {
    /// To be done one after the other, and before somebody goes.
    fileprivate var isOrder: Bool {
        switch self {
        case .say, .sendFile: true
        case .people, .conversations, .history, .markRead, .find: false
        }
    }
}

extension ChatScreen.LocalTime {
    /// In the time zone of this machine.
    init(_ time: WallTime) {
        var seconds = time_t(time.milliseconds / 1000)
        var parts = tm()
        localtime_r(&seconds, &parts)
        func two(_ number: Int32) -> String { number < 10 ? "0\(number)" : "\(number)" }
        let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
        let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
        self.init(
            day: "\(days[Int(parts.tm_wday)]) \(parts.tm_mday) \(months[Int(parts.tm_mon)]) \(parts.tm_year + 1900)",
            clock: "\(two(parts.tm_hour)):\(two(parts.tm_min))")
    }
}
