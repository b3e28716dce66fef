/// The in-memory twin of a frame link: two ends in one process, each piece of one's arrives whole at the other.
package final class InMemoryFrameLink: FrameLink {
    private struct Queue {
        var pieces: [[UInt8]] = []
        var isClosed = false
    }

    package let remote: LinkAddress
    package let largestWrite: Int
    package let pieces: FramePieces
    private let incoming: Monitor<Queue>
    private let outgoing: Monitor<Queue>
    private let capacity: Int

    private init(
        _ remote: LinkAddress, _ largestWrite: Int, _ pieces: FramePieces, _ incoming: Monitor<Queue>,
        _ outgoing: Monitor<Queue>, _ capacity: Int
    ) {
        self.remote = remote
        self.largestWrite = largestWrite
        self.pieces = pieces
        self.incoming = incoming
        self.outgoing = outgoing
        self.capacity = capacity
    }

    /// - Parameter capacity: pieces that wait in a direction before its sender does.
    package static func pair(
        largestWrite: Int = 512, pieces: FramePieces = .whole, capacity: Int = 128
    ) -> (one: InMemoryFrameLink, other: InMemoryFrameLink) {
        let (there, back) = (Monitor(Queue()), Monitor(Queue()))
        let address = { (end: String) in LinkAddress(host: "memory \(end)", port: 0, medium: .bluetooth) }
        return (
            InMemoryFrameLink(address("two"), largestWrite, pieces, back, there, capacity),
            InMemoryFrameLink(address("one"), largestWrite, pieces, there, back, capacity)
        )
    }

    package func receive() -> [UInt8]? {
        incoming.wait { queue -> [UInt8]?? in
            if !queue.pieces.isEmpty { return .some(queue.pieces.removeFirst()) }
            return queue.isClosed ? .some(nil) : nil
        }
    }

    package func send(_ frame: [UInt8]) throws(LinkError) {
        precondition(frame.count <= largestWrite, "a frame of \(frame.count) bytes for a link of \(largestWrite)")
        let isSent = outgoing.wait { queue -> Bool? in
            if queue.isClosed { return false }
            guard queue.pieces.count < capacity else { return nil }
            queue.pieces.append(frame)
            return true
        }
        guard isSent else { throw LinkError(.broken, "the link was cut") }
    }

    package func close() {
        incoming.update { $0.isClosed = true }
        outgoing.update { $0.isClosed = true }
    }

    deinit { close() }
}

/// The in-memory twin of a radio's frame half: links are put in by hand.
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
