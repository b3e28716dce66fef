/// The in-memory form of a frame link: two ends in one process. Chunks arrive whole at the other end.
package final class InMemoryFrameLink: FrameLink {
    private struct Queue {
        var chunks: [[UInt8]] = []
        var isClosed = false
    }

    package let remote: LinkAddress
    package let maximumFrameByteCount: Int
    package let delivery: FrameDelivery
    package let signal: SignalReading?
    private let incoming: Monitor<Queue>
    private let outgoing: Monitor<Queue>
    private let capacity: Int

    private init(
        to remote: LinkAddress, maximumFrameByteCount: Int, delivery: FrameDelivery, signal: SignalReading?,
        incoming: Monitor<Queue>, outgoing: Monitor<Queue>, capacity: Int
    ) {
        self.remote = remote
        self.maximumFrameByteCount = maximumFrameByteCount
        self.delivery = delivery
        self.signal = signal
        self.incoming = incoming
        self.outgoing = outgoing
        self.capacity = capacity
    }

    /// - Parameters:
    ///   - signal: that of both ends.
    ///   - capacity: limit on the chunks that are queued in each direction; a full queue blocks its sender.
    package static func pair(
        maximumFrameByteCount: Int = 512, delivery: FrameDelivery = .whole, signal: SignalReading? = nil, capacity: Int = 128
    ) -> (one: InMemoryFrameLink, other: InMemoryFrameLink) {
        let (there, back) = (Monitor(Queue()), Monitor(Queue()))
        let address = { (end: String) in LinkAddress(host: "memory \(end)", port: 0, medium: .bluetooth) }
        return (
            InMemoryFrameLink(
                to: address("two"), maximumFrameByteCount: maximumFrameByteCount, delivery: delivery, signal: signal,
                incoming: back, outgoing: there, capacity: capacity),
            InMemoryFrameLink(
                to: address("one"), maximumFrameByteCount: maximumFrameByteCount, delivery: delivery, signal: signal,
                incoming: there, outgoing: back, capacity: capacity)
        )
    }

    package func receive() -> [UInt8]? {
        incoming.waitUntilReady { queue -> MonitorWait<[UInt8]?> in
            if !queue.chunks.isEmpty { return .ready(queue.chunks.removeFirst()) }
            return queue.isClosed ? .ready(nil) : .waiting()
        }
    }

    package func send(_ frame: [UInt8]) throws(LinkError) {
        precondition(
            frame.count <= maximumFrameByteCount, "a frame of \(frame.count) bytes for a link of \(maximumFrameByteCount)")
        let isSent = outgoing.wait { queue -> Bool? in
            if queue.isClosed { return false }
            guard queue.chunks.count < capacity else { return nil }
            queue.chunks.append(frame)
            return true
        }
        guard isSent else { throw LinkError(.broken, "the link was closed") }
    }

    package func close() {
        incoming.update { $0.isClosed = true }
        outgoing.update { $0.isClosed = true }
    }

    deinit { close() }
}

/// The in-memory form of a frame radio: the caller adds the links.
package final class InMemoryFrameRadio: FrameRadio {
    private let stream: AsyncStream<any FrameLink>
    private let continuation: AsyncStream<any FrameLink>.Continuation

    package init() {
        (stream, continuation) = AsyncStream.makeStream()
    }

    package func links() -> AsyncStream<any FrameLink> { stream }

    package func add(_ link: any FrameLink) {
        continuation.yield(link)
    }
}
