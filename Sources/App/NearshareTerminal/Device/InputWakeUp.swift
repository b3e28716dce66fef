internal import CNearshareShims
internal import Glibc
internal import NearshareBase
internal import Synchronization

/// Ends a thread's wait for input: when its consumer stops, and when the process goes on after a stop (SIGCONT), because the
/// terminal may have changed meanwhile.
package final class InputWakeUp: Sendable {
    /// Limit on threads that wait at the same time; further ones look every 100 ms.
    private static let maximumCount = 8
    /// Descriptors (eventfd(2)) that the signal handler writes to; -1 for those not made yet. They are used again and never
    /// closed: a closed one could be another file's when the handler writes.
    nonisolated(unsafe) private static let descriptors = {
        let descriptors = UnsafeMutablePointer<Int32>.allocate(capacity: maximumCount)
        descriptors.initialize(repeating: -1, count: maximumCount)
        return descriptors
    }()
    /// The indices of descriptors in use.
    private static let used = Mutex<Set<Int>>([])
    private static let handlesContinuation: Void = {
        // The handler must find initialized values.
        _ = descriptors
        continuationCount.store(0, ordering: .relaxed)
        _ = Glibc.signal(SIGCONT) { _ in
            let error = errno
            continuationCount.add(1, ordering: .relaxed)
            for index in 0..<maximumCount where descriptors[index] >= 0 { InputWakeUp.wake(descriptors[index]) }
            errno = error
        }
    }()
    /// The number of times that this process went on after a stop.
    private static let continuationCount = Atomic<Int>(0)

    private let index: Int?
    private let stopFlag = OnceFlag()

    package init() {
        Self.handlesContinuation
        index = Self.used.withLock { used in
            guard let index = (0..<Self.maximumCount).first(where: { !used.contains($0) }) else { return nil }
            if Self.descriptors[index] < 0 { Self.descriptors[index] = nearshare_eventfd() }
            guard Self.descriptors[index] >= 0 else { return nil }
            used.insert(index)
            return index
        }
        reset()
    }

    deinit {
        if let index { _ = Self.used.withLock { $0.remove(index) } }
    }

    private var descriptor: Int32 { index.map { Self.descriptors[$0] } ?? -1 }

    private static func wake(_ descriptor: Int32) {
        var one: UInt64 = 1
        _ = Glibc.write(descriptor, &one, MemoryLayout<UInt64>.size)
    }

    private func reset() {
        var count: UInt64 = 0
        if descriptor >= 0 { _ = Glibc.read(descriptor, &count, MemoryLayout<UInt64>.size) }
    }

    /// The number of times that this process went on after a stop, for comparison with a later one.
    var continuationCount: Int { Self.continuationCount.load(ordering: .relaxed) }

    /// Whether the consumer has stopped.
    var isStopped: Bool { stopFlag.isRaised }

    /// Tells the thread that its consumer has stopped.
    func stop() {
        stopFlag.raise()
        if descriptor >= 0 { Self.wake(descriptor) }
    }

    /// Waits until there is input, the consumer stops, the process goes on after a stop, or the timeout is over.
    /// - Parameters:
    ///   - input: a descriptor; nil to wait for the others alone.
    ///   - timeout: in milliseconds; nil for none.
    /// - Returns: the events of the descriptor (poll(2)); 0 for none, nil when it cannot be waited for.
    func wait(for input: Int32?, timeout: Int32? = nil) -> Int16? {
        var requests = [
            pollfd(fd: input ?? -1, events: Int16(POLLIN), revents: 0),
            pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0),
        ]
        // Without a descriptor nothing else would notice that the consumer has stopped.
        let count = poll(&requests, 2, timeout ?? (descriptor < 0 ? 100 : -1))
        guard count > 0 else { return count == 0 || errno == EINTR ? 0 : nil }
        if requests[1].revents != 0 { reset() }
        return requests[0].revents
    }
}
