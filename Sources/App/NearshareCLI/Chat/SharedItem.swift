internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// A file, a folder or a text message that was sent or received in a conversation, from the history.
struct SharedItem: Sendable, Hashable {
    let when: WallTime
    /// The name and the outcome, or the text with its lines; escaped for a terminal.
    let sentence: String
    /// The path of a received item or text message; nil for others.
    private let path: String?
    /// The name of a sent item, escaped for a terminal; nil for others.
    private(set) var shownSentName: String?
    /// Whether it is a text of the user. One that was received is a file in the inbox.
    private(set) var isSentText = false

    /// Limit on the time between the end of a transfer and its line in the history, in milliseconds.
    private static let maximumRecordingDelay: UInt64 = 5_000

    /// Limit on the items that a conversation lists when it is opened.
    static let maximumListedCount = 20
    /// Limit on a text that a conversation shows, in bytes.
    private static let maximumTextByteCount = 2_000

    init(_ entry: TransferHistory.Entry) {
        when = entry.when
        path = entry.path
        if let text = entry.text(upTo: Self.maximumTextByteCount) {
            let author = entry.direction == .incoming ? entry.name.shown(of: entry.id) : "you"
            let lines = text.lines.map { TextLayout.escaped($0) }
            sentence = "\(author): \(lines.joined(separator: "\n"))"
            isSentText = entry.direction == .outgoing
            return
        }
        if entry.direction == .outgoing { shownSentName = entry.content }
        let name = entry.path.map { TerminalText.escaped($0, columns: 1_000) } ?? entry.content
        if entry.outcome == .partial {
            sentence = "\(Self.heading(of: entry))\(name)\(entry.reasonSuffix)"
            return
        }
        sentence =
            entry.outcome == .completed
            ? "\(entry.outcomeWord) \(name)\(entry.reasonSuffix)\(entry.isRemoved ? " (removed)" : "")\(Self.playHint(entry))"
            : "\(Self.heading(of: entry))\(name): \(Self.ending(of: entry))\(entry.reasonSuffix)"
    }

    init(_ arrival: Arrival, at now: WallTime) {
        when = now
        path = arrival.path
        sentence = "received \(TerminalText.path(arrival.path)) from \(arrival.senderName)"
    }

    /// The direction of an item that was not transferred, or not completely, for the beginning of its line.
    private static func heading(of entry: TransferHistory.Entry) -> String {
        let verb = entry.direction == .incoming ? "received" : "sent"
        return switch entry.outcome {
        case .declined, .expired, .cancelled, .failed, .interrupted: "not \(verb): "
        case .partial: "\(verb) in part: "
        case .completed, .running, .keptByNode, .unknown: ""
        }
    }

    /// The outcome of an item that was not transferred, with the side that has ended it where that is known.
    private static func ending(of entry: TransferHistory.Entry) -> String {
        let receiver = entry.direction == .incoming ? "you" : entry.name.shown(of: entry.id)
        return switch entry.outcome {
        case .declined: "declined by \(receiver)"
        case .expired: "expired: not answered by \(receiver) in time"
        default: entry.outcomeWord
        }
    }

    /// How to play a received voice note; empty for other files.
    private static func playHint(_ entry: TransferHistory.Entry) -> String {
        entry.voiceNote.map { ", voice note, \($0.duration.asClock); \(VoiceNoteRenderer.playHint($0))" } ?? ""
    }

    /// Whether this item has arrived at a path and a time. The time counts as well, because another item can have the path of one
    /// that was removed.
    /// - Parameter arrivalPath: nil for none.
    func hasArrived(at arrivalPath: String?, when time: WallTime) -> Bool {
        arrivalPath != nil && arrivalPath == path && isRecorded(at: time)
    }

    /// Whether the history recorded the item at the time at which a transfer ended.
    func isRecorded(at end: WallTime) -> Bool {
        let (delay, overflow) = when.milliseconds.subtractingReportingOverflow(end.milliseconds)
        return !overflow && delay.magnitude <= Self.maximumRecordingDelay
    }

    /// The lines of ``sentence``. Further lines are indented, as in messages.
    /// - Parameter head: stands before the first line.
    func lines(after head: String) -> [String] {
        sentence.lines.enumerated().map { number, line in (number == 0 ? head : "    ") + line }
    }
}
