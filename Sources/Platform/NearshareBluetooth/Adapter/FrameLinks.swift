internal import NearshareInterfaces

/// The frame links that this machine has opened, and the subscriber that receives all links.
struct FrameLinks {
    private var links: [String: GATTClientLink] = [:]
    private var subscriber: (id: Int, continuation: AsyncStream<any FrameLink>.Continuation)?

    var isSubscribed: Bool { subscriber != nil }

    /// Replaces an earlier subscriber.
    mutating func subscribe(_ id: Int, _ continuation: AsyncStream<any FrameLink>.Continuation) {
        subscriber?.continuation.finish()
        subscriber = (id, continuation)
    }

    /// Closes all links, unless another one has subscribed since.
    /// - Returns: whether it was the subscriber.
    mutating func unsubscribe(_ id: Int) -> Bool {
        guard subscriber?.id == id else { return false }
        return finish()
    }

    /// Ends the subscription and closes all links.
    mutating func finish() -> Bool {
        subscriber?.continuation.finish()
        subscriber = nil
        for link in links.values { link.close() }
        return true
    }

    /// - Returns: false without a subscriber.
    func emit(_ link: any FrameLink) -> Bool {
        guard let subscriber else { return false }
        subscriber.continuation.yield(link)
        return true
    }

    /// Emits a link and remembers it; closes it without a subscriber.
    mutating func add(_ link: GATTClientLink, for path: String) {
        links[path] = link
        if !emit(link) { link.close() }
    }

    func close(_ path: String) { links[path]?.close() }

    func setSignal(_ signal: SignalReading, of path: String) { links[path]?.setSignal(signal) }

    /// Removes a link that was closed; a newer one to the same device stays.
    mutating func removeClosed(_ path: String) {
        if links[path]?.isClosed == true { links[path] = nil }
    }
}
