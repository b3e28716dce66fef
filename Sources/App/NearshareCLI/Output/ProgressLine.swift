internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The progress of one transfer in one line.
enum ProgressLine {
    /// Time without content after which the line tells it, instead of an estimate.
    static let stallTime = Duration.seconds(3)

    /// - Parameters:
    ///   - label: the content and the peer, separated by an arrow.
    ///   - silence: time since content was sent or received last.
    ///   - columns: width of the terminal, whose last column stays free.
    static func text(_ label: String, _ progress: TransferProgress, silence: Duration = .zero, columns: Int) -> String {
        let label = ProgressLabel(label, isIncoming: progress.isIncoming)
        let columns = columns - 1
        switch progress.phase {
        case .connecting: return line(label, "connecting…", columns: columns)
        case .waiting: return line(label, "waiting for an answer…", columns: columns)
        case .comparing: return line(label, "comparing with received parts…", columns: columns)
        case .finishing: return line(label, "\(progress.done.asByteCount), finishing…", columns: columns)
        case .moving, .ended: break
        }
        var facts = facts(of: progress, silence: silence)
        if let bar = bar(of: progress, beside: label, facts, columns: columns) { return bar }
        // The name of the content is cut first. Where that is not enough, the facts that matter least are left out.
        let room = columns - label.desiredWidth
        while facts.count > 1, width(of: facts) > room, let least = facts.map(\.rank).max() {
            facts.removeAll { $0.rank == least }
        }
        return line(label, facts.map(\.text).joined(separator: "  "), columns: columns)
    }

    /// The line about a peer to which a new connection is made.
    static func text(reconnectingTo peer: String, for duration: Duration, columns: Int) -> String {
        let text =
            duration < .seconds(1)
            ? "connection to \(peer) lost, trying again" : "no answer from \(peer) for \(duration.asLargestUnit), trying again"
        return TextLayout.truncated(text, to: columns - 1)
    }

    private struct Fact {
        var text: String
        /// Importance, by which facts are left out: 0 for the one that always stays.
        var rank: Int
    }

    /// The facts in the order in which they are shown, each of another rank.
    private static func facts(of progress: TransferProgress, silence: Duration) -> [Fact] {
        var facts: [Fact] = []
        if let total = progress.total {
            facts.append(Fact(text: "\(ProgressText.percentage(progress.done, of: total))%", rank: 0))
        }
        if progress.totalEntries > 1 {
            facts.append(Fact(text: "\(progress.finishedEntries) of \(progress.totalEntries)", rank: 4))
        }
        let byteCounts = ProgressText.byteCounts(progress.done, of: progress.total)
        facts.append(Fact(text: byteCounts, rank: progress.total == nil ? 0 : 3))
        if silence >= stallTime {
            facts.append(Fact(text: "no answer for \(silence.asLargestUnit)", rank: 1))
        } else {
            if let rate = progress.rate { facts.append(Fact(text: "\(UInt64(saturating: rate).asByteCount)/s", rank: 2)) }
            if let left = progress.timeLeft { facts.append(Fact(text: "\(left.asClock) left", rank: 1)) }
        }
        return facts
    }

    /// The completed part, 0 to 1; nil while the total is not known.
    private static func share(of progress: TransferProgress) -> Double? {
        progress.total.map { $0 == 0 ? 1 : min(1, Double(progress.done) / Double($0)) }
    }

    /// Columns that facts take, each with the space before it.
    private static func width(of facts: [Fact]) -> Int {
        facts.reduce(0) { $0 + 2 + TerminalText.width(of: $1.text) }
    }

    /// The line with a bar, where the whole label and all facts leave room for one.
    private static func bar(
        of progress: TransferProgress, beside label: ProgressLabel, _ facts: [Fact], columns: Int
    ) -> String? {
        let room = columns - label.width - width(of: facts) - 2
        guard let share = share(of: progress), room >= 8 else { return nil }
        let bar = BlockGraphics.progressBar(share, width: min(room, 30))
        return ([label.text, bar] + facts.map(\.text)).joined(separator: "  ")
    }

    private static func line(_ label: ProgressLabel, _ facts: String, columns: Int) -> String {
        // On a very narrow terminal the facts are cut as well, so that the start of the peer's name is visible.
        let room = max(columns - TerminalText.width(of: facts) - 2, min(8, columns / 3))
        return TextLayout.truncated("\(label.fitted(to: room))  \(facts)", to: columns)
    }
}

/// The label of a transfer: its content, and the peer where there is one.
private struct ProgressLabel {
    let text: String
    private var content: String
    private var peer: String?
    private let isIncoming: Bool

    private static let arrow = " → "
    /// Columns that each of both names keeps beside the other one.
    private static let minimumNameColumns = 6
    /// Columns of the content and of the peer's name in ``desiredWidth``.
    private static let desiredColumns = (content: 10, peer: 20)

    /// - Parameter text: escaped for a terminal: "content → peer", or for an incoming transfer "peer → content".
    init(_ text: String, isIncoming: Bool) {
        self.text = text
        self.isIncoming = isIncoming
        content = text
        // A content's name may hold arrows as well.
        let arrows = text.utf8.ranges(of: Self.arrow.utf8)
        guard let range = isIncoming ? arrows.first : arrows.last else { return }
        let first = String(text[..<range.lowerBound])
        let second = String(text[range.upperBound...])
        content = isIncoming ? second : first
        peer = isIncoming ? first : second
    }

    var width: Int { TerminalText.width(of: text) }

    /// Width up to which facts other than the percentage are left out in favour of the label.
    var desiredWidth: Int {
        let contentWidth = min(TerminalText.width(of: content), Self.desiredColumns.content)
        guard let peer else { return contentWidth }
        return contentWidth + TerminalText.width(of: Self.arrow)
            + min(TerminalText.width(of: peer), Self.desiredColumns.peer)
    }

    /// The label of at most a width. The content is cut first, then the peer's name, and at last the content is left out.
    func fitted(to columns: Int) -> String {
        guard width > columns else { return text }
        guard let peer else { return TextLayout.middleCut(content, to: columns) }
        let room = columns - TerminalText.width(of: Self.arrow)
        let contentMinimum = min(TerminalText.width(of: content), Self.minimumNameColumns)
        guard room - contentMinimum >= min(TerminalText.width(of: peer), Self.minimumNameColumns) else {
            return TextLayout.truncated(peer, to: columns)
        }
        let shownPeer = TextLayout.truncated(peer, to: room - contentMinimum)
        let shownContent = TextLayout.middleCut(content, to: room - TerminalText.width(of: shownPeer))
        return isIncoming ? shownPeer + Self.arrow + shownContent : shownContent + Self.arrow + shownPeer
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
    lines += transfers.reconnecting.map { ProgressLine.text(reconnectingTo: $0.label, for: now - $0.since, columns: columns) }
    return Array(lines.prefix(8))
}
