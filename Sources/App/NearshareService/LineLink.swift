internal import Glibc
internal import NearshareInterfaces

/// Lines over a connected socket, both ways. Two threads belong to it: one reads, one writes; both end when it is closed.
final class LineLink: Sendable {
    private struct State {
        var lines: [[UInt8]] = []
        var byteCount = 0
        var isClosed = false
        var threads = 2
    }

    private let descriptor: Int32
    private let state = Monitor(State())
    /// What comes, until either end closes.
    let lines: AsyncStream<[UInt8]>
    private let continuation: AsyncStream<[UInt8]>.Continuation

    /// A line that is longer ends the link: nobody here writes one.
    static let maximumLineByteCount = 1 << 20
    /// What waits for a reader that does not read, until the link is given up.
    private static let maximumWaitingByteCount = 8 << 20

    /// - Parameter descriptor: belongs to the link from now on.
    init(_ descriptor: Int32) {
        self.descriptor = descriptor
        // Requests are awaited one by one, and events are small.
        (lines, continuation) = AsyncStream.makeStream()
        BlockingThread.start { self.read() }
        BlockingThread.start { self.write() }
    }

    /// Sends a line after those before it. Nothing happens on a closed link.
    func send(_ line: [UInt8]) {
        state.update { state in
            guard !state.isClosed else { return }
            state.byteCount += line.count
            state.lines.append(line + [UInt8(ascii: "\n")])
            if state.byteCount > Self.maximumWaitingByteCount { end(&state) }
        }
    }

    /// Lets what waits go out, and ends.
    func close() {
        state.update { $0.isClosed = true }
    }

    private func end(_ state: inout State) {
        state.isClosed = true
        state.lines = []
        shutdown(descriptor, Int32(SHUT_RDWR))
    }

    private func read() {
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
        state.update { end(&$0) }
        leave()
    }

    private func write() {
        while true {
            let batch = state.wait { state -> [[UInt8]]? in
                guard !state.lines.isEmpty || state.isClosed else { return nil }
                defer { (state.lines, state.byteCount) = ([], 0) }
                return state.lines
            }
            guard !batch.isEmpty, writeAll(Array(batch.joined())) else { break }
        }
        state.update { end(&$0) }
        leave()
    }

    private func writeAll(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Whoever of the two threads is last closes: the number must not be somebody else's while one still uses it.
    private func leave() {
        let isLast = state.update { state in
            state.threads -= 1
            return state.threads == 0
        }
        if isLast { Glibc.close(descriptor) }
    }
}
