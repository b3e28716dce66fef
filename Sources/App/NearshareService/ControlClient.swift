internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// The door of a node that runs in another process.
package final class ControlClient: NodeClient {
    private struct State {
        var waiting: [Int: CheckedContinuation<ControlReply?, Never>] = [:]
        var lastNumber = 0
        var isOver = false
        var listeners: [AsyncStream<ControlEvent>.Continuation] = []
    }

    private let link: LineLink
    private let state = Mutex(State())

    private static let maximumWaitingEvents = 1_024

    /// - Returns: nil when no node listens at the path.
    package init?(path: String) {
        guard let descriptor = UnixSocket.connect(to: path) else { return nil }
        link = LineLink(descriptor)
    }

    /// Whether a node listens at the path.
    package static func isAnswered(at path: String) -> Bool {
        guard let descriptor = UnixSocket.connect(to: path) else { return false }
        Glibc.close(descriptor)
        return true
    }

    /// Takes what the node says, until it ends or the task is cancelled. To be run beside all else.
    package func run() async {
        await withTaskCancellationHandler {
            for await bytes in link.lines {
                switch ControlLine(bytes) {
                case .reply(let number, let reply)?:
                    state.withLock { $0.waiting.removeValue(forKey: number) }?.resume(returning: reply)
                case .event(let event)?:
                    for listener in state.withLock({ $0.listeners }) { listener.yield(event) }
                // A later version says more than this one knows.
                case .request?, nil: continue
                }
            }
        } onCancel: {
            link.close()
        }
        let (waiting, listeners) = state.withLock { state in
            state.isOver = true
            defer { (state.waiting, state.listeners) = ([:], []) }
            return (Array(state.waiting.values), state.listeners)
        }
        for one in waiting { one.resume(returning: nil) }
        for listener in listeners { listener.finish() }
    }

    /// Ends the link; what is being waited for fails.
    package func close() {
        link.close()
    }

    package func ask(_ request: ControlRequest) async throws(ControlFailure) -> ControlReply {
        let reply = await withCheckedContinuation { continuation in
            let number: Int? = state.withLock { state in
                guard !state.isOver else { return nil }
                state.lastNumber += 1
                state.waiting[state.lastNumber] = continuation
                return state.lastNumber
            }
            guard let number else { return continuation.resume(returning: nil) }
            link.send(ControlLine.request(number, request).encoded)
        }
        switch reply {
        case .failed(let failure)?: throw failure
        case let reply?: return reply
        case nil: throw ControlFailure(.gone, "the node has ended in the middle; try it again")
        }
    }

    package func events() async throws(ControlFailure) -> AsyncStream<ControlEvent> {
        let (stream, continuation) = AsyncStream<ControlEvent>.makeStream(
            bufferingPolicy: .bufferingNewest(Self.maximumWaitingEvents))
        let isFirst = state.withLock { state in
            guard !state.isOver else {
                continuation.finish()
                return false
            }
            state.listeners.append(continuation)
            return state.listeners.count == 1
        }
        // One stream of events on the link serves all who listen here.
        if isFirst { _ = try await ask(.follow) }
        return stream
    }
}
