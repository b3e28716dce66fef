/// The in-memory form of a stream transport: links are bounded pipes between threads of one process.
package final class InMemoryTransport: StreamTransport {
    private struct Listening {
        var listeners: [UInt16: InMemoryListener] = [:]
        var lastPort: UInt16 = 40_000
    }

    private let state = Monitor(Listening())
    private let capacity: Int

    /// - Parameter capacity: bytes that are buffered in each direction; a full buffer blocks its writer.
    package init(capacity: Int = 256 << 10) {
        self.capacity = capacity
    }

    package func listen(port: UInt16, interface: String?) throws(LinkError) -> any StreamListener {
        try state.update { (state) throws(LinkError) -> InMemoryListener in
            if port == 0 { state.lastPort += 1 }
            let chosen = port == 0 ? state.lastPort : port
            guard state.listeners[chosen] == nil else {
                throw LinkError.portInUse(chosen)
            }
            let listener = InMemoryListener(port: chosen) { [self] in
                self.state.update { $0.listeners[chosen] = nil }
            }
            state.listeners[chosen] = listener
            return listener
        }
    }

    package func connect(
        to address: LinkAddress, timeout: Duration, cancelledBy cancellation: EventFD?
    ) throws(LinkError) -> any StreamLink {
        guard let listener = state.withLock({ $0.listeners[address.port] }) else {
            throw LinkError(.unreachable, "nothing listens at \(address)")
        }
        let there = InMemoryPipe(capacity: capacity)
        let back = InMemoryPipe(capacity: capacity)
        let caller = InMemoryLink(remote: address, incoming: back, outgoing: there)
        let called = InMemoryLink(remote: LinkAddress(host: "127.0.0.1", port: 1), incoming: there, outgoing: back)
        try listener.enqueue(called)
        return caller
    }
}

final class InMemoryListener: StreamListener {
    private struct Queue {
        var links: [InMemoryLink] = []
        var isClosed = false
    }

    let port: UInt16
    private let queue = Monitor(Queue())
    private let onClose: @Sendable () -> Void

    init(port: UInt16, onClose: @escaping @Sendable () -> Void) {
        self.port = port
        self.onClose = onClose
    }

    func enqueue(_ link: InMemoryLink) throws(LinkError) {
        try queue.update { (queue) throws(LinkError) in
            guard !queue.isClosed, queue.links.count < 128 else {
                throw LinkError(.unreachable, "nothing listens at port \(port)")
            }
            queue.links.append(link)
        }
    }

    func accept() throws(LinkError) -> any StreamLink {
        let next: InMemoryLink? = queue.wait { queue in
            if !queue.links.isEmpty { return .some(queue.links.removeFirst()) }
            return queue.isClosed ? .some(nil) : nil
        }
        guard let next else { throw LinkError(.closed, "the listener is closed") }
        return next
    }

    func close() {
        queue.update { $0.isClosed = true }
        onClose()
    }
}

final class InMemoryLink: StreamLink {
    let remote: LinkAddress
    let localHost: String? = "127.0.0.1"
    private let incoming: InMemoryPipe
    private let outgoing: InMemoryPipe

    init(remote: LinkAddress, incoming: InMemoryPipe, outgoing: InMemoryPipe) {
        self.remote = remote
        self.incoming = incoming
        self.outgoing = outgoing
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int { try incoming.read(into: buffer) }
    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) { try outgoing.write(bytes) }
    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        try outgoing.writeWithoutBlocking(bytes)
    }
    func finishWriting() { outgoing.finish() }

    func close() {
        incoming.close()
        outgoing.close()
    }

    deinit { close() }
}

/// One direction of a link.
final class InMemoryPipe: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var isFinished = false
        var isClosed = false
    }

    private let state = Monitor(State())
    private let capacity: Int

    init(capacity: Int) {
        self.capacity = capacity
    }

    func read(into buffer: UnsafeMutableRawBufferPointer) throws(LinkError) -> Int {
        let readCount: Int? = state.waitUntilReady { state -> MonitorWait<Int?> in
            if !state.bytes.isEmpty {
                let count = min(buffer.count, state.bytes.count)
                state.bytes.withUnsafeBytes { buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0[..<count])) }
                state.bytes.removeFirst(count)
                return .ready(count)
            }
            if state.isClosed { return .ready(nil) }
            return state.isFinished ? .ready(0) : .waiting()
        }
        guard let readCount else { throw LinkError(.broken, "the link was closed") }
        return readCount
    }

    func write(_ bytes: UnsafeRawBufferPointer) throws(LinkError) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let written: Int? = state.waitUntilReady { state -> MonitorWait<Int?> in
                if state.isClosed || state.isFinished { return .ready(nil) }
                let freeByteCount = capacity - state.bytes.count
                guard freeByteCount > 0 else { return .waiting() }
                let count = min(freeByteCount, rest.count)
                state.bytes.append(contentsOf: rest.prefix(count))
                return .ready(count)
            }
            guard let written else { throw LinkError(.broken, "the link was closed") }
            rest = rest.dropFirst(written)
        }
    }

    func writeWithoutBlocking(_ bytes: UnsafeRawBufferPointer) throws(LinkError) -> Int {
        let count: Int? = state.update { state in
            if state.isClosed || state.isFinished { return nil }
            let count = min(capacity - state.bytes.count, bytes.count)
            state.bytes.append(contentsOf: bytes.prefix(count))
            return count
        }
        guard let count else { throw LinkError(.broken, "the link was closed") }
        return count
    }

    func finish() {
        state.update { $0.isFinished = true }
    }

    func close() {
        state.update { $0.isClosed = true }
    }
}
