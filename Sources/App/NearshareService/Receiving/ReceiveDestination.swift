internal import Glibc
package import Nearshare

/// The destination of received content.
package enum ReceiveDestination: Sendable {
    case inbox(Inbox)
    /// - Parameter limit: in bytes.
    case standardOutput(limit: UInt64?)

    /// The inbox; nil for standard output.
    package var inbox: Inbox? {
        switch self {
        case .inbox(let inbox): inbox
        case .standardOutput: nil
        }
    }

    package var freeSpace: UInt64? { inbox?.freeSpace }

    /// - Parameters:
    ///   - part: the accepted part; nil for the whole offer.
    ///   - mayCompare: whether the sender may learn which files of the item at a path are there already.
    ///   - reserveQuota: called when the disk space is known that the transfer takes, in bytes, before content; refuses it by throwing.
    ///   - output: the reservation of standard output, which records the first bytes, and that the reader has closed it.
    func makeSink(
        for invitation: Invitation, part: OfferPart? = nil, mayCompare: (String) -> Bool,
        reserveQuota: @escaping @Sendable (UInt64) throws(StorageError) -> Void, output: StandardOutputReservation
    ) throws(StorageError) -> any ResourceSink {
        switch self {
        case .inbox(let inbox):
            return try inbox.makeSink(
                for: part?.offer ?? invitation.offer, listed: invitation.contents, selection: part?.selection,
                from: invitation.peer.fingerprint, resumeKey: invitation.resumeKey, mayCompare: mayCompare,
                reserveQuota: reserveQuota, clock: { SystemClock.monotonic() })
        case .standardOutput(let limit):
            return OutputSink(
                descriptor: STDOUT_FILENO, limit: limit, onOutput: { output.recordUse() }, onClosed: { output.recordClosure() })
        }
    }
}
