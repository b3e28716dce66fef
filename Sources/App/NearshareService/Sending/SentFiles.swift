package import Nearshare

/// The files that a chat sends, until their transfers have ended. The end of a short transfer can arrive before the reply with
/// the transfer's id: the node publishes events and replies on different tasks.
package struct SentFiles: Sendable {
    /// A transfer that has ended, and the file that it sent.
    package struct Ended: Sendable, Hashable {
        package let path: String
        package let status: TransferStatus
        package let outcome: TransferOutcome

        /// Adds the transfer to the history, and a voice note that has arrived to the notes that were sent.
        /// - Parameters:
        ///   - receiverName: nil where only the receiver's id is known.
        ///   - isNote: whether the file is a voice note that was recorded here.
        package func record(
            to receiverName: DisplayName?, isNote: Bool, at time: WallTime, on machine: LocalMachine
        ) throws {
            let name = receiverName?.claimed ?? status.peer.hex
            var entry = TransferLog.Entry(
                when: time, peer: status.peer, peerName: name, content: NameText.shown(status.name), size: status.done,
                outcome: RecordedOutcome(outcome).rawValue)
            entry.offeredSize = status.total
            try TransferLog(of: .sent, in: machine.state).append(entry)
            if isNote, outcome == .completed { try VoiceNoteStore(machine).recordSent(path, to: [name], at: time) }
        }
    }

    /// The running transfers of this chat, the oldest first.
    private var running: [(id: TransferStatus.ID, path: String)] = []
    /// Outgoing transfers that have ended, and whose reply has not arrived, the oldest first. Those of other commands of the same
    /// node stay here until newer ones replace them.
    private var unknownEnds: [TransferStatus] = []

    /// Limit on the ended transfers that wait for a reply. More than a user starts within one round trip.
    package static let maximumUnknownEndCount = 64
    /// Limit on the running transfers, beyond which the oldest is not in the history: its end may have been missed. A node sends far
    /// fewer at a time.
    package static let maximumRunningCount = 1024

    package init() {}

    /// Records the reply to a request to send a file.
    /// - Returns: the transfer, if it has ended already.
    package mutating func recordReply(_ id: TransferStatus.ID, path: String) -> Ended? {
        guard let index = unknownEnds.firstIndex(where: { $0.id == id }) else {
            running.append((id, path))
            if running.count > Self.maximumRunningCount { running.removeFirst() }
            return nil
        }
        return Self.ended(unknownEnds.remove(at: index), path)
    }

    /// Records the state of a transfer.
    /// - Returns: the transfer, if it has ended and is one of this chat.
    package mutating func recordStatus(_ status: TransferStatus) -> Ended? {
        guard status.outcome != nil, !status.isIncoming else { return nil }
        if let index = running.firstIndex(where: { $0.id == status.id }) {
            return Self.ended(status, running.remove(at: index).path)
        }
        unknownEnds.append(status)
        if unknownEnds.count > Self.maximumUnknownEndCount { unknownEnds.removeFirst() }
        return nil
    }

    private static func ended(_ status: TransferStatus, _ path: String) -> Ended? {
        status.outcome.map { Ended(path: path, status: status, outcome: $0) }
    }
}
