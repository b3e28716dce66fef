internal import Dispatch
internal import Glibc
internal import Synchronization

/// Signals of this process as streams; each signal reaches every subscriber.
///
/// The handlers write to a pipe that one thread reads. Dispatch's signal sources lose signals: they read from a signalfd, while
/// the main thread, which waits with no signal blocked, may receive the same signal first and discard it.
package enum Signals {
    private struct State {
        var subscribers: [Int: (numbers: Set<Int32>, continuation: AsyncStream<Int32>.Continuation)] = [:]
        var lastKey = 0
    }

    private static let state = Mutex(State())
    private static let isPrepared = OnceFlag()
    // Assigned before the first handler is installed; afterwards only read, by handlers at any moment.
    nonisolated(unsafe) private static var writeEnd: Int32 = -1

    /// The numbers of the signals that arrive from now on. Their default actions are disabled, also after the stream ends.
    package static func stream(_ numbers: Set<Int32>) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let key = state.withLock { state in
                prepare()
                state.lastKey += 1
                state.subscribers[state.lastKey] = (numbers, continuation)
                return state.lastKey
            }
            // A handler rather than SIG_IGN: child processes inherit ignored signals.
            for number in numbers {
                signal(number) { number in
                    let savedErrno = errno
                    var byte = UInt8(truncatingIfNeeded: number)
                    _ = write(Signals.writeEnd, &byte, 1)
                    errno = savedErrno
                }
            }
            continuation.onTermination = { _ in
                _ = state.withLock { $0.subscribers.removeValue(forKey: key) }
            }
        }
    }

    /// Creates the pipe and its reader. Called with the lock held.
    private static func prepare() {
        guard isPrepared.raise() else { return }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A handler must not block on a slow reader.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        writeEnd = ends[1]
        DispatchQueue(label: "nearshare.signals").async { [readEnd = ends[0]] in deliver(from: readEnd) }
    }

    private static func deliver(from descriptor: Int32) {
        var byte: UInt8 = 0
        while true {
            let count = read(descriptor, &byte, 1)
            guard count == 1 || (count < 0 && errno == EINTR) else { return }
            guard count == 1 else { continue }
            let number = Int32(byte)
            let subscribers = state.withLock { $0.subscribers.values.filter { $0.numbers.contains(number) } }
            for subscriber in subscribers { subscriber.continuation.yield(number) }
        }
    }
}
