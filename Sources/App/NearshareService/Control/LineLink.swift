internal import Glibc
internal import Nearshare

/// Lines over a connected socket, in both directions. Two threads, a reader and a writer, end when it is closed.
final class LineLink: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var byteCount = 0
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

    /// Queues a line. Does nothing on a closed link.
    func send(_ line: [UInt8]) {
        state.update { state in
            guard !state.isClosed else { return }
            state.byteCount += line.count
            state.lines.append(line + [UInt8(ascii: "\n")])
            if state.byteCount > Self.maximumBufferedByteCount { cut(&state) }
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
        reading: while true {
            let count = Glibc.read(descriptor, &buffer, buffer.count)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { break }
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
            let batch = state.wait { state -> [[UInt8]]? in
                guard !state.lines.isEmpty || state.isClosed else { return nil }
                defer { (state.lines, state.byteCount) = ([], 0) }
                return state.lines
            }
            guard !batch.isEmpty, (try? DescriptorIO.sendAll(Array(batch.joined()), to: descriptor)) != nil else { break }
        }
        state.update { cut(&$0) }
        endThread()
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
