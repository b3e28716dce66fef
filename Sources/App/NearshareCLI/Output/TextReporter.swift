internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Renders the events of operations as text: results on standard output, everything else on standard error.
struct TextReporter: CommandReporter {
    /// The destination of output lines.
    enum Output: Sendable {
        case console
        /// The commands that use the node of this process.
        case publish(@Sendable (ControlEvent) -> Void)
    }

    var output = Output.console
    /// Limits the lines of peers that the user does not know; nil where the user has asked for what is shown.
    var unknownPeers: UnknownPeerLimiter?
    /// The conversation to which published lines belong; nil for none.
    private var conversation: Conversation?
    /// The path of the received item that published lines are about; nil for none.
    private var item: String?
    /// The senders whose names the user has been warned about. Bounded (R6).
    private let warnedSenders = Monitor(Set<PeerID>())

    init(output: Output = .console, unknownPeers: UnknownPeerLimiter? = nil) {
        (self.output, self.unknownPeers) = (output, unknownPeers)
    }

    func report(_ event: OperationEvent) {
        var reporter = self
        switch event {
        case .delivered(let item, _, _, _, let conversation):
            reporter.conversation = conversation
            reporter.item = item.path.isEmpty ? nil : item.path
        case .receiveEnded(let result): reporter.conversation = result.conversation
        default: break
        }
        reporter.write(event)
    }

    func emit(_ events: @autoclosure () -> [JSONEvents.Event], text: () throws -> Void) rethrows { try text() }

    private func write(_ event: OperationEvent) {
        switch event {
        case .searching(let name): notice("looking for \(TerminalText.escaped(name))…")
        case .reconnecting(_, let name, let timeLeft, let isBusy):
            // A warning has said that the peer is busy.
            let reason = isBusy ? "" : "the connection to \(name) was lost; "
            notice("\(reason)trying again for \(timeLeft.asLargestUnit)…")
        case .inviting(let invitation): notice(Self.text(invitation))
        case .authenticationDigits(let id, let name, let digits, let isKnown):
            let name = name.besideCode(of: id)
            notice(
                isKnown
                    ? "if \(name) sees a short code, it should be \(digits)"
                    : "short code \(digits): \(name) should see the same")
        case .sent(let result):
            switch result.outcome {
            case .completed:
                notice(Self.text(result))
                if let line = result.compared?.sentence { notice(line) }
                if let line = result.changedNames.sentence("by \(result.receiver)'s machine") { notice(line) }
            // The user has ended the command, so that no error says it.
            case .cancelled(by: .local): notice("\(result.label): \(result.outcome.sentence("", canResume: result.canResume))")
            default: break
            }
        case .delivered(let item, let content, let sender, _, _): reportDelivered(item, content, from: sender)
        case .receiveEnded(let result): if !result.isSilent { reportEnd(result) }
        case .hotspot(let step):
            // A network that has ended by itself is a problem.
            if let line = step.sentence { step.state == .ended && step.reason != nil ? warn(line) : notice(line) }
        case .node(let event): reportNodeEvent(event)
        case .result(let line): writeResult(line)
        case .notice(let line): notice(line)
        case .warning(let line): warn(line)
        case .goesOn(let line, let peer): if admitsRows(from: peer) { notice(line) }
        case .partAccepted(_, let part, let receiver): notice(PartText.sentence(part, by: receiver))
        // The failure of a send ends the command, which says it.
        case .found, .waitingForAnswer, .acceptedByReceiver, .progress, .nodeProgress, .invited, .invitedCode, .accepted,
            .resumed, .failed:
            break
        }
    }

    func showProgress(of transfers: RunningTransfers) async {
        if case .console = output { await ProgressDisplay.run(transfers) }
    }

    // MARK: Output

    private var isPublished: Bool { if case .publish = output { true } else { false } }

    private func published(_ text: String) -> ControlEvent { .notice(text, in: conversation, about: item) }

    private func writeResult(_ line: String) { write(line) { Console.writeWrappedResult($0) } }

    /// Writes lines that a peer has written; only the first rows of them where lines are limited.
    /// - Parameters:
    ///   - lines: escaped for a terminal.
    ///   - place: where all of them are, as a sentence.
    private func writeMessage(
        _ lines: some Sequence<some StringProtocol>, from author: PeerID?, rows limit: Int, elsewhere place: String
    ) {
        guard unknownPeers != nil else { return writeAll(lines, elsewhere: place) }
        var shown: [String] = []
        var rowCount = 0
        var isWhole = true
        for line in lines {
            let availableColumns = (limit - rowCount) * Self.rowColumns
            guard availableColumns > 0 else {
                isWhole = false
                break
            }
            let row = TextLayout.truncated(String(line), to: availableColumns)
            rowCount += max(1, (TerminalText.width(of: row) + Self.rowColumns - 1) / Self.rowColumns)
            isWhole = isWhole && row == line
            shown.append(row)
        }
        guard admitsRows(rowCount, from: author) else { return }
        for line in shown { writeResult(line) }
        if !isWhole {
            notice("… the rest of this message is not shown; \(place)")
        }
    }

    /// Writes the lines of a message; to other processes, the first ones in one event.
    private func writeAll(_ lines: some Sequence<some StringProtocol>, elsewhere place: String) {
        switch output {
        case .console: for line in lines { writeResult(String(line)) }
        case .publish(let publish):
            var shown = lines.prefix(Self.maximumTextRowCount + 1).map { String($0) }
            if shown.count > Self.maximumTextRowCount {
                shown[Self.maximumTextRowCount] = "… the rest of this message is not shown; \(place)"
            }
            publish(published(shown.joined(separator: "\n")))
        }
    }

    /// The width by which rows are counted, of a usual terminal.
    private static let rowColumns = 80

    /// Decides whether rows that a peer has caused are shown, and says how many were not.
    private func admitsRows(_ count: Int = 1, from peer: PeerID?) -> Bool {
        switch unknownPeers?.admit(from: peer, cost: count, count: count) {
        case .shown, nil: return true
        case .shownAfter(let count):
            notice("\(count) more \(count == 1 ? "line" : "lines") because of unknown peers; \(Self.whereAllIsShown)")
            return true
        case .firstHidden:
            notice("unknown peers cause more lines than are shown; \(Self.whereAllIsShown)")
            return false
        case .hidden: return false
        }
    }

    private static let whereAllIsShown = "`nearshare history`, `nearshare chat` and `nearshare messages` show all"

    private func notice(_ line: String) { write(line) { Console.notice($0) } }
    /// Published warnings say so, as the other commands show all sentences alike.
    private func warn(_ line: String) {
        switch output {
        case .console: Console.warn(line)
        case .publish(let publish): publish(published("warning: \(line)"))
        }
    }

    private func write(_ line: String, toConsole: (String) -> Void) {
        switch output {
        case .console: toConsole(line)
        case .publish(let publish): publish(published(line))
        }
    }

    /// The width and style of lines on the console.
    private var layout: (columns: Int, style: ANSIStyle) {
        guard TerminalProperties.isTerminal(STDOUT_FILENO) else { return (80, ANSIStyle(isEnabled: false)) }
        let columns = TerminalProperties.size(of: STDOUT_FILENO).columns
        return (columns, ANSIStyle(isEnabled: TerminalProperties.hasColor(STDOUT_FILENO)))
    }

    // MARK: Sending

    private static func text(_ invitation: OutgoingInvitation) -> String {
        let (name, trust) = (invitation.name, OfferText.describe(invitation.trustStatus))
        // The user was asked, or has allowed it.
        guard invitation.isEncrypted else { return "sending to \(name) again, readable by everyone who relays it" }
        switch invitation.path {
        case .direct: return "inviting \(name) (\(trust))…"
        case .mesh(let isNeighbour, let estimate):
            let path = isNeighbour ? "directly to a neighbour" : "relayed by other peers"
            let duration = estimate >= .seconds(2) ? ", \(estimate.asClock) at least" : ""
            return "sending to \(name) (\(trust)) over the mesh, \(path)\(duration)"
        case .page: return "\(name) has opened the page"
        case .localSend(_, let certificate):
            return "inviting \(name) (\(trust)), with LocalSend, certificate \(CertificateText.short(certificate))…"
        case .node: return "sending to \(name) in the mesh, by the node of this machine"
        }
    }

    private static func text(_ result: SendResult) -> String {
        let part = result.part.map { ", \($0.accepted) of \($0.offered) files accepted" } ?? ""
        let detail = result.detail.map { "; \($0)" } ?? ""
        return "\(result.label): \(result.unsentText ?? "done, \(sizes(of: result))")\(part)\(detail)"
    }

    /// The sizes of what was sent, and of what the receiver had already.
    private static func sizes(of result: SendResult) -> String {
        let (earlier, present) = (result.resumedByteCount, result.compared?.unsentByteCount ?? 0)
        let sent = result.byteCount.subtractingClamped(earlier).subtractingClamped(present)
        guard sent < result.byteCount else { return result.byteCount.formattedByteCount }
        let parts =
            ["\(sent.formattedByteCount) of \(result.byteCount.formattedByteCount) sent"]
            + (earlier > 0 ? ["\(earlier.formattedByteCount) sent earlier"] : [])
            // A newer file there is another one.
            + (present > 0
                ? ["\(present.formattedByteCount) \((result.compared?.newerCount ?? 0) > 0 ? "not needed" : "already there")"]
                : [])
        return parts.joined(separator: ", ")
    }

    // MARK: Receiving

    /// Limit on the rows of a text by a peer that the user knows.
    private static let maximumTextRowCount = 200

    private func reportDelivered(_ item: DeliveredItem, _ content: DeliveredContent, from sender: ShownPeer?) {
        if case .text(let text) = content {
            let name = sender.map { $0.name.shown(of: $0.id) } ?? "unknown sender"
            let isUnknown = unknownPeers.map { !$0.isKnown(sender?.id) } ?? false
            writeMessage(
                text.lines.lazy.enumerated().map { number, line in
                    // Other processes indent further lines of an event.
                    number == 0 || !isPublished || unknownPeers != nil
                        ? "\(name): \(TextLayout.escaped(line))" : TextLayout.escaped(line)
                }, from: sender?.id,
                rows: isUnknown ? UnknownPeerLimiter.Allowance.rows.burst : Self.maximumTextRowCount,
                elsewhere: item.path.isEmpty
                    ? "`nearshare history` shows it" : "all of it is in \(TerminalText.path(item.path))")
            return
        }
        // Standard output has no path.
        guard !item.path.isEmpty else { return }
        // On the console, the line about the end names the sender.
        let author = isPublished ? sender.map { " from \($0.name.shown(of: $0.id))" } ?? "" : ""
        let type = item.detectedType.map { ", \($0)" } ?? ""
        var facts = item.kind == .folder ? "folder" : "\(item.size.formattedByteCount)\(type)"
        // In a folder, files that are newer here may have been left.
        if item.isPresent { facts += item.kind == .folder ? ", nothing new" : ", already there" }
        if item.isMergeable { facts += ", beside the earlier one, which `receive --update` would update" }
        if item.replacedCount > 0 {
            facts += ", \(item.replacedCount) \(item.replacedCount == 1 ? "file" : "files") replaced"
        }
        if item.newerCount > 0 {
            facts += ", \(item.newerCount) \(item.newerCount == 1 ? "file" : "files") left, newer or as new as the sender's"
        }
        writeResult("\(TerminalText.path(item.path))  (\(facts))\(author)")
        if case .voiceNote(let note) = content {
            switch output {
            case .console:
                let (columns, style) = layout
                for line in VoiceNoteRenderer.lines(note, from: sender?.name, columns: columns, style: style) {
                    Console.writeResult(line, isMessage: true)
                }
            case .publish(let publish): publish(published(VoiceNoteRenderer.notice(note, from: sender?.name)))
            }
        }
        if let warning = item.typeWarning { warn("check before you open it: \(warning)") }
        if !item.isInInbox {
            warn("the inbox is not available; the item waits in the spool, and is moved when the inbox is available again")
        }
    }

    private func reportEnd(_ result: ReceiveResult) {
        let subject = "\(OfferText.summary(result.offer)) from \(result.name)"
        switch result.outcome {
        case .completed:
            // The published line about the item says it.
            if !isPublished || result.transfer == nil { notice("\(subject): complete") }
            if let line = result.compared?.sentence { notice(line) }
            if let line = result.changedNames.sentence("to be stored here") { notice(line) }
        case .declined(.declined): notice("\(subject): declined\(result.detail.map { ": \($0)" } ?? "")")
        case .expired: notice("\(subject): expired: not answered in time")
        case .declined(let reason):
            notice("\(subject): declined (\(reason.words))\(result.detail.map { ": \($0)" } ?? "")")
        default:
            guard admitsRows(from: result.peer) else { return }
            let sentence = result.outcome.receiverSentence(result.name, isResumable: result.isResumable)
            warn("\(subject): \(result.detail ?? sentence)")
            // The other files have arrived.
            if result.missing != nil, let line = result.changedNames.sentence("to be stored here") { notice(line) }
        }
    }

    // MARK: Node

    private static let maximumWarnedSenderCount = 1_024

    /// Warns once of a sender that uses the name of another known peer (K2).
    private func warnOnce(of message: ReceivedMessage) {
        guard let sender = message.sender, let warning = message.nameWarning else { return }
        let isKnown = warnedSenders.withLock { $0.contains(sender) || $0.count >= Self.maximumWarnedSenderCount }
        guard !isKnown, admitsRows(from: sender) else { return }
        warnedSenders.withLock { _ = $0.insert(sender) }
        warn(warning)
    }

    /// Limit on the rows of one message: what is read in passing.
    private static let maximumMessageRowCount = 10

    private func reportNodeEvent(_ event: ControlEvent) {
        switch event {
        case .received(let message):
            writeMessage(
                ReceivedMessageRenderer.line(message).lines, from: message.sender,
                rows: Self.maximumMessageRowCount,
                elsewhere: "`nearshare messages` shows it")
            warnOnce(of: message)
        case .chatMessage(let message, let isShownAsBundle):
            guard ChatMessageRenderer.isShown(message, isShownAsBundle: isShownAsBundle) else { return }
            writeMessage(
                ChatMessageRenderer.lines(message), from: message.author, rows: Self.maximumMessageRowCount,
                elsewhere: "`nearshare chat` shows it")
        case .notice(let line, _, _): notice(line)
        case .messageChanged, .chatMessageChanged, .lifetimeChanged, .messagesExpired, .contacts, .transfer, .receiving: break
        }
    }
}
