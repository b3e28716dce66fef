internal import NearshareInterfaces
internal import Synchronization

/// Frame links over GATT, in both roles.
final class GATTFrameRadio: FrameRadio {
    private let adapter: AdapterThread
    private let subscriptionCount = Atomic(0)

    init(_ adapter: AdapterThread) {
        self.adapter = adapter
    }

    func links() -> AsyncStream<any FrameLink> {
        let (stream, continuation) = AsyncStream.makeStream(of: (any FrameLink).self)
        // A subscription that was replaced must not end its successor.
        let subscription = subscriptionCount.add(1, ordering: .relaxed).newValue
        adapter.thread.post { $0.subscribeToFrames(subscription, continuation) }
        // Keeps the adapter open while links are iterated.
        continuation.onTermination = { [adapter] _ in adapter.thread.post { $0.unsubscribeFromFrames(subscription) } }
        return stream
    }
}
