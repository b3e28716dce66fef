public import NearshareEngine
public import NearshareInterfaces
public import NearshareStorage

extension Invitation {
    /// Accepts the offer, and stores it in an inbox.
    /// - Returns: the transfer, for its progress and its result.
    /// - Throws: ``StorageError`` when the inbox has no room or cannot be used; the invitation is then still unanswered. Also
    ///   when the invitation was answered before, or has ended.
    public func accept(into inbox: Inbox) throws(StorageError) -> Transfer {
        let isAnswered = StorageError(.failed, "the offer was answered already")
        // A sink reserves space in the inbox.
        if wasAnswered { throw isAnswered }
        if let end = currentEnd {
            throw StorageError(.failed, end == .expired ? "the offer has expired" : "the offer was withdrawn")
        }
        let sink = try inbox.makeSink(
            for: offer, from: peer.fingerprint, resumeKey: resumeKey, clock: { SystemClock.monotonic() })
        guard let transfer = acceptIfOpen(into: sink) else { throw isAnswered }
        return transfer
    }
}
