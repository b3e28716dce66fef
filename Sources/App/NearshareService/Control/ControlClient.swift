internal import Glibc
package import Nearshare
internal import Synchronization

/// A client of a node that runs in another process.
package final class ControlClient: NodeClient {
    private struct State {
        var pending: [Int: CheckedContinuation<ControlReply?, Never>] = [:]
        var lastNumber = 0
        var hasEnded = false
        /// The reason why the node has served no request of this client.
        var refusal: ControlFailure?
        /// Fulfilled with the reply to the request for the events.
        var subscriptions: [Subscription: Promise<Result<Void, ControlFailure>>] = [:]
    }

    private enum Subscription {
        case events, receiving
    }

    private let link: LineLink
    private let state = Mutex(State())
    private let subscribers: Broadcast<ControlEvent>
    private let receiveSubscribers: Broadcast<ReceiveEvent>
    /// Links that the node offers after ``ControlRequest/receiveLinks``, for one reader, which claims each link by its number.
    let links: AsyncStream<OfferedDescriptor>
    private let linkContinuation: AsyncStream<OfferedDescriptor>.Continuation

    /// Limit on the events that wait for one slow reader.
    package static let maximumBufferedEventCount = 1_024

    /// - Returns: nil when no node listens at the path.
    /// - Throws: `ThreadError`.
    package init?(path: String) throws(ThreadError) {
        guard let descriptor = UnixSocket.connect(to: path) else { return nil }
        link = try LineLink(descriptor)
        subscribers = Broadcast(bound: Self.maximumBufferedEventCount)
        receiveSubscribers = Broadcast(bound: Self.maximumBufferedEventCount)
        (links, linkContinuation) = AsyncStream.makeStream()
    }

    /// Whether a node listens at the path.
    package static func hasListener(at path: String) -> Bool {
        guard let descriptor = UnixSocket.connect(to: path) else { return false }
        Glibc.close(descriptor)
        return true
    }

    /// Receives replies and events until the node ends or the task is cancelled. Runs beside all calls.
    package func run() async {
        await withTaskCancellationHandler {
            for await bytes in link.lines {
                switch ControlLine(bytes) {
                case .reply(let number, let reply)?:
                    state.withLock { $0.pending.removeValue(forKey: number) }?.resume(returning: reply)
                case .event(.receiving(let event))?: receiveSubscribers.publish(event)
                case .event(let event)?: subscribers.publish(event)
                case .offeredLink(let number, let opening)?:
                    if let descriptor = link.dequeueDescriptor() {
                        linkContinuation.yield(OfferedDescriptor(number: number, owning: descriptor, opening: opening))
                    }
                case .refused(let failure)?: state.withLock { $0.refusal = failure }
                // A later version may send lines that this one does not know.
                case .request?, nil: continue
                }
            }
        } onCancel: {
            link.close()
        }
        let pending = state.withLock { state in
            state.hasEnded = true
            defer { state.pending = [:] }
            return Array(state.pending.values)
        }
        for continuation in pending { continuation.resume(returning: nil) }
        subscribers.finish()
        receiveSubscribers.finish()
        linkContinuation.finish()
    }

    /// Closes the connection; pending requests fail.
    package func close() {
        link.close()
    }

    /// Asks the running node of this user to stop, on a connection of its own. Gives up after ``stopTimeout``.
    package static func stopNode(of machine: LocalMachine) async {
        _ = try? await withRunningNode(of: machine) { client in
            await firstResult(
                of: { try? await client.stop() },
                {
                    // Closing ends the wait for the reply.
                    if (try? await Task.sleep(for: stopTimeout)) != nil { client.close() }
                })
        }
    }

    private static let stopTimeout = Duration.seconds(3)

    package func submit(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        let reply = await withCheckedContinuation { continuation in
            let number: Int? = state.withLock { state in
                guard !state.hasEnded else { return nil }
                state.lastNumber += 1
                state.pending[state.lastNumber] = continuation
                return state.lastNumber
            }
            guard let number else { return continuation.resume(returning: nil) }
            if let line = ControlLine.request(number, request).encoded { return link.send(line) }
            let failure = ControlFailure(.refused, "the request cannot be written")
            state.withLock { $0.pending.removeValue(forKey: number) }?.resume(returning: .failed(failure))
        }
        switch reply {
        case .failed(let failure)?: throw failure
        case let reply?: return reply
        case nil: throw state.withLock(\.refusal) ?? ControlFailure(.gone, "the node ended before it replied; try again")
        }
    }

    package func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> {
        let stream = subscribers.subscribe()
        try await subscribe(to: .events)
        return stream
    }

    package func receiveEvents() async throws(ControlFailure) -> AsyncStream<ReceiveEvent> {
        let stream = receiveSubscribers.subscribe()
        try await subscribe(to: .receiving)
        return stream
    }

    /// Asks for events, unless that was done: one subscription on the connection serves all readers of this client.
    private func subscribe(to subscription: Subscription) async throws(ControlFailure) {
        let (outcome, isFirst) = state.withLock { state in
            if let outcome = state.subscriptions[subscription] { return (outcome, false) }
            let outcome = Promise<Result<Void, ControlFailure>>()
            state.subscriptions[subscription] = outcome
            return (outcome, true)
        }
        if isFirst {
            do throws(ControlFailure) {
                _ = try await submit(subscription == .events ? .subscribe : .subscribeReceiving)
                outcome.fulfil(.success(()))
            } catch {
                // The next reader asks again.
                state.withLock { $0.subscriptions[subscription] = nil }
                outcome.fulfil(.failure(error))
            }
        }
        if case .failure(let failure)? = await outcome.value { throw failure }
    }
}
