internal import Nearshare
internal import NearshareService

/// Reports to programs: one JSON event per line on standard output, as documented in `nearshare(5)`. Results, notices and
/// warnings that are not events go to standard error.
struct JSONReporter: CommandReporter {
    /// Whether progress is drawn on standard error, if that is a terminal.
    var showsProgress = false
    /// Limits the messages of peers that the user does not know; nil where the user has asked for what is shown.
    var unknownPeers: UnknownPeerLimiter?
    /// Writes a line.
    var write: @Sendable (String) -> Void = { Console.writeResult($0) }

    func report(_ event: OperationEvent) {
        switch event {
        case .result(let line), .notice(let line), .node(.notice(let line, _, _)): Console.notice(line)
        case .warning(let line): Console.warn(line)
        case .searching, .found, .inviting, .authenticationDigits, .waitingForAnswer, .acceptedByReceiver, .progress,
            .partAccepted, .failed, .invitedCode, .nodeProgress, .reconnecting, .sent, .invited, .accepted, .delivered,
            .receiveEnded, .resumed, .goesOn, .hotspot, .node:
            guard let (name, members) = Self.jsonEvent(of: event) else { return }
            let line = JSONEvents.line(name, members)
            guard let author = Self.author(of: event) else { return write(line) }
            switch unknownPeers?.admit(from: author, cost: max(line.utf8.count, Self.minimumCost)) {
            case .shown, nil: break
            // The first that was left out was counted at once: it may have been the last event for a long time.
            case .shownAfter(let count): if count > 1 { write(JSONEvents.omitted(count - 1)) }
            case .firstHidden: return write(JSONEvents.omitted(1))
            case .hidden: return
            }
            write(line)
        }
    }

    func emit(_ events: @autoclosure () -> [JSONEvents.Event], text: () throws -> Void) rethrows {
        for (name, members) in events() { write(JSONEvents.line(name, members)) }
    }

    /// The bytes that a short event counts as, so that a flood of short ones leaves room for longer ones.
    private static let minimumCost = 1_024

    /// The peer that causes an event without a consent of the user: a message, an offer, or the end of one that was not accepted.
    /// - Returns: nil for another event; `.some(nil)` where the author's key is not known.
    private static func author(of event: OperationEvent) -> PeerID?? {
        switch event {
        case .node(.received(let message)): .some(message.sender)
        case .node(.chatMessage(let message, _)): .some(message.author)
        case .invited(let invitation, _): .some(invitation.peer.id)
        case .receiveEnded(let result) where result.transfer == nil: .some(result.peer)
        default: nil
        }
    }

    func showProgress(of transfers: RunningTransfers) async {
        if showsProgress { await ProgressDisplay.run(transfers) }
    }

    /// The name and the members of the JSON event; nil for an event without a JSON form.
    static func jsonEvent(of event: OperationEvent) -> (name: String, members: [String: JSONValue])? {
        switch event {
        case .searching(let name): ("searching", ["peer": .string(name)])
        case .reconnecting(let id, _, _, _): ("reconnecting", ["id": .string(id.hex)])
        case .found(let id, let name, let transport):
            ("found", ["peer": .string(id.hex), "name": .string(name.claimed), "via": .string(transport.rawValue)])
        case .inviting(let invitation): ("inviting", jsonMembers(invitation))
        case .authenticationDigits(let id, _, let digits, _):
            ("short_code", ["peer": .string(id.hex), "code": .string(digits.digits)])
        case .invitedCode(let id, let digits): ("short_code", ["peer": .string(id.hex), "code": .string(digits.digits)])
        case .failed(let receiver, let failure):
            (
                "failed",
                [
                    "peer": .string(receiver), "exit_code": .number(UInt64(failure.status.rawValue)),
                    "detail": .string(failure.message),
                ]
            )
        case .waitingForAnswer(let id): ("waiting", ["transfer": .string(id.hex)])
        case .acceptedByReceiver(let id): ("accepted", ["transfer": .string(id.hex)])
        case .partAccepted(let id, let part, _): ("part", ["transfer": .string(id.hex), "files": PartText.json(part)])
        case .progress(let progress): ("progress", JSONEvents.progress(progress))
        case .nodeProgress(let id, let done, let total):
            ("progress", JSONEvents.progress(id, done: done, total: total))
        case .resumed(let id, let offset): ("resumed", ["transfer": .string(id.hex), "offset": .number(offset)])
        case .sent(let result): ("finished", jsonMembers(result))
        case .invited(let invitation, let freeSpace): ("invitation", jsonMembers(invitation, freeSpace: freeSpace))
        case .accepted(let id, let peer): ("accepted", ["transfer": .string(id.hex), "peer": .string(peer.hex)])
        case .delivered(let item, let content, _, let id, _): ("delivered", jsonMembers(item, content, id))
        case .receiveEnded(let result): ("finished", jsonMembers(result))
        case .hotspot(let step): ("hotspot_state", jsonMembers(step))
        case .node(let event): jsonEvent(of: event)
        case .result, .notice, .warning, .goesOn: nil
        }
    }

    private static func jsonEvent(of event: ControlEvent) -> (name: String, members: [String: JSONValue])? {
        switch event {
        case .received(let message): ("message", ReceivedMessageRenderer.jsonMembers(message))
        case .chatMessage(let message, let isShownAsBundle):
            ChatMessageRenderer.isShown(message, isShownAsBundle: isShownAsBundle)
                ? ("chat_message", ChatMessageRenderer.jsonMembers(message)) : nil
        case .messageChanged(let id, let state, let detail):
            ("message_changed", ["id": .string(id.hex), "state": .string(state.rawValue), "detail": JSONValue(detail)])
        case .notice, .chatMessageChanged, .lifetimeChanged, .messagesExpired, .contacts, .transfer, .receiving: nil
        }
    }

    private static func jsonMembers(_ step: HotspotStep) -> [String: JSONValue] {
        var members: [String: JSONValue] = ["state": .string(step.state.rawValue)]
        if let peer = step.peer { members["peer"] = .string(peer.hex) }
        if let network = step.network { members["name"] = .string(network) }
        if let interface = step.interface { members["interface"] = .string(interface) }
        if step.state == .ended { members["replaced"] = JSONValue(step.replaced) }
        if let reason = step.reason {
            members["reason"] = .string(reason.rawValue)
            members["detail"] = JSONValue(step.sentence)
        }
        return members
    }

    private static func jsonMembers(_ result: SendResult) -> [String: JSONValue] {
        finishedMembers(
            result.outcome, missing: result.missing, peer: result.peer, detail: result.detail,
            changedNames: result.changedNames, compared: result.compared
        ).merging(["transfer": JSONValue(result.transfer?.hex)]) { $1 }
    }

    private static func jsonMembers(_ result: ReceiveResult) -> [String: JSONValue] {
        var members = finishedMembers(
            result.outcome, missing: result.missing, peer: result.peer, detail: result.detail,
            changedNames: result.changedNames, compared: result.compared)
        if let id = result.transfer { members["transfer"] = .string(id.hex) }
        return members
    }

    /// The members that the events about the end of a transfer in either direction have.
    private static func finishedMembers(
        _ outcome: TransferOutcome, missing: MissingFiles?, peer: PeerID, detail: String?, changedNames: ChangedNames,
        compared: ComparedFiles?
    ) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "outcome": .string(outcome.word), "peer": .string(peer.hex), "detail": JSONValue(detail),
        ]
        if let missing { add(missing, to: &members) }
        if !changedNames.isEmpty { members["changed_names"] = changedNames.json }
        if let compared { members["files"] = compared.json }
        return members
    }

    private static func add(_ missing: MissingFiles, to members: inout [String: JSONValue]) {
        members["outcome"] = .string(MissingFiles.word)
        members["missing"] = .object([
            "count": .number(missing.count), "offered": .number(missing.offered),
            "listed": .array(missing.listed.map { .string(String(decoding: $0.bytes, as: UTF8.self)) }),
        ])
    }

    private static func jsonMembers(_ invitation: OutgoingInvitation) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "transfer": .string(invitation.transfer.hex), "peer": .string(invitation.peer.hex),
            "trust": .string(invitation.trustStatus.label), "via": .string(invitation.transport.rawValue),
        ]
        switch invitation.path {
        case .direct(let address): members["address"] = .string(address.description)
        case .mesh(_, let estimate): members["estimate"] = .number(UInt64(max(0, estimate.components.seconds)))
        case .page(let address): (members["address"], members["protocol"]) = (.string(address.host), .string("web"))
        case .localSend(let address, let certificate):
            members["address"] = .string(address.description)
            (members["protocol"], members["certificate"]) = (.string("localsend"), .string(Hex.encode(certificate)))
        case .node: break
        }
        return members
    }

    private static func jsonMembers(_ invitation: Invitation, freeSpace: UInt64?) -> [String: JSONValue] {
        let peer = invitation.peer
        var members: [String: JSONValue] = [
            "peer": .string(peer.id.hex), "fingerprint": .string(peer.fingerprint.hex),
            "name": .string(peer.name.claimed),
            "trust": .string(peer.trustStatus.label),
            "items": .array(invitation.offer.items.map { .object(JSONEvents.jsonMembers($0)) }),
            "item_count": .number(UInt64(invitation.offer.itemCount)), "entries": .number(invitation.offer.entryCount),
            "total": JSONValue(invitation.offer.totalSize), "free": JSONValue(freeSpace),
        ]
        if let foreign = peer.foreign {
            members["protocol"] = .string(foreign.kind.rawValue)
            if let certificate = foreign.certificate { members["certificate"] = .string(Hex.encode(certificate)) }
        }
        return members
    }

    private static func jsonMembers(
        _ item: DeliveredItem, _ content: DeliveredContent, _ id: TransferID?
    ) -> [String: JSONValue] {
        var members: [String: JSONValue] = [
            "path": .string(item.path), "name": .string(String(decoding: item.claimedName.bytes, as: UTF8.self)),
            "size": .number(item.size), "type": JSONValue(item.detectedType), "kind": .string(item.kind.word),
            "in_inbox": .bool(item.isInInbox), "warning": JSONValue(item.typeWarning),
        ]
        if let id { members["transfer"] = .string(id.hex) }
        if item.isPresent { members["already_there"] = .bool(true) }
        if item.replacedCount > 0 { members["replaced"] = .number(item.replacedCount) }
        if item.newerCount > 0 { members["not_older"] = .number(item.newerCount) }
        switch content {
        case .text(let text): members["text"] = .string(text)
        case .voiceNote(let note): members["voice"] = .object(note.json)
        case .notShown: if item.kind == .text { members["text"] = .null }
        }
        return members
    }
}
