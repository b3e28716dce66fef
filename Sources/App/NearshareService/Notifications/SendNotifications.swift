package import Logging
internal import Nearshare
internal import NearshareDBus
internal import Synchronization

/// Shows one send in a notification of the desktop, which is replaced as the send goes on. Without a session bus, or a
/// server, nothing is shown.
package final class SendNotifications: Reporter {
    private enum Input: Sendable {
        case notification(DesktopNotification)
        case server(NotificationServer.Event)
        case end
    }

    private struct State {
        var subject = "Send with nearshare"
        /// The end of the title; empty before a receiver is asked.
        var receiver = ""
        /// Lines of the last notification, about content that is not sent.
        var leftOut: [String] = []
        /// The line about what the receiver has got; nil before it has it.
        var sent: String?
        var hasRun = false
        var code: String?
        var started: MonotonicInstant?
        var lastProgress: MonotonicInstant?
    }

    private let state = Mutex(State())
    private let inputs: AsyncStream<Input>
    private let continuation: AsyncStream<Input>.Continuation
    private let log: Logger

    private static let cancelKey = "cancel"
    private static let maximumWaitingCount = 256
    /// Limit on the entries of which a notification says why they are left out.
    private static let maximumLeftOutCount = 3

    package init(log: Logger) {
        self.log = log
        (inputs, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.maximumWaitingCount))
    }

    /// Sets the title of the notifications that follow, and what the last one says about content that is not sent.
    package func setContent(_ source: SendSource) {
        let leftOut = source.leftOutLines(upTo: Self.maximumLeftOutCount)
        state.withLock { ($0.subject, $0.leftOut) = (source.label, leftOut) }
    }

    package func report(_ event: OperationEvent) {
        switch event {
        case .inviting(let invitation):
            state.withLock { $0.receiver = " to \(invitation.name)" }
            show(["waiting for the answer"])
        case .authenticationDigits(let id, let name, let digits, let isKnown):
            let name = name.besideCode(of: id)
            state.withLock {
                $0.code =
                    isKnown
                    ? "if \(name) sees a short code, it should be \(digits)"
                    : "short code \(digits): \(name) should see the same"
            }
            show(["waiting for the answer"])
        case .acceptedByReceiver:
            state.withLock { $0.code = nil }
            show(["accepted"])
        case .progress(let progress): showProgress(done: progress.done, total: progress.total)
        case .nodeProgress(_, let done, let total): showProgress(done: done, total: total)
        case .reconnecting(_, let name, _, let isBusy):
            state.withLock { $0.code = nil }
            show([isBusy ? "\(name) is busy; trying again" : "the connection to \(name) was lost; trying again"])
        case .sent(let result) where result.outcome == .completed:
            // Shown at the end, beside what may have failed.
            let line = result.unsentText ?? "sent, \(result.byteCount.formattedByteCount)"
            state.withLock { $0.sent = line }
        case .warning(let line): log.warning("\(line)")
        default: break
        }
    }

    /// Shows why nothing, or not all, was sent.
    /// - Parameter message: escaped.
    private func fail(_ message: String) {
        let sent = state.withLock(\.sent)
        show([sent, message].compactMap(\.self), category: "transfer.error", isLast: true)
    }

    /// Shows notifications while `body` runs, and what it has sent or why it has failed in the last one.
    /// - Parameter cancel: called when the user presses the button.
    package func during(onCancel cancel: @escaping @Sendable () -> Void, _ body: () async throws -> Void) async throws {
        state.withLock { $0.hasRun = true }
        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await self.run(onCancel: cancel) }
            do {
                try await body()
            } catch {
                fail(CommandFailure(error).message)
                finish()
                try await group.waitForAll()
                throw error
            }
            if let sent = state.withLock(\.sent) { show([sent], category: "transfer.complete", isLast: true) }
            finish()
            try await group.waitForAll()
        }
    }

    /// Shows why nothing could be offered, unless ``during(onCancel:_:)`` has shown the failure.
    package func showEarlyFailure(_ error: any Error) async {
        guard !state.withLock(\.hasRun) else { return }
        fail(CommandFailure(error).message)
        finish()
        await run(onCancel: {})
    }

    /// Makes ``run(onCancel:)`` return as soon as the last notification is shown.
    private func finish() { continuation.yield(.end) }

    private func showProgress(done: UInt64, total: UInt64?) {
        let now = SystemClock.monotonic()
        let isDue = state.withLock { state in
            let started = state.started ?? now
            state.started = started
            guard now - started >= NotificationMachine.progressDelay,
                state.lastProgress.map({ now - $0 >= NotificationMachine.progressInterval }) ?? true
            else { return false }
            state.lastProgress = now
            return true
        }
        guard isDue else { return }
        show(
            [ProgressText.byteCounts(done, of: total)],
            progress: total.map { Int32(ProgressText.percentage(done, of: $0)) })
    }

    private func show(_ lines: [String], category: String = "transfer", progress: Int32? = nil, isLast: Bool = false) {
        // The code of a question that is over would not match anything.
        let (subject, more) = state.withLock {
            ($0.subject + $0.receiver, isLast ? $0.leftOut : $0.code.map { [$0] } ?? [])
        }
        var notification = DesktopNotification(subject, lines + more, category: category)
        notification.progress = progress
        notification.staysOpen = !isLast
        if !isLast { notification.actions = [.init(key: Self.cancelKey, label: "Cancel")] }
        continuation.yield(.notification(notification))
    }

    /// Shows notifications until ``finish()``.
    /// - Parameter cancel: called when the user presses the button.
    private func run(onCancel cancel: @Sendable () -> Void) async {
        let continuation = continuation
        let server = try? EventLoopThread(clock: SystemClock.monotonic) { handle throws(DBusError) in
            try NotificationServer(wakeup: handle.wakeup) { continuation.yield(.server($0)) }
        }
        guard let server else { return }
        defer { server.close() }
        var isAvailable = false
        var shownID: UInt32?
        /// Whether a reply of the server is awaited: the id of what is to be replaced comes with it.
        var isWaiting = false
        var pending: DesktopNotification?
        var hasEnded = false
        for await input in inputs {
            switch input {
            case .notification(let notification): pending = notification
            case .server(.available): isAvailable = true
            case .server(.shown(let id, _)): (shownID, isWaiting) = (id, false)
            case .server(.invoked(let key, let id)): if key == Self.cancelKey, id == shownID { cancel() }
            case .server(.unavailable), .server(.ended): return
            case .server(.closed), .server(.replied): break
            case .end: hasEnded = true
            }
            if isAvailable, !isWaiting, var next = pending {
                next.replacedID = shownID ?? 0
                (pending, isWaiting) = (nil, true)
                server.post { [next] in $0.show(next, token: 0) }
            }
            if hasEnded, !isWaiting, pending == nil { return }
        }
    }
}
