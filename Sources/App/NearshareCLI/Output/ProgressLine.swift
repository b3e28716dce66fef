internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The progress of one transfer in one line.
enum ProgressLine {
    /// Time without content after which the line tells it, instead of an estimate.
    static let stallTime = Duration.seconds(3)

    /// - Parameters:
    ///   - silence: time since content was sent or received last.
    ///   - columns: width of the terminal, whose last column stays free.
    static func text(_ label: String, _ progress: TransferProgress, silence: Duration = .zero, columns: Int) -> String {
        var facts: [String] = []
        switch progress.phase {
        case .connecting: return TextLayout.truncated("\(label)  connecting…", to: columns - 1)
        case .waiting: return TextLayout.truncated("\(label)  waiting for an answer…", to: columns - 1)
        case .comparing: return TextLayout.truncated("\(label)  comparing with received parts…", to: columns - 1)
        case .finishing: return TextLayout.truncated("\(label)  \(progress.done.asByteCount), finishing…", to: columns - 1)
        case .moving, .ended: break
        }
        if progress.totalEntries > 1 { facts.append("\(progress.finishedEntries) of \(progress.totalEntries)") }
        if let total = progress.total {
            facts.append("\(progress.done.asByteCount) of \(total.asByteCount)")
        } else {
            facts.append(progress.done.asByteCount)
        }
        if silence >= stallTime {
            facts.append("no answer for \(silence.asLargestUnit)")
        } else {
            if let rate = progress.rate { facts.append("\(UInt64(saturating: rate).asByteCount)/s") }
            if let left = progress.timeLeft { facts.append("\(left.asClock) left") }
        }
        let tail = facts.joined(separator: "  ")
        guard let total = progress.total else { return TextLayout.truncated("\(label)  \(tail)", to: columns - 1) }
        let share = total == 0 ? 1 : min(1, Double(progress.done) / Double(total))
        let percent = "\(Int(share * 100))%"
        let room = columns - 1 - TerminalText.width(of: label) - tail.count - percent.count - 6
        guard room >= 8 else { return TextLayout.truncated("\(label)  \(percent)  \(tail)", to: columns - 1) }
        return "\(label)  \(BlockGraphics.progressBar(share, width: min(room, 30)))  \(percent)  \(tail)"
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

/// Shows all running transfers until its task is cancelled: in place, or a line now and then where the cursor cannot be moved.
func drawProgress(of transfers: RunningTransfers) async {
    guard TerminalProperties.isTerminal(STDERR_FILENO) else { return }
    var schedule = ProgressSchedule(now: SystemClock.monotonic())
    while !Task.isCancelled {
        if !StatusDisplay.shared.isPlain {
            StatusDisplay.shared.show(progressLines(of: transfers))
        } else if schedule.isDue(transfers.current.map(\.transfer.snapshot), now: SystemClock.monotonic()) {
            for line in progressLines(of: transfers) { Console.notice(line) }
        }
        try? await Task.sleep(for: .milliseconds(100))
    }
    StatusDisplay.shared.show([])
}

private func progressLines(of transfers: RunningTransfers) -> [String] {
    let columns = TerminalProperties.size(of: STDERR_FILENO).columns
    var lines = transfers.current.compactMap { label, transfer -> String? in
        let progress = transfer.snapshot
        if case .ended = progress.phase { return nil }
        return ProgressLine.text(label, progress, silence: transfer.timeSinceLastContent, columns: columns)
    }
    let now = SystemClock.monotonic()
    lines += transfers.reconnecting.map { peer in
        TextLayout.truncated(
            "no answer from \(peer.label) for \((now - peer.since).asLargestUnit), trying again", to: columns - 1)
    }
    return Array(lines.prefix(8))
}
