internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The progress of one transfer in one line.
enum ProgressLine {
    /// Time without content after which the line says so, in place of the rate and the time left.
    static let stallTime = Duration.seconds(3)

    /// - Parameters:
    ///   - silence: time since content was sent or received last.
    ///   - columns: width of the terminal, whose last column stays free.
    static func text(
        _ label: TransferLabel, _ progress: TransferProgress, silence: Duration = .zero, columns: Int
    ) -> String {
        let columns = columns - 1
        switch progress.phase {
        case .connecting: return line(label, "connecting…", columns: columns)
        case .waiting: return line(label, "waiting for an answer…", columns: columns)
        case .comparing: return line(label, "comparing with received parts…", columns: columns)
        case .finishing: return line(label, "\(progress.done.formattedByteCount), finishing…", columns: columns)
        case .moving, .ended: break
        }
        var facts = facts(of: progress, silence: silence)
        if let bar = bar(of: progress, beside: label, facts, columns: columns) { return bar }
        // The name of the content is cut first. Where that is not enough, the facts that matter least are left out.
        let availableColumns = columns - label.desiredWidth
        while facts.count > 1, width(of: facts) > availableColumns, let least = facts.map(\.rank).max() {
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

    /// The facts in the order in which they are shown, each with a different rank.
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
            facts.append(Fact(text: "nothing moved for \(silence.asLargestUnit)", rank: 1))
        } else {
            if let rate = progress.rate {
                facts.append(Fact(text: "\(UInt64(saturating: rate).formattedByteCount)/s", rank: 2))
            }
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
        of progress: TransferProgress, beside label: TransferLabel, _ facts: [Fact], columns: Int
    ) -> String? {
        let availableColumns = columns - label.width - width(of: facts) - 2
        guard let share = share(of: progress), availableColumns >= 8 else { return nil }
        let bar = BlockGraphics.progressBar(share, width: min(availableColumns, 30))
        return ([label.text, bar] + facts.map(\.text)).joined(separator: "  ")
    }

    private static func line(_ label: TransferLabel, _ facts: String, columns: Int) -> String {
        // On a very narrow terminal the facts are cut as well, so that the start of the peer's name is visible.
        let availableColumns = max(columns - TerminalText.width(of: facts) - 2, min(8, columns / 3))
        return TextLayout.truncated("\(label.fitted(to: availableColumns))  \(facts)", to: columns)
    }
}
