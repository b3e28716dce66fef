public import NearshareEngine
public import NearshareInterfaces
public import NearshareStorage

extension Invitation {
    /// Accepts the offer, and stores it in an inbox.
    /// - Returns: the transfer, for its progress and its result.
    /// - Throws: ``StorageError`` when the inbox has no room or cannot be used; the invitation is then still unanswered.
    public func accept(into inbox: Inbox) throws(StorageError) -> Transfer {
        let sink = try inbox.makeSink(
            for: offer, from: peer.fingerprint, resumeKey: resumeKey, clock: { SystemClock.monotonic() })
        return accept(into: sink)
    }
}
