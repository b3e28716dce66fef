internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The progress of the running transfers on the terminal, in a limited number of lines.
enum ProgressDisplay {
    /// Limit on the lines, the one that counts further transfers included: messages above them stay visible.
    private static let maximumLineCount = 8

    /// Shows the running transfers until its task is cancelled: in place, or a line now and then where the cursor cannot be moved.
    static func run(_ transfers: RunningTransfers) async {
        guard TerminalProperties.isTerminal(STDERR_FILENO) else { return }
        var schedule = ProgressSchedule(now: SystemClock.monotonic())
        while !Task.isCancelled {
            if !StatusDisplay.shared.isPlain {
                StatusDisplay.shared.show(lines(of: transfers))
            } else if schedule.isDue(transfers.current.map(\.transfer.snapshot), now: SystemClock.monotonic()) {
                for line in lines(of: transfers) { Console.notice(line) }
            }
            guard transfers.isActive else {
                await transfers.waitForAddition()
                schedule = ProgressSchedule(now: SystemClock.monotonic())
                continue
            }
            // Timed: while a transfer runs, its rate and its times change all the time.
            try? await Task.sleep(for: .milliseconds(100))
        }
        StatusDisplay.shared.show([])
    }

    private static func lines(of transfers: RunningTransfers) -> [String] {
        lines(
            of: transfers.current, reconnecting: transfers.reconnecting,
            columns: TerminalProperties.size(of: STDERR_FILENO).columns, now: SystemClock.monotonic())
    }

    /// The lines about transfers. Lost connections come first, so that running transfers never hide them.
    static func lines(
        of transfers: [(label: TransferLabel, transfer: Transfer)], reconnecting: [RunningTransfers.Reconnecting], columns: Int,
        now: MonotonicInstant
    ) -> [String] {
        var lines = reconnecting.map { ProgressLine.text(reconnectingTo: $0.label, for: now - $0.since, columns: columns) }
        lines += transfers.compactMap { label, transfer -> String? in
            let progress = transfer.snapshot
            if case .ended = progress.phase { return nil }
            return ProgressLine.text(label, progress, silence: transfer.timeSinceLastContent, columns: columns)
        }
        guard lines.count > maximumLineCount else { return lines }
        let more = lines.count - (maximumLineCount - 1)
        return Array(lines.prefix(maximumLineCount - 1)) + [TextLayout.truncated("… and \(more) more", to: columns - 1)]
    }
}

/// The times at which progress is a line of its own, because it cannot be drawn again in its place: whenever a transfer has moved by
/// another tenth, or 10 s have passed; at most once a second.
struct ProgressSchedule {
    private var lastTime: MonotonicInstant
    private var tenths: [TransferID: UInt64] = [:]

    init(now: MonotonicInstant) { lastTime = now }

    mutating func isDue(_ transfers: [TransferProgress], now: MonotonicInstant) -> Bool {
        let current = transfers.reduce(into: [TransferID: UInt64]()) { current, progress in
            current[progress.id] = progress.total.map { progress.done.multipliedClamped(by: 10) / max($0, 1) } ?? 0
        }
        let hasMoved = current.contains { id, tenth in tenth > tenths[id] ?? 0 }
        guard now - lastTime >= (hasMoved ? .seconds(1) : .seconds(10)) else { return false }
        (lastTime, tenths) = (now, current)
        return true
    }
}
