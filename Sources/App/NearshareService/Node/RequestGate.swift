internal import Nearshare
internal import Synchronization

/// Counts the requests that a node is replying to, so that it hands its role over when none is open.
final class RequestGate: Sendable {
    private struct State {
        var count = 0
        var isClosed = false
    }

    private let state = Mutex(State())
    private let changed = AsyncCondition()
    private let hasEnded = Promise<Void>()
    /// Yields when another process requests the role.
    let handOverRequests: AsyncStream<Void>
    private let handOverContinuation: AsyncStream<Void>.Continuation

    init() { (handOverRequests, handOverContinuation) = AsyncStream.makeStream() }

    /// Performs a request.
    /// - Throws: ``ControlFailure/Kind/gone`` for a request that comes after the gate is closed, once the node has left the
    ///   mesh: a client that tried again at once would find the same node.
    func perform<Reply>(_ request: () async throws -> Reply) async throws -> Reply {
        let isAdmitted = state.withLock { state in
            if !state.isClosed { state.count += 1 }
            return !state.isClosed
        }
        guard isAdmitted else {
            _ = await hasEnded.value
            throw ControlFailure.handedOver
        }
        defer {
            state.withLock { $0.count -= 1 }
            changed.notifyAll()
        }
        return try await request()
    }

    /// Admits no more requests, and requests the hand-over of the role, on behalf of another process.
    func requestHandOver() {
        state.withLock { $0.isClosed = true }
        handOverContinuation.yield()
    }

    /// Waits until the requests that run have ended, or for the timeout.
    func drain(timeout: Duration) async {
        await withTimeout(timeout) { await self.changed.wait { self.isIdle } }
    }

    /// Fails the requests that came after the gate was closed, and ends ``handOverRequests``.
    func end() {
        handOverContinuation.finish()
        hasEnded.fulfil()
    }

    var isClosed: Bool { state.withLock { $0.isClosed } }

    private var isIdle: Bool { state.withLock { $0.count == 0 } }
}

extension ControlFailure {
    /// The failure of a request that comes while the node hands its role over.
    static var handedOver: ControlFailure { ControlFailure(.gone, "the node has handed its role over; try again") }
}
