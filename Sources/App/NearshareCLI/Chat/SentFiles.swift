internal import Nearshare
internal import NearshareService

/// The files that a chat sends, until their transfers have ended. The end of a short transfer can arrive before the reply with
/// the transfer's id: the node publishes events and replies on different tasks.
struct SentFiles: Sendable {
    /// A transfer that has ended, and the file that it sent.
    struct Ended: Sendable, Hashable {
        let path: String
        let status: TransferStatus
        let outcome: TransferOutcome
    }

    /// The running transfers of this chat, the oldest first.
    private var running: [(id: TransferStatus.ID, path: String)] = []
    /// Outgoing transfers that have ended, and whose reply has not arrived, the oldest first. Those of other commands of the same
    /// node stay here until newer ones replace them.
    private var unknownEnds: [TransferStatus] = []

    /// Limit on the ended transfers that wait for a reply. More than a user starts within one round trip.
    static let maximumUnknownEndCount = 64
    /// Limit on the running transfers, beyond which the oldest is not in the history: its end may have been missed. A node sends far
    /// fewer at a time.
    static let maximumRunningCount = 1024

    /// Records the reply to a request to send a file.
    /// - Returns: the transfer, if it has ended already.
    mutating func recordReply(_ id: TransferStatus.ID, path: String) -> Ended? {
        guard let index = unknownEnds.firstIndex(where: { $0.id == id }) else {
            running.append((id, path))
            if running.count > Self.maximumRunningCount { running.removeFirst() }
            return nil
        }
        return Self.ended(unknownEnds.remove(at: index), path)
    }

    /// Records the state of a transfer.
    /// - Returns: the transfer, if it has ended and is one of this chat.
    mutating func recordStatus(_ status: TransferStatus) -> Ended? {
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
