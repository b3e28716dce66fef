internal import NearshareInterfaces

/// A session's events for its program. The program may not read them, so their number is limited.
struct SessionEvents: Sendable {
    typealias Stream<Event: Sendable> = (stream: AsyncStream<Event>, continuation: AsyncStream<Event>.Continuation)

    /// The oldest are dropped beyond the limit.
    let changes: Stream<Session.Change> = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(Self.maximumChangeCount))
    // Events beyond the limit are dropped, which resets a stream, declines an offer, and answers a question with no.
    let streams: Stream<Session.ReceivedStream> = AsyncStream.makeStream(
        bufferingPolicy: .bufferingOldest(Self.maximumEventCount))
    let resources: Stream<Invitation> = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumEventCount))
    let questions: Stream<IdentityQuestion> = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Self.maximumEventCount))

    private static let maximumChangeCount = 4096
    /// Limit on unread events of each kind.
    private static let maximumEventCount = 256

    func finish() {
        changes.continuation.finish()
        streams.continuation.finish()
        resources.continuation.finish()
        questions.continuation.finish()
    }
}
