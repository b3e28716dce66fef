internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Reports to the user: results on standard output, everything else on standard error.
struct TextReporter: Reporter {
    /// The destination of output lines.
    enum Output: Sendable {
        case console
        /// The commands that use the node of this process.
        case publish(@Sendable (String) -> Void)
    }

    var output = Output.console

    func report(_ event: OperationEvent) {
        switch event {
        case .searching(let name): say("looking for \(TerminalText.escaped(name))…")
        case .searchingAgain: say("the connection was lost; searching again on all transports…")
        case .inviting(let invitation): say(Self.text(invitation))
        case .authenticationDigits(_, let digits): say("short code \(digits): the receiver's screen should show the same")
        case .sent(let result): if result.outcome == .completed { say(Self.text(result)) }
        case .textDelivered(let name): say("message → \(name.shown): delivered")
        case .delivered(let item, let sender, _): report(item, from: sender)
        case .receiveEnded(let result): report(result)
        case .node(let event): report(event)
        case .result(let line): writeResult(line)
        case .notice(let line): say(line)
        case .warning(let line): warn(line)
        case .found, .waitingForAnswer, .acceptedByReceiver, .progress, .nodeProgress, .invited, .accepted, .resumed: break
        }
    }

    func showProgress(of transfers: RunningTransfers) async {
        if case .console = output { await drawProgress { transfers.current } }
    }

    // MARK: Output

    private func writeResult(_ line: String) {
        switch output {
        case .console: Console.result(line)
        case .publish(let publish): publish(line)
        }
    }

    private func say(_ line: String) {
        switch output {
        case .console: Console.say(line)
        case .publish(let publish): publish(line)
        }
    }

    private func warn(_ line: String) {
        switch output {
        case .console: Console.complain(line)
        case .publish(let publish): publish(line)
        }
    }

    // MARK: Sending

    private static func text(_ invitation: OutgoingInvitation) -> String {
        let (name, trust) = (invitation.name, OfferText.describe(invitation.trustStatus))
        switch invitation.path {
        case .direct: return "inviting \(name) (\(trust))…"
        case .mesh(let isNeighbour, let estimate):
            let path = isNeighbour ? "directly to a neighbour" : "relayed by other peers"
            let duration = estimate >= .seconds(2) ? ", \(estimate.asClock) at least" : ""
            return "sending to \(name) (\(trust)) in the mesh, \(path)\(duration)"
        case .node: return "sending to \(name) in the mesh, by the node of this machine"
        }
    }

    private static func text(_ result: SendResult) -> String {
        let resumed =
            result.resumedByteCount > 0 ? ", \(result.resumedByteCount.asByteCount) of it sent earlier" : ""
        let detail = result.detail.map { "; \($0)" } ?? ""
        return "\(result.label): done, \(result.byteCount.asByteCount)\(resumed)\(detail)"
    }

    // MARK: Receiving

    private func report(_ item: DeliveredItem, from sender: Peer?) {
        if item.kind == .text, let text = TextFile.read(item.path) {
            let name = sender?.name.shown ?? "an earlier sender"
            for line in text.split(separator: "\n", omittingEmptySubsequences: false) {
                writeResult("\(name): \(TerminalText.escaped(String(line), columns: 4096))")
            }
            return
        }
        guard item.path != "" else { return }
        let type = item.detectedType.map { ", \($0)" } ?? ""
        let facts = item.kind == .folder ? "folder" : "\(item.size.asByteCount)\(type)"
        writeResult("\(TerminalText.escaped(item.path, columns: 4096))  (\(facts))")
        if let note = VoiceArrival.note(in: item) { for line in VoiceArrival.lines(note) { writeResult(line) } }
        if let warning = item.typeWarning { warn("check before you open it: \(warning)") }
        if !item.isInInbox { warn("the inbox is not writable; the item waits in the spool and is moved when it is") }
    }

    private func report(_ result: ReceiveResult) {
        let subject = "\(OfferText.summary(result.offer)) from \(result.name)"
        switch result.outcome {
        case .completed: say("\(subject): complete")
        case .declined(.declined): say("\(subject): declined\(result.detail.map { ": \($0)" } ?? "")")
        case .expired: say("\(subject): not answered in time, so it was declined")
        case .declined(let reason):
            say("\(subject): declined (\(reason.words))\(result.detail.map { ": \($0)" } ?? "")")
        default: warn("\(subject): \(result.detail ?? result.outcome.sentence(result.name))")
        }
    }

    // MARK: Node

    private func report(_ event: ControlEvent) {
        switch event {
        case .received(let message): writeResult(MessageLine.text(message))
        case .entry(let entry): if ChatLine.isShown(entry) { for line in ChatLine.lines(entry) { writeResult(line) } }
        case .notice(let line): say(line)
        case .messageChanged, .marked, .contacts, .transfer: break
        }
    }
}
