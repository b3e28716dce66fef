internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The progress of all running transfers on the terminal.
enum ProgressDisplay {
    /// Shows all running transfers until its task is cancelled: in place, or a line now and then where the cursor cannot be moved.
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
        let columns = TerminalProperties.size(of: STDERR_FILENO).columns
        var lines = transfers.current.compactMap { label, transfer -> String? in
            let progress = transfer.snapshot
            if case .ended = progress.phase { return nil }
            return ProgressLine.text(label, progress, silence: transfer.timeSinceLastContent, columns: columns)
        }
        let now = SystemClock.monotonic()
        lines += transfers.reconnecting.map {
            ProgressLine.text(reconnectingTo: $0.label, for: now - $0.since, columns: columns)
        }
        return Array(lines.prefix(8))
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
