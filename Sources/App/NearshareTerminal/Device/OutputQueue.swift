internal import Glibc
internal import NearshareBase
internal import NearshareInterfaces

/// Output through a bounded queue and a thread of its own, for processes that serve peers: they must not wait for a terminal that is
/// stopped (Ctrl-S) or slow, nor for a program that does not read its pipe. Output that finds no room is left out, and counted.
final class OutputQueue: Sendable {
    private struct Chunk {
        let bytes: [UInt8]
        let descriptor: Int32
    }

    private struct State {
        var chunks: [Chunk] = []
        /// Bytes of the chunks, and of those that are being written.
        var byteCount = 0
        /// Lines that found no room since the last one that did.
        var omittedLineCount = 0

        mutating func append(_ bytes: [UInt8], to descriptor: Int32) {
            chunks.append(Chunk(bytes: bytes, descriptor: descriptor))
            byteCount += bytes.count
        }
    }

    /// Limit on the bytes that wait.
    private let maximumByteCount: Int
    /// The line, with its end, that tells how many lines were left out.
    private let omissionLine: @Sendable (Int) -> String
    private let state = Monitor(State())

    /// Starts the thread, which runs until the process ends.
    init(maximumByteCount: Int, omissionLine: @escaping @Sendable (Int) -> String) throws(ThreadError) {
        (self.maximumByteCount, self.omissionLine) = (maximumByteCount, omissionLine)
        _ = try BlockingThread.start { [state] in
            while true {
                let chunks = state.wait { state -> [Chunk]? in
                    guard !state.chunks.isEmpty else { return nil }
                    defer { state.chunks = [] }
                    return state.chunks
                }
                for chunk in chunks {
                    DescriptorOutput.writeAll(chunk.bytes, to: chunk.descriptor)
                    state.update { $0.byteCount -= chunk.bytes.count }
                }
            }
        }
    }

    /// Queues output. After some was left out, the queue takes more once it is half empty, behind a line that says how much.
    func append(_ bytes: [UInt8], to descriptor: Int32) {
        state.update { state in
            let byteLimit = state.omittedLineCount > 0 ? maximumByteCount / 2 : maximumByteCount
            guard state.byteCount + bytes.count <= byteLimit else {
                state.omittedLineCount += bytes.count { $0 == UInt8(ascii: "\n") }
                return
            }
            if state.omittedLineCount > 0 {
                state.append(Array(omissionLine(state.omittedLineCount).utf8), to: descriptor)
                state.omittedLineCount = 0
            }
            state.append(bytes, to: descriptor)
        }
    }

    /// Waits until all is written, at most for `timeout`.
    func flush(timeout: Duration) {
        let end = SystemClock.monotonic() + timeout
        _ = state.wait(untilNanoseconds: end.nanoseconds) { $0.byteCount == 0 ? true : nil }
    }
}
