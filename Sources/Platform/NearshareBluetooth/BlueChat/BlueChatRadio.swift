internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// Texts with BlueChat's peers.
final class BlueChatRadio: ChatRadio {
    private let adapter: AdapterThread
    private let subscriptionCount = Atomic(0)

    private static let maximumEventCount = 256
    private static let sendTimeout = Duration.seconds(60)

    init(_ adapter: AdapterThread) {
        self.adapter = adapter
    }

    func join(as name: DisplayName) -> AsyncStream<ChatRadioEvent> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: ChatRadioEvent.self, bufferingPolicy: .bufferingNewest(Self.maximumEventCount))
        // A subscription that was replaced must not end its successor.
        let subscription = subscriptionCount.add(1, ordering: .relaxed).newValue
        adapter.thread.post { $0.joinChat(as: name, subscription, continuation) }
        continuation.onTermination = { [adapter] _ in adapter.thread.post { $0.leaveChat(subscription) } }
        return stream
    }

    func send(_ text: String, to peer: LinkAddress) throws(LinkError) {
        let outcome = Monitor<LinkError??>(nil)
        adapter.thread.post { $0.chat.send(text, to: peer) { error in outcome.update { $0 = .some(error) } } }
        let deadline = (adapter.clock() + Self.sendTimeout).nanoseconds
        guard let outcome = outcome.wait(untilNanoseconds: deadline, { $0 }) else {
            throw LinkError(.timedOut, "timed out sending to \(peer.host) over Bluetooth; is it near enough?")
        }
        if let outcome { throw outcome }
    }

    func disconnect(_ peer: LinkAddress) {
        adapter.thread.post { $0.chat.disconnect(from: peer) }
    }
}
