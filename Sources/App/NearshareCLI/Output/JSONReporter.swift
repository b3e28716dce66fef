internal import Nearshare
internal import NearshareService

/// Reports to programs: one JSON event per line on standard output, as documented in `nearshare(5)`. Notices and warnings that
/// are not events go to standard error.
struct JSONReporter: Reporter {
    /// Whether progress is drawn on standard error, if that is a terminal.
    var showsProgress = false

    func report(_ event: OperationEvent) {
        switch event {
        case .searching(let name): JSONEvents.emit("looking", ["peer": .text(name)])
        case .searchingAgain(let id): JSONEvents.emit("looking", ["peer": .text(id.hex)])
        case .found(let id, let name, let transport):
            JSONEvents.emit(
                "found", ["peer": .text(id.hex), "name": .text(name.claimed), "via": .text(transport.rawValue)])
        case .inviting(let invitation): JSONEvents.emit("inviting", Self.fields(invitation))
        case .authenticationDigits(let id, let digits):
            JSONEvents.emit("code", ["peer": .text(id.hex), "code": .text(digits.digits)])
        case .waitingForAnswer(let id): JSONEvents.emit("waiting", ["transfer": .text(id.hex)])
        case .acceptedByReceiver(let id): JSONEvents.emit("accepted", ["transfer": .text(id.hex)])
        case .progress(let progress): JSONEvents.emit("progress", JSONEvents.progress(progress))
        case .nodeProgress(let id, let done, let total):
            JSONEvents.emit(
                "progress", ["transfer": .text(id.hex), "done": .number(done), "total": JSONValue(total)])
        case .resumed(let id, let offset):
            JSONEvents.emit("resumed", ["transfer": .text(id.hex), "offset": .number(offset)])
        case .sent(let result):
            JSONEvents.emit(
                "finished",
                [
                    "transfer": .text(result.transfer.hex), "outcome": .text(result.outcome.word),
                    "detail": JSONValue(result.detail), "peer": .text(result.peer.hex),
                ])
        case .invited(let invitation, let freeSpace):
            JSONEvents.emit("invitation", Self.fields(invitation, freeSpace: freeSpace))
        case .accepted(let id, let peer):
            JSONEvents.emit("accepted", ["transfer": .text(id.hex), "peer": .text(peer.hex)])
        case .delivered(let item, _, let id): JSONEvents.emit("delivered", Self.fields(item, id))
        case .receiveEnded(let result):
            var fields: [String: JSONValue] = [
                "outcome": .text(result.outcome.word), "peer": .text(result.peer.hex), "detail": JSONValue(result.detail),
            ]
            if let id = result.transfer { fields["transfer"] = .text(id.hex) }
            JSONEvents.emit("finished", fields)
        case .node(let event): report(event)
        case .result(let line): Console.result(line)
        case .notice(let line): Console.say(line)
        case .warning(let line): Console.complain(line)
        case .textDelivered: break
        }
    }

    func showProgress(of transfers: RunningTransfers) async {
        if showsProgress { await drawProgress { transfers.current } }
    }

    private func report(_ event: ControlEvent) {
        switch event {
        case .received(let message): JSONEvents.emit("message", MessageLine.fields(message))
        case .entry(let entry): if ChatLine.isShown(entry) { JSONEvents.emit("line", ChatLine.describe(entry)) }
        case .messageChanged(let id, let state, let detail):
            JSONEvents.emit(
                "message_changed", ["id": .text(id.hex), "state": .text(state.rawValue), "detail": JSONValue(detail)])
        case .notice(let line): Console.say(line)
        case .marked, .contacts, .transfer: break
        }
    }

    private static func fields(_ invitation: OutgoingInvitation) -> [String: JSONValue] {
        var fields: [String: JSONValue] = [
            "transfer": .text(invitation.transfer.hex), "peer": .text(invitation.peer.hex),
            "standing": .text(invitation.trustStatus.label), "via": .text(invitation.transport.rawValue),
        ]
        switch invitation.path {
        case .direct(let address): fields["address"] = .text(address.description)
        case .mesh(_, let estimate): fields["estimate"] = .number(UInt64(max(0, estimate.components.seconds)))
        case .node: break
        }
        return fields
    }

    private static func fields(_ invitation: Invitation, freeSpace: UInt64?) -> [String: JSONValue] {
        let peer = invitation.peer
        return [
            "peer": .text(peer.id.hex), "fingerprint": .text(peer.proven.fingerprint.hex), "name": .text(peer.name.claimed),
            "standing": .text(peer.trustStatus.label), "items": .list(invitation.offer.items.map(JSONEvents.describe)),
            "item_count": .number(UInt64(invitation.offer.itemCount)), "entries": .number(invitation.offer.entryCount),
            "total": JSONValue(invitation.offer.totalSize), "free": JSONValue(freeSpace),
        ]
    }

    private static func fields(_ item: DeliveredItem, _ id: TransferID?) -> [String: JSONValue] {
        var fields: [String: JSONValue] = [
            "path": .text(item.path), "name": .text(String(decoding: item.claimedName.bytes, as: UTF8.self)),
            "size": .number(item.size), "type": JSONValue(item.detectedType), "kind": .text("\(item.kind)"),
            "in_inbox": .flag(item.isInInbox), "warning": JSONValue(item.typeWarning),
        ]
        if let id { fields["transfer"] = .text(id.hex) }
        if item.kind == .text { fields["text"] = JSONValue(TextFile.read(item.path)) }
        if let note = VoiceArrival.note(in: item) { fields["voice"] = .object(note.json) }
        return fields
    }
}
