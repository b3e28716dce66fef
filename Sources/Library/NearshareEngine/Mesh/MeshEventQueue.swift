internal import NearshareBase
internal import NearshareMesh
internal import Synchronization

/// The events of a router that wait for the program.
///
/// Events that neighbours can cause at will are dropped beyond a limit, as on a radio link: peers repeat what is not
/// acknowledged. Those of contacts have half of the room, and the hosts share the rest: a flood of one of them drops nothing of
/// others while the program is slow. Other events are bounded by the router's tables, and none of them is lost (R1).
final class MeshEventQueue: Sendable {
    /// The events of one source that can be dropped.
    private struct Share {
        /// The numbers of the events, the oldest first.
        var numbers: ArraySlice<UInt64> = []
        var byteCount = 0
    }

    private struct State {
        /// The events by their numbers, which ascend in the order of their arrival.
        private var waiting: [UInt64: MeshReaction] = [:]
        private var lastNumber: UInt64 = 0
        /// No empty ones.
        private var shares: [PacketSource: Share] = [:]
        private var byteCount = 0

        /// - Returns: the event's number; nil for one that was dropped.
        mutating func append(_ reaction: MeshReaction) -> UInt64? {
            lastNumber += 1
            waiting[lastNumber] = reaction
            guard let cost = reaction.event.droppableByteCount else { return lastNumber }
            shares[reaction.source, default: Share()].numbers.append(lastNumber)
            shares[reaction.source]?.byteCount += cost
            byteCount += cost
            while byteCount > MeshEventQueue.byteCapacity, let source = sourceToShorten {
                remove(shares[source]?.numbers.popLast(), of: source)
            }
            return waiting.keys.contains(lastNumber) ? lastNumber : nil
        }

        /// - Returns: nil for an event that was dropped.
        mutating func remove(_ number: UInt64) -> MeshEvent? {
            guard let reaction = waiting[number] else { return nil }
            if reaction.event.droppableByteCount != nil { _ = shares[reaction.source]?.numbers.popFirst() }
            remove(number, of: reaction.source)
            return reaction.event
        }

        /// The source whose latest event is dropped: contacts that have more than their half, or else the host that has most.
        private var sourceToShorten: PacketSource? {
            guard shares[.known]?.byteCount ?? 0 <= MeshEventQueue.byteCapacity / 2 else { return .known }
            let others = shares.lazy.filter { $0.key != .known }
            // The one with the latest event where several have as much.
            return others.max {
                ($0.value.byteCount, $0.value.numbers.last ?? 0) < ($1.value.byteCount, $1.value.numbers.last ?? 0)
            }?.key
        }

        /// Removes an event whose number is no longer in its share.
        private mutating func remove(_ number: UInt64?, of source: PacketSource) {
            guard let number, let cost = waiting.removeValue(forKey: number)?.event.droppableByteCount else { return }
            byteCount -= cost
            shares[source]?.byteCount -= cost
            if shares[source]?.numbers.isEmpty == true { shares[source] = nil }
        }
    }

    /// The numbers of the events. One that was dropped stays in it, which happens only until no source has more than its share.
    private let stream: AsyncStream<UInt64>
    private let continuation: AsyncStream<UInt64>.Continuation
    private let state = Mutex(State())

    /// Limit on the memory of the waiting events that can be dropped.
    static let byteCapacity = 4 << 20

    init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    func append(_ reaction: MeshReaction) {
        state.withLock { state in
            // Under the lock, so that the numbers arrive in their order.
            if let number = state.append(reaction) { continuation.yield(number) }
        }
    }

    func finish() { continuation.finish() }

    /// Handles the events in their order, until ``finish()``.
    func run(_ handle: (MeshEvent) -> Void) async {
        for await number in stream {
            if let event = state.withLock({ $0.remove(number) }) { handle(event) }
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
