internal import CNearshareShims
internal import Glibc
internal import Nearshare

/// Lines over a connected Unix socket, in both directions. A line may carry a descriptor. A reader thread and a writer thread run
/// until the link is closed.
final class LineLink: Sendable {
    private struct State {
        var lines: [(bytes: [UInt8], link: PassedLink?)] = []
        var byteCount = 0
        /// Passed links that are queued or being written.
        var linkCount = 0
        /// Received and not read.
        var descriptors: [Int32] = []
        var isClosed = false
        var threadCount = 2
    }

    private let descriptor: Int32
    private let state = Monitor(State())
    /// Received lines, until either end closes.
    let lines: AsyncStream<[UInt8]>
    private let continuation: AsyncStream<[UInt8]>.Continuation

    /// Limit on a received line; a longer one closes the link.
    static let maximumLineByteCount = 1 << 20
    /// Limit on the bytes that are queued for a peer that does not read; above it the link is closed.
    private static let maximumBufferedByteCount = 8 << 20

    /// Limit on passed links that are queued or being written: the limits of their sources do not count them. Above it the link is
    /// closed (R3).
    private static let maximumQueuedLinkCount = 64
    /// Limit on received descriptors that are not read; above it the link is closed.
    private static let maximumDescriptorCount = 256

    /// - Parameter descriptor: owned by the link from now on, and closed when this throws.
    init(_ descriptor: Int32) throws(ThreadError) {
        self.descriptor = descriptor
        // Unbounded: requests are handled one by one, and events are small.
        (lines, continuation) = AsyncStream.makeStream()
        do throws(ThreadError) {
            // The two threads end by themselves; the last one closes the descriptor.
            _ = try BlockingThread.start { self.readLoop() }
        } catch {
            Glibc.close(descriptor)
            throw error
        }
        do throws(ThreadError) {
            _ = try BlockingThread.start { self.writeLoop() }
        } catch {
            // The reading thread ends, as the last one.
            state.update { state in
                state.threadCount -= 1
                cut(&state)
            }
            throw error
        }
    }

    deinit {
        for descriptor in state.withLock(\.descriptors) { Glibc.close(descriptor) }
    }

    /// The descriptor of the oldest line that has one and whose descriptor was not read, which the caller owns; nil for none.
    func dequeueDescriptor() -> Int32? {
        state.withLock { $0.descriptors.isEmpty ? nil : $0.descriptors.removeFirst() }
    }

    /// Queues a line. Does nothing on a closed link.
    /// - Parameter link: passed with the line.
    func send(_ line: [UInt8], with link: PassedLink? = nil) {
        state.update { state in
            guard !state.isClosed else { return }
            state.byteCount += line.count
            state.lines.append((line + [UInt8(ascii: "\n")], link))
            if link != nil { state.linkCount += 1 }
            if state.byteCount > Self.maximumBufferedByteCount || state.linkCount > Self.maximumQueuedLinkCount { cut(&state) }
        }
    }

    /// Closes the link after queued lines are written.
    func close() {
        state.update { $0.isClosed = true }
    }

    private func cut(_ state: inout State) {
        state.isClosed = true
        state.lines = []
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func readLoop() {
        var pending: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 64 << 10)
        var passed = [Int32](repeating: -1, count: Int(NEARSHARE_PASSED_LIMIT))
        var passedCount: Int32 = 0
        reading: while true {
            let count = nearshare_receive_with_descriptors(descriptor, &buffer, buffer.count, &passed, &passedCount)
            guard count > 0 else { break }
            // Before the line can be read.
            let descriptorCount = state.withLock { state in
                state.descriptors += passed.prefix(Int(passedCount))
                return state.descriptors.count
            }
            if descriptorCount > Self.maximumDescriptorCount { break reading }
            pending += buffer[..<count]
            var start = pending.startIndex
            while let end = pending[start...].firstIndex(of: UInt8(ascii: "\n")) {
                continuation.yield(Array(pending[start..<end]))
                start = end + 1
            }
            pending.removeSubrange(..<start)
            if pending.count > Self.maximumLineByteCount { break reading }
        }
        continuation.finish()
        state.update { cut(&$0) }
        endThread()
    }

    private func writeLoop() {
        while true {
            let batch = state.wait { state -> [(bytes: [UInt8], link: PassedLink?)]? in
                guard !state.lines.isEmpty || state.isClosed else { return nil }
                defer { (state.lines, state.byteCount) = ([], 0) }
                return state.lines
            }
            guard !batch.isEmpty, write(batch) else { break }
            let linkCount = batch.count { $0.link != nil }
            state.update { $0.linkCount -= linkCount }
        }
        state.update { cut(&$0) }
        endThread()
    }

    private func write(_ batch: [(bytes: [UInt8], link: PassedLink?)]) -> Bool {
        var bytes: [UInt8] = []
        for line in batch {
            guard let link = line.link, let first = line.bytes.first else {
                bytes += line.bytes
                continue
            }
            // The descriptor comes with the first byte of its line.
            guard (try? DescriptorIO.sendAll(bytes, to: descriptor)) != nil,
                nearshare_send_descriptors(descriptor, first, [link.descriptor], 1) == 0
            else { return false }
            bytes = Array(line.bytes.dropFirst())
        }
        return (try? DescriptorIO.sendAll(bytes, to: descriptor)) != nil
    }

    /// The last of the two threads closes the descriptor, so that its number is not reused while the other one uses it.
    private func endThread() {
        let isLast = state.update { state in
            state.threadCount -= 1
            return state.threadCount == 0
        }
        if isLast { Glibc.close(descriptor) }
    }
}
