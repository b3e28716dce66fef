internal import Glibc
package import Nearshare

/// The transfers in both directions, from all logs, the oldest first; peers have the names that the user has given them.
package struct TransferHistory {
    package struct Entry: NamedPeer, Sendable {
        package let when: WallTime
        package let direction: TransferProgress.Direction
        package let id: PeerID
        package let name: DisplayName
        package var otherName: DisplayName?
        /// The name as lists show it; safe for a terminal.
        package let listedName: String
        /// The items that were offered, or the path of the received one; safe for a terminal.
        package let content: String
        /// Bytes that the receiver has.
        package let size: UInt64
        package let outcome: RecordedOutcome
        /// The reason why a rule of the receiver has declined it, why it has left no item, or that the receiver does not confirm what
        /// it receives; safe for a terminal. nil for other ends.
        package var reason: String?
        /// Bytes of `size` that the receiver had before.
        package var presentSize: UInt64 = 0
        /// Bytes of the whole content; nil where it is not known.
        package var offeredSize: UInt64?
        /// The path of the received item; nil for what was sent or not received.
        package let path: String?
        /// Whether the user has removed the received item, at whose path another one may be.
        package var isRemoved = false
        /// Whether the received item has the name of a text message.
        var isMessage = false
        /// Whether it is a line of the conversation with the peer.
        package var isChatMessage = false
        /// The text that was sent, unescaped; nil for what was received.
        var sentText: String?
        /// Whether the received item has a media type of voice notes.
        var canBeVoiceNote = false

        /// The text of a message; nil for other items, where it is longer, and for a received one that is empty, not UTF-8, or
        /// missing.
        package func text(upTo byteCount: Int) -> String? {
            if let sentText { return sentText.utf8.count <= byteCount ? sentText : nil }
            guard isMessage, let path, let bytes = DeliveredContent.bytes(at: path, upTo: byteCount), !bytes.isEmpty else {
                return nil
            }
            return String(validating: bytes, as: UTF8.self)
        }

        /// The outcome as lists show it, without its reason.
        package var outcomeWord: String {
            guard outcome != .completed else { return direction == .incoming ? "received" : "sent" }
            return outcome.rawValue
        }

        /// The reason in brackets after a space, or nothing; safe for a terminal.
        package var reasonSuffix: String { reason.map { " (\($0))" } ?? "" }

        /// The received voice note; nil for other items, and where it is no longer there.
        package var voiceNote: VoiceNote? {
            guard canBeVoiceNote, let path else { return nil }
            return try? VoiceNote(path: path)
        }
    }

    package private(set) var entries: [Entry]

    package init(of machine: LocalMachine) throws(StorageError) {
        let trust = try machine.trust.read()
        entries = try ReceiveHistory(in: machine.state).entries(includesRemoved: true).map { entry in
            let isRemoved = entry.isRemoved == true
            return Entry(
                when: entry.when, direction: .incoming, id: entry.peer.peerID,
                name: trust.entries[entry.peer]?.name ?? entry.peerName, otherName: trust.entries[entry.peer]?.otherName,
                listedName: trust.listedName(of: entry.peer.peerID, claiming: entry.peerName),
                content: TerminalText.path(entry.path), size: entry.size, outcome: .completed,
                path: entry.path, isRemoved: isRemoved,
                isMessage: entry.claimedName == TextSource.fileName && !entry.isFolder && !isRemoved,
                canBeVoiceNote: !entry.isFolder && !isRemoved && entry.type.map(VoiceNote.mediaTypes.contains) ?? false)
        }
        let logs: [(TransferProgress.Direction, TransferLog.Kind)] = [(.incoming, .notReceived), (.outgoing, .sent)]
        for (side, kind) in logs {
            let logged = TransferLog.settled(try TransferLog(of: kind, in: machine.state).entries(), of: kind) {
                // With EPERM the number has become that of another user's process.
                kill($0, 0) == 0
            }
            entries += logged.compactMap { entry in
                guard let name = DisplayName(truncating: entry.peerName) ?? DisplayName(truncating: entry.peer.hex) else {
                    return nil
                }
                return Entry(
                    when: entry.when, direction: side, id: entry.peer,
                    name: trust.entry(claiming: entry.peer)?.entry.name ?? name,
                    otherName: trust.entry(claiming: entry.peer)?.entry.otherName,
                    listedName: trust.listedName(of: entry.peer, claiming: name),
                    content: entry.content, size: entry.size,
                    outcome: RecordedOutcome(rawValue: entry.outcome) ?? .unknown, reason: entry.reason,
                    presentSize: entry.presentSize ?? 0, offeredSize: entry.offeredSize, path: nil,
                    isChatMessage: entry.message != nil,
                    sentText: entry.text)
            }
        }
        entries.sort { $0.when < $1.when }
    }

    /// The transfers with a peer, the oldest first.
    /// - Parameter end: the time before which they ended; nil for all.
    package func entries(with peer: PeerID, before end: WallTime? = nil) -> [Entry] {
        entries.filter { entry in entry.id == peer && end.map { entry.when < $0 } ?? true }
    }

    /// The items that a conversation lists beside its lines, the oldest first: a message of the conversation is a line of its own,
    /// and a running transfer is listed when it has ended.
    /// - Parameters:
    ///   - end: the time before which they ended; nil for all.
    ///   - limit: of the latest items; nil for all.
    package func conversationItems(with peer: PeerID, before end: WallTime? = nil, limit: Int? = nil) -> [Entry] {
        let items = entries(with: peer, before: end).filter { !$0.isChatMessage && $0.outcome != .running }
        return limit.map { Array(items.suffix($0)) } ?? items
    }

    /// Keeps the transfers in one direction only.
    package mutating func restrict(to direction: TransferProgress.Direction) {
        entries.removeAll { $0.direction != direction }
    }

    /// Keeps the transfers with one peer only.
    /// - Parameter text: a name, an unambiguous prefix of one, or an id.
    package mutating func restrict(toPeer text: String) throws(CommandFailure) {
        // Each peer once, under its latest name.
        let peers = Dictionary(entries.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        switch NameSelection(of: text, among: Array(peers.values)) {
        case .none:
            throw CommandFailure(.peerNotFound, "there is no transfer with \(TerminalText.escaped(text)) in the history")
        case .one(let peer, _): entries.removeAll { $0.id != peer.id }
        case .several(let several): throw CommandFailure(.peerNotFound, NameSelection.ambiguity(of: text, several))
        }
    }
}
