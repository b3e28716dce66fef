internal import NearshareBase
internal import NearshareMesh
internal import Synchronization

/// The events of a router that wait for the program.
///
/// Events that neighbours can cause at will are dropped beyond a limit, as on a radio link: peers repeat what is not
/// acknowledged. Other events are bounded by the router's tables, and none of them is lost (R1).
final class MeshEventQueue: Sendable {
    private let stream: AsyncStream<MeshEvent>
    private let continuation: AsyncStream<MeshEvent>.Continuation
    /// Memory of the waiting events that can be dropped.
    private let byteCount = Mutex(0)

    static let byteCapacity = 4 << 20

    init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    func append(_ event: MeshEvent) {
        if let cost = event.droppableByteCount {
            let isAdmitted = byteCount.withLock { count in
                guard count + cost <= Self.byteCapacity else { return false }
                count += cost
                return true
            }
            guard isAdmitted else { return }
        }
        continuation.yield(event)
    }

    func finish() { continuation.finish() }

    /// Handles the events in their order, until ``finish()``.
    func run(_ handle: (MeshEvent) -> Void) async {
        for await event in stream {
            handle(event)
            if let cost = event.droppableByteCount { byteCount.withLock { $0 -= cost } }
        }
    }
}

extension MeshEvent {
    /// Memory of an event that its sender repeats, or that nothing depends on; nil for any other.
    fileprivate var droppableByteCount: Int? {
        switch self {
        case .publicMessage(_, _, let text, _), .privateMessage(_, _, let text): text.utf8.count + Self.overhead
        case .bundlePacket(let bytes, _): bytes.count + Self.overhead
        case .pong, .fragmentsReceived, .clockSkewDetected, .verificationResponse: Self.overhead
        default: nil
        }
    }

    private static let overhead = 512
}
