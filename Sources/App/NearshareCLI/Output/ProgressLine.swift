internal import Glibc
internal import Nearshare
internal import NearshareTerminal

/// The progress of one transfer in one line.
enum ProgressLine {
    /// - Parameter columns: width of the terminal, whose last column stays free.
    static func text(_ label: String, _ progress: TransferProgress, columns: Int) -> String {
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
        if let rate = progress.rate { facts.append("\(UInt64(rate).asByteCount)/s") }
        if let left = progress.timeLeft { facts.append("\(left.asClock) left") }
        let tail = facts.joined(separator: "  ")
        guard let total = progress.total else { return TextLayout.truncated("\(label)  \(tail)", to: columns - 1) }
        let share = total == 0 ? 1 : min(1, Double(progress.done) / Double(total))
        let percent = "\(Int(share * 100))%"
        let room = columns - 1 - TerminalText.width(of: label) - tail.count - percent.count - 6
        guard room >= 8 else { return TextLayout.truncated("\(label)  \(percent)  \(tail)", to: columns - 1) }
        return "\(label)  \(BlockGraphics.progressBar(share, width: min(room, 30)))  \(percent)  \(tail)"
    }
}

/// Draws all running transfers until its task is cancelled.
func drawProgress(_ transfers: @escaping @Sendable () -> [(label: String, transfer: Transfer)]) async {
    guard TerminalProperties.isTerminal(STDERR_FILENO) else { return }
    while !Task.isCancelled {
        let columns = TerminalProperties.size(of: STDERR_FILENO).columns
        let lines = transfers().compactMap { label, transfer -> String? in
            let progress = transfer.snapshot
            if case .ended = progress.phase { return nil }
            return ProgressLine.text(label, progress, columns: columns)
        }
        StatusDisplay.shared.show(Array(lines.prefix(8)))
        try? await Task.sleep(for: .milliseconds(100))
    }
    StatusDisplay.shared.show([])
}
