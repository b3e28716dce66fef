internal import Glibc
internal import NearshareInterfaces
internal import Synchronization

/// Lines of a descriptor, such as standard input, read one at a time when requested.
package final class LineReader: Sendable {
    private struct State {
        var pending: [UInt8] = []
        /// Length of the prefix of `pending` that contains no line feed.
        var searchedCount = 0
        var hasEnded = false
    }

    private let descriptor: Int32
    private let maximumLineByteCount: Int
    private let needsFinalLineBreak: Bool
    private let state = Mutex(State())
    private let isStopped = OnceFlag()
    private let stopping = EventFD()

    /// - Parameters:
    ///   - maximumLineByteCount: size limit of one line, in bytes; longer ones are split there, so that an endless
    ///     line does not fill the memory.
    ///   - needsFinalLineBreak: whether what stands behind the last line break is no line, as on a terminal, where Ctrl-D ends the
    ///     input also behind a line that the user has begun.
    package init(_ descriptor: Int32, maximumLineByteCount: Int, needsFinalLineBreak: Bool = false) {
        self.descriptor = descriptor
        self.needsFinalLineBreak = needsFinalLineBreak
        self.maximumLineByteCount = maximumLineByteCount
    }

    /// Makes ``next()`` return nil from now on.
    package func stop() {
        isStopped.raise()
        stopping.signal()
    }

    /// - Returns: the next line without its line break; nil after the last one, and when the task is cancelled, which loses no
    ///   line.
    package func next() async -> String? {
        if isStopped.isRaised || Task.isCancelled { return nil }
        if let line = removeLine() { return line }
        let cancellation = EventFD()
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                TerminalDevice.makeQueue("standard-input").async { [self] in
                    continuation.resume(returning: readLine(until: cancellation))
                }
            }
        } onCancel: {
            cancellation.signal()
        }
    }

    /// Puts lines that were read, but not used, back before those that follow.
    package func putBack(_ lines: [String]) {
        let bytes = lines.flatMap { Array($0.utf8) + [UInt8(ascii: "\n")] }
        state.withLock { state in
            state.pending.insert(contentsOf: bytes, at: 0)
            state.searchedCount = 0
        }
    }

    /// Removes what stands behind the last line break, at the end of an input that needs one.
    /// - Returns: nil where nothing stands there.
    package func removeUnfinishedLine() -> String? {
        state.withLock { state in
            guard !state.pending.isEmpty else { return nil }
            defer { (state.pending, state.searchedCount) = ([], 0) }
            return String(decoding: state.pending, as: UTF8.self)
        }
    }

    private func readLine(until cancellation: EventFD) -> String? {
        while !isStopped.isRaised {
            if let line = removeLine() { return line }
            if state.withLock({ $0.hasEnded }) { return nil }
            let events = DescriptorPoll.wait(
                for: [
                    (descriptor, .readable), (stopping.descriptor, .readable), (cancellation.descriptor, .readable),
                ], timeout: nil)
            if !events[2].isEmpty { return nil }
            if !events[0].isEmpty { readBytes() }
        }
        return nil
    }

    private func removeLine() -> String? {
        state.withLock { state in
            let end = state.pending[state.searchedCount...].firstIndex(of: UInt8(ascii: "\n"))
            state.searchedCount = state.pending.count
            let count: Int
            if let end {
                count = end
            } else if state.pending.count >= maximumLineByteCount
                || (state.hasEnded && !state.pending.isEmpty && !needsFinalLineBreak)
            {
                count = state.pending.count
            } else {
                return nil
            }
            defer {
                state.pending.removeFirst(end == nil ? count : count + 1)
                state.searchedCount = 0
            }
            var line = state.pending[..<count]
            if line.last == UInt8(ascii: "\r") { line.removeLast() }
            return String(decoding: line, as: UTF8.self)
        }
    }

    private func readBytes() {
        var buffer = [UInt8](repeating: 0, count: 16 * 1024)
        let count = read(descriptor, &buffer, buffer.count)
        state.withLock { state in
            if count > 0 {
                state.pending += buffer[..<count]
            } else if count == 0 || (errno != EINTR && errno != EAGAIN) {
                state.hasEnded = true
            }
        }
    }
}
