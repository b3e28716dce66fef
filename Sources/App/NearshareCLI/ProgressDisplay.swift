internal import Glibc
internal import Nearshare
internal import Synchronization

/// The bottom of the terminal, where transfers show how they go and questions wait for an answer; other output appears above.
final class ProgressDisplay: Sendable {
    static let shared = ProgressDisplay()

    private struct State {
        var bottom = StatusArea()
        /// The terminal; another one than standard error where that goes elsewhere and something is asked.
        var descriptor = STDERR_FILENO
        var columns: Int { Console.columns(descriptor) }
    }

    private let state = Mutex(State())

    /// Replaces the lines. Only on a terminal.
    func show(_ lines: [String]) {
        state.withLock { Console.write($0.bottom.show(lines, columns: $0.columns), to: $0.descriptor) }
    }

    /// Puts a question on a terminal, below everything else; nil takes it away.
    func ask(_ question: String?, on descriptor: Int32) {
        state.withLock { state in
            state.descriptor = descriptor
            Console.write(state.bottom.ask(question, columns: state.columns), to: descriptor)
        }
    }

    /// Enter was pressed after the question: both stay as what has been said.
    func answered(_ answer: String) {
        state.withLock { Console.write($0.bottom.answered(answer, columns: $0.columns), to: $0.descriptor) }
    }

    /// Runs `body`, which writes whole lines, with the display out of the way.
    func around(_ body: () -> Void) {
        state.withLock { state in
            Console.write(state.bottom.erase(columns: state.columns), to: state.descriptor)
            body()
            Console.write(state.bottom.draw(columns: state.columns), to: state.descriptor)
        }
    }

    /// Leaves nothing of it on the screen.
    func clear() {
        state.withLock { state in
            Console.write(state.bottom.erase(columns: state.columns), to: state.descriptor)
            state.bottom = StatusArea()
        }
    }
}

/// One transfer in one line.
enum ProgressLine {
    /// - Parameter columns: what the line may take, one column being left free.
    static func text(_ label: String, _ progress: TransferProgress, columns: Int) -> String {
        var facts: [String] = []
        switch progress.phase {
        case .connecting: return cut("\(label)  connecting…", columns)
        case .waiting: return cut("\(label)  waiting for an answer…", columns)
        case .comparing: return cut("\(label)  comparing with what is there already…", columns)
        case .finishing: return cut("\(label)  \(progress.done.asByteCount), finishing…", columns)
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
        guard let total = progress.total else { return cut("\(label)  \(tail)", columns) }
        let share = total == 0 ? 1 : min(1, Double(progress.done) / Double(total))
        let percent = "\(Int(share * 100))%"
        let room = columns - 1 - TerminalText.width(of: label) - tail.count - percent.count - 6
        guard room >= 8 else { return cut("\(label)  \(percent)  \(tail)", columns) }
        return "\(label)  \(bar(share, width: min(room, 30)))  \(percent)  \(tail)"
    }

    /// Eighths of a character, so that a slow transfer is seen to move.
    private static func bar(_ share: Double, width: Int) -> String {
        let eighths = Int(share * Double(width * 8))
        let partial = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8]
        let full = String(repeating: "█", count: eighths / 8) + partial
        return full + String(repeating: "░", count: max(0, width - full.count))
    }

    private static func cut(_ text: String, _ columns: Int) -> String {
        TerminalText.width(of: text) < columns ? text : String(text.prefix(max(1, columns - 2))) + "…"
    }
}

/// Draws all running transfers again and again until its task is cancelled.
func drawProgress(_ transfers: @escaping @Sendable () -> [(label: String, transfer: Transfer)]) async {
    guard Console.isTerminal(STDERR_FILENO) else { return }
    while !Task.isCancelled {
        let columns = Console.columns(STDERR_FILENO)
        let lines = transfers().compactMap { label, transfer -> String? in
            let progress = transfer.snapshot
            if case .ended = progress.phase { return nil }
            return ProgressLine.text(label, progress, columns: columns)
        }
        ProgressDisplay.shared.show(Array(lines.prefix(8)))
        try? await Task.sleep(for: .milliseconds(100))
    }
    ProgressDisplay.shared.show([])
}
