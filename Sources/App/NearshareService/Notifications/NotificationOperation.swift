internal import Glibc
package import Logging
package import Nearshare
internal import NearshareDBus
internal import Synchronization

/// Shows the questions, arrivals and messages of this user's node as notifications of the desktop, and passes the user's answers
/// on to it. Runs in a process of its own: the node is confined, and must reach neither the session bus nor other programs.
package final class NotificationOperation: Sendable {
    private enum Input: Sendable {
        case server(NotificationServer.Event)
        case node(ControlEvent)
        case contacts([Contact])
        /// The connection to the node has ended.
        case disconnected
        /// No file manager has shown the item.
        case noFileManager(String)
    }

    private let machine: LocalMachine
    /// The program of this process, which opens items and plays notes.
    private let program: String
    private let log: Logger
    private let inputs: AsyncStream<Input>
    private let continuation: AsyncStream<Input>.Continuation
    private let programCount = Monitor(0)

    /// Limit on events that wait; the oldest are dropped.
    private static let maximumWaitingCount = 4_096
    /// Limit on programs that run at a time.
    private static let maximumProgramCount = 8

    package init(machine: LocalMachine, program: String = "/proc/self/exe", log: Logger) {
        (self.machine, self.program, self.log) = (machine, program, log)
        (inputs, continuation) = AsyncStream.makeStream(
            of: Input.self, bufferingPolicy: .bufferingNewest(Self.maximumWaitingCount))
    }

    /// Makes ``run()`` return.
    package func stop() { continuation.finish() }

    /// Runs, once, until ``stop()`` or until the session bus ends.
    /// - Parameter onStart: called when there is a session bus.
    /// - Throws: ``CommandFailure`` where there is no session bus.
    package func run(onStart: @Sendable () -> Void) async throws {
        let continuation = continuation
        let server: EventLoopThread<NotificationServer>
        do throws(EventLoopStartError<DBusError>) {
            server = try EventLoopThread(clock: SystemClock.monotonic) { handle throws(DBusError) in
                try NotificationServer(wakeup: handle.wakeup) { continuation.yield(.server($0)) }
            }
        } catch {
            let reason =
                switch error {
                case .noThread(let reason): reason
                case .notMade(let error): error.text
                }
            throw CommandFailure(
                .failure,
                "notifications need a desktop session, whose bus was not found (\(TerminalText.sanitized(reason))); run this in one"
            )
        }
        defer { server.close() }
        onStart()
        let node = NodeFollower(machine: machine, log: log) { continuation.yield($0) }
        await withDiscardingTaskGroup { group in
            group.addTask { await node.run() }
            var notifications = NotificationMachine()
            for await input in inputs {
                for reaction in handle(input, &notifications, node) {
                    if let work = perform(reaction, server, node) { group.addTask { await work() } }
                }
            }
            group.cancelAll()
        }
    }

    private func handle(
        _ input: Input, _ notifications: inout NotificationMachine, _ node: NodeFollower
    ) -> [NotificationMachine.Reaction] {
        let now = SystemClock.monotonic()
        switch input {
        case .node(let event): return notifications.handle(event, now: now)
        case .contacts(let contacts): return notifications.handle(.contacts(contacts), now: now)
        case .disconnected: return notifications.end()
        case .noFileManager(let path):
            return path.pathOfParent.map { [.openFolder(path: $0)] } ?? []
        case .server(.available(let capabilities)):
            if !capabilities.hasActions { log.warning("the notification server shows no buttons; nothing is shown") }
            node.setActive(capabilities.hasActions)
        case .server(.unavailable):
            log.info("no notification server answers")
            node.setActive(false)
            _ = notifications.end()
        case .server(.shown(let id, let token)): return notifications.shown(id, as: token)
        case .server(.closed(let id)): notifications.closed(id)
        case .server(.invoked(let key, let id)): return notifications.invoked(key, of: id)
        case .server(.replied(let text, let id)): return notifications.replied(text, to: id)
        case .server(.ended): stop()
        }
        return []
    }

    /// - Returns: the part that takes time.
    private func perform(
        _ reaction: NotificationMachine.Reaction, _ server: EventLoopThread<NotificationServer>, _ node: NodeFollower
    ) -> (@Sendable () async -> Void)? {
        switch reaction {
        case .show(let notification, let token): server.post { $0.show(notification, token: token) }
        case .close(let id): server.post { $0.close(id) }
        case .showInFolder(let path):
            server.post { [continuation] in
                $0.showInFolder(path, failure: { continuation.yield(.noFileManager(path)) })
            }
        case .answer(let number, let answer): return { await node.submit(.answer(number, answer)) }
        case .reply(let text, let peer): return { await node.submit(.sendLine(text, in: .peer(peer))) }
        case .openFolder(let path): return { await self.execute(["xdg-open", path]) }
        // Without a terminal the command declines to open what can start programs.
        case .open(let path): return { await self.execute([self.program, "inbox", "open", "--", path]) }
        case .play(let path): return { await self.execute([self.program, "voice", "play", "--", path]) }
        }
        return nil
    }

    private func execute(_ words: [String]) async {
        let isAdmitted = programCount.withLock { count in
            guard count < Self.maximumProgramCount else { return false }
            count += 1
            return true
        }
        guard isAdmitted else { return }
        defer { programCount.withLock { $0 -= 1 } }
        let outcome = try? await BlockingThread.run {
            let output = open("/dev/null", O_WRONLY | O_CLOEXEC)
            defer { close(output) }
            return ChildProgram.run(words, output: output)
        }
        if case .exited(0)? = outcome { return }
        log.warning("\(TerminalText.escaped(words.joined(separator: " "), columns: 400)) failed")
    }

    /// Follows the node of this user, whichever process runs it, while there is a server to show what it says.
    private final class NodeFollower: Sendable {
        private struct State {
            var isActive = false
            var client: ControlClient?
        }

        private let machine: LocalMachine
        private let log: Logger
        private let emit: @Sendable (Input) -> Void
        private let state = Mutex(State())
        private let (activations, continuation) = AsyncStream.makeStream(
            of: Void.self, bufferingPolicy: .bufferingNewest(1))

        /// The longest wait for a change of the run-time directory, whose watch can be lost.
        private static let pollInterval = Duration.seconds(60)

        init(machine: LocalMachine, log: Logger, emit: @escaping @Sendable (Input) -> Void) {
            (self.machine, self.log, self.emit) = (machine, log, emit)
        }

        func setActive(_ isActive: Bool) {
            let client = state.withLock { state in
                state.isActive = isActive
                return isActive ? nil : state.client
            }
            if isActive { continuation.yield() }
            // Until there is a server again, the node asks no user.
            client?.close()
        }

        func submit(_ request: ControlRequest) async {
            guard let client = state.withLock(\.client) else { return }
            // A question may have been answered elsewhere a moment ago.
            _ = try? await client.submit(request)
        }

        func run() async {
            var activations = activations.makeAsyncIterator()
            while !Task.isCancelled {
                guard state.withLock(\.isActive) else {
                    guard await activations.next() != nil else { return }
                    continue
                }
                // Created before the attempt, so that no change is lost.
                let watch = DirectoryWatch(machine.directories.runtime)
                _ = try? await withRunningNode(of: machine) { client in
                    state.withLock { $0.client = client }
                    defer { state.withLock { $0.client = nil } }
                    guard state.withLock(\.isActive) else { return }
                    let events = try await client.events()
                    emit(.contacts(try await client.contacts()))
                    let offers = try await client.receiveEvents()
                    log.info("showing what the node receives")
                    async let following: Void = {
                        for await event in offers { emit(.node(.receiving(event))) }
                    }()
                    for await event in events { emit(.node(event)) }
                    await following
                }
                emit(.disconnected)
                guard !Task.isCancelled, state.withLock(\.isActive) else { continue }
                try? await watch?.awaitChange(timeout: Self.pollInterval)
            }
        }
    }
}
