internal import Glibc
internal import Nearshare
internal import Synchronization

/// Signals as they come, for whoever listens.
///
/// A handler hands them on through a pipe. Dispatch's own sources lose some: they read from a signalfd, while the main thread, which
/// waits with no signal blocked, may take the same signal first and do nothing.
enum Signals {
    private struct State {
        var listeners: [Int: (numbers: Set<Int32>, continuation: AsyncStream<Int32>.Continuation)] = [:]
        var last = 0
    }

    private static let state = Mutex(State())
    private static let isPrepared = OnceFlag()
    // Set before any handler is; read by handlers, at any moment.
    nonisolated(unsafe) private static var writeEnd: Int32 = -1

    /// The numbers of those that come from now on. What they did before, they do no more.
    static func stream(_ numbers: Set<Int32>) -> AsyncStream<Int32> {
        AsyncStream { continuation in
            let key = state.withLock { state in
                prepare()
                state.last += 1
                state.listeners[state.last] = (numbers, continuation)
                return state.last
            }
            // A handler rather than SIG_IGN: what is ignored stays ignored in children.
            for number in numbers {
                signal(number) { number in
                    let before = errno
                    var byte = UInt8(truncatingIfNeeded: number)
                    _ = write(Signals.writeEnd, &byte, 1)
                    errno = before
                }
            }
            continuation.onTermination = { _ in
                _ = state.withLock { $0.listeners.removeValue(forKey: key) }
            }
        }
    }

    /// With the lock held.
    private static func prepare() {
        guard isPrepared.raise() else { return }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // A handler must not wait for a reader that is slow.
        _ = fcntl(ends[1], F_SETFL, O_NONBLOCK)
        writeEnd = ends[1]
        BlockingThread.start { [readEnd = ends[0]] in
            var byte: UInt8 = 0
            while true {
                let count = read(readEnd, &byte, 1)
                guard count == 1 || (count < 0 && errno == EINTR) else { return }
                guard count == 1 else { continue }
                let number = Int32(byte)
                let listeners = state.withLock { $0.listeners.values.filter { $0.numbers.contains(number) } }
                for listener in listeners { listener.continuation.yield(number) }
            }
        }
    }
}
