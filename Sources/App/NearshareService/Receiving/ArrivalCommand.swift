internal import FoundationEssentials
internal import Glibc
package import Nearshare
internal import Synchronization

/// Runs the user's command for each item that has arrived in the inbox: the words of `--exec`, and the item's path as the last one.
/// No shell reads them. The command runs outside of the confinement, as a child of a helper process that was started before it and
/// that runs this command only (docs/decisions/confined-process.md).
package final class ArrivalCommand: Reporter {
    /// One item. The peer chooses parts of the details: they are variables of the command's environment, and escaped.
    private struct Arrival: Codable {
        var path: String
        var details: [String: String]

        /// The source that its share counts for; empty where the sender is not known.
        var source: String
    }

    private let launcher: any WorkerLauncher
    private let reporter: any Reporter
    private let setRunning: @Sendable (Bool) -> Void
    private let arrivals: AsyncStream<Arrival>
    private let continuation: AsyncStream<Arrival>.Continuation
    private let ended = Promise<Void>()
    /// The items of each source that wait for a command.
    private let waitingCounts = Mutex<[String: Int]>([:])

    /// Limit on commands at a time.
    private static let maximumRunningCount = 4
    /// Limit on items that wait for a command; the command is not run for more.
    private static let maximumWaitingCount = 256
    /// The share of one source, so that others' items find room.
    private static let maximumWaitingCountPerSource = 64
    private static let maximumByteCount = 64 << 10
    private static let prefix = "NEARSHARE_"

    /// - Parameters:
    ///   - launcher: the helper process with ``routine(_:inbox:)``.
    ///   - reporter: receives all events, and what has failed.
    ///   - setRunning: called with true before a command starts, which may write to the terminal, and with false after its end.
    package init(
        _ launcher: any WorkerLauncher, reporter: any Reporter, setRunning: @escaping @Sendable (Bool) -> Void = { _ in }
    ) {
        self.setRunning = setRunning
        self.launcher = launcher
        self.reporter = reporter
        (arrivals, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumWaitingCount))
    }

    package func report(_ event: OperationEvent) {
        reporter.report(event)
        guard case .delivered(let item, _, let sender, _, _) = event, item.isInInbox, !item.isPresent, !item.path.isEmpty else {
            return
        }
        var details = [
            "PATH": item.path,
            "NAME": TerminalText.escaped(String(decoding: item.claimedName.bytes, as: UTF8.self), columns: 4096),
            "SIZE": "\(item.size)", "KIND": Self.word(item.kind), "TYPE": TerminalText.escaped(item.detectedType ?? ""),
        ]
        if let sender {
            details["PEER"] = sender.id.hex
            details["PEER_NAME"] = sender.name.shown
        }
        let arrival = Arrival(path: item.path, details: details, source: sender?.limitSource ?? "")
        if enqueue(arrival) { return }
        reporter.report(.warning("the command was not run for \(Self.shown(arrival)): too many items wait for it"))
    }

    /// - Returns: false when too many items wait, in all or of its source.
    private func enqueue(_ arrival: Arrival) -> Bool {
        waitingCounts.withLock { counts in
            guard counts[arrival.source, default: 0] < Self.maximumWaitingCountPerSource,
                case .enqueued = continuation.yield(arrival)
            else { return false }
            counts[arrival.source, default: 0] += 1
            return true
        }
    }

    private func recordStart(of arrival: Arrival) {
        waitingCounts.withLock { counts in
            let count = counts[arrival.source, default: 0] - 1
            counts[arrival.source] = count > 0 ? count : nil
        }
    }

    package func showProgress(of transfers: RunningTransfers) async { await reporter.showProgress(of: transfers) }

    /// Runs commands until ``finish()`` and the end of the last one, or until the task is cancelled; commands that run go on.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            var count = 0
            for await arrival in arrivals {
                if count == Self.maximumRunningCount {
                    await group.next()
                    count -= 1
                }
                recordStart(of: arrival)
                group.addTask { await self.run(arrival) }
                count += 1
            }
        }
        ended.fulfil()
    }

    /// Records that no more items arrive, and waits for the end of the commands.
    package func finish() async {
        continuation.finish()
        _ = await ended.value
    }

    /// Ends the wait of ``finish()``.
    package func interrupt() {
        continuation.finish()
        ended.fulfil()
    }

    private static func word(_ kind: OfferedItem.Kind) -> String {
        switch kind {
        case .file: "file"
        case .folder: "folder"
        case .text: "text"
        }
    }

    private static func shown(_ arrival: Arrival) -> String { TerminalText.escaped(arrival.path, columns: 1000) }

    private func run(_ arrival: Arrival) async {
        guard !Task.isCancelled, ended.current == nil else { return }
        setRunning(true)
        defer { setRunning(false) }
        let problem: String?
        switch await result(of: arrival) {
        case .exited(0)?: problem = nil
        case .exited(let status)?: problem = "ended with status \(status)"
        case .killed(let signal)?: problem = "was ended by signal \(signal)"
        case .notStarted(let code)?: problem = "could not be started: \(systemErrorText(code))"
        case nil: problem = Task.isCancelled ? nil : "could not be run: its helper process has failed"
        }
        guard let problem else { return }
        reporter.report(.warning("the command for \(Self.shown(arrival)) \(problem)"))
    }

    /// - Returns: nil when the helper process or a worker fails.
    private func result(of arrival: Arrival) async -> ChildProgram.Outcome? {
        // The command writes to standard error: standard output may carry events or content.
        guard let request = try? JSONEncoder().encode(arrival), request.count <= Self.maximumByteCount,
            let socket = try? launcher.start(.runCommand, passing: STDERR_FILENO)
        else { return nil }
        defer { close(socket) }
        return await withTaskCancellationHandler {
            let bytes = try? await BlockingThread.run { () -> [UInt8] in
                guard (try? DescriptorIO.sendAll(Array(request), to: socket)) != nil else { return [] }
                shutdown(socket, Int32(SHUT_WR))
                return Self.readAll(from: socket)
            }
            return bytes.flatMap { try? JSONDecoder().decode(ChildProgram.Outcome.self, from: Data($0)) }
        } onCancel: {
            shutdown(socket, Int32(SHUT_RDWR))
        }
    }

    private static func readAll(from socket: Int32) -> [UInt8] {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 4096)
        while bytes.count <= maximumByteCount {
            let count = read(socket, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return bytes }
            bytes += buffer[..<count]
        }
        return []
    }

    // MARK: In the helper process

    /// - Parameters:
    ///   - words: the command and its first arguments.
    ///   - inbox: the directory in which the items are: a compromised node can name no others.
    package static func routine(_ words: [String], inbox: String) -> WorkerRoutine {
        WorkerRoutine(isConfined: false) { socket, output in
            {
                guard let arrival = try? JSONDecoder().decode(Arrival.self, from: Data(readAll(from: socket))),
                    isPath(arrival.path, inside: inbox), let output
                else { return }
                // A file of that name may have arrived since the command began.
                let outcome =
                    words.contains { isWord($0, leadingInto: inbox) }
                    ? .notStarted(code: EPERM) : execute(words + [arrival.path], arrival.details, output: output)
                guard let answer = try? JSONEncoder().encode(outcome) else { return }
                try? DescriptorIO.sendAll(Array(answer), to: socket)
            }
        }
    }

    /// Whether an absolute path denotes a file or folder directly or deeper in a directory, without a link on the way out of it.
    package static func isPath(_ path: String, inside directory: String) -> Bool {
        // A relative one could be an option of the command.
        guard path.utf8.first == UInt8(ascii: "/"), !path.utf8.contains(0), let folder = path.pathOfParent,
            let root = resolved(directory), let parent = resolved("\(folder)/"), parent.isPath(inside: root)
        else { return false }
        var status = stat()
        let name = path.nameInParent
        return name != ".." && lstat("\(parent)/\(name)", &status) == 0 && [S_IFREG, S_IFDIR].contains(status.st_mode & S_IFMT)
    }

    /// Whether a word of a command names something in a directory: itself, where a link leads, or what may be created there.
    package static func isWord(_ word: String, leadingInto directory: String) -> Bool {
        guard let root = resolved(directory) else { return false }
        // A path may follow the name of an option or of a variable.
        let value = word.unicodeScalars.firstIndex(of: "=").map { String(word.unicodeScalars[$0...].dropFirst()) }
        return [word, value].compactMap(\.self).flatMap { $0.split(atScalar: ":") + [$0] }.contains { path in
            (resolved(path) ?? lexicallyResolved(path)).isPath(inside: root)
        }
    }

    /// The path without `.` and `..`, below the resolved form of its first components that exist.
    private static func lexicallyResolved(_ path: String) -> String {
        var parts: [String] = []
        for part in path.pathComponents where part != "." {
            if part == ".." { _ = parts.popLast() } else { parts.append(part) }
        }
        let start = path.utf8.first == UInt8(ascii: "/") ? "/" : "./"
        for count in (0...parts.count).reversed() {
            guard let base = resolved(start + parts.prefix(count).joined(separator: "/")) else { continue }
            return ([base == "/" ? "" : base] + parts.dropFirst(count)).joined(separator: "/")
        }
        return path
    }

    private static func resolved(_ path: String) -> String? {
        guard let bytes = realpath(path, nil) else { return nil }
        defer { free(bytes) }
        return String(cString: bytes)
    }

    private static func execute(_ words: [String], _ details: [String: String], output: Int32) -> ChildProgram.Outcome {
        // The helper ignores it, and the status of a child would be lost.
        signal(SIGCHLD, SIG_DFL)
        for (name, value) in details where name.utf8.allSatisfy({ $0 == UInt8(ascii: "_") || (65...90).contains($0) }) {
            setenv(prefix + name, value, 1)
        }
        return ChildProgram.run(words, output: output)
    }
}
