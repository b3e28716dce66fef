package import Nearshare
internal import Synchronization

/// A limit on bytes per second: a token bucket with the bytes of a tenth of a second.
struct TransmissionRate: Sendable {
    /// The bytes that may be read now, or the time at which some may be.
    enum Allowance: Sendable, Hashable {
        case bytes(Int)
        case later(MonotonicInstant)
    }

    private static let burst = Duration.milliseconds(100)

    private let bytesPerSecond: Double
    private let capacity: Double
    private var bucket: TokenBucket

    init(bytesPerSecond: UInt64, now: MonotonicInstant) {
        self.bytesPerSecond = Double(max(1, bytesPerSecond))
        capacity = max(1, self.bytesPerSecond * Self.burst.inSeconds)
        bucket = TokenBucket(capacity: capacity, perSecond: self.bytesPerSecond, now: now)
    }

    mutating func allowance(now: MonotonicInstant) -> Allowance {
        let balance = bucket.balance(now: now)
        // Half a bucket at a time, rather than byte by byte.
        let wanted = max(1, capacity / 2)
        guard balance < wanted else { return .bytes(Int(min(balance, 1e9))) }
        return .later(now + .seconds((wanted - balance) / bytesPerSecond) + .milliseconds(1))
    }

    /// Records that bytes were read.
    mutating func charge(_ count: Int) { bucket.charge(Double(count)) }
}

/// A source whose content is read no faster than a limit that several sources share.
package struct RateLimitedSource: ResourceSource {
    /// The shared limit.
    package final class Limit: Sendable {
        private let rate: Mutex<TransmissionRate>
        fileprivate let clock: @Sendable () -> MonotonicInstant

        package init(
            bytesPerSecond: UInt64, clock: @escaping @Sendable () -> MonotonicInstant = { SystemClock.monotonic() }
        ) {
            rate = Mutex(TransmissionRate(bytesPerSecond: bytesPerSecond, now: clock()))
            self.clock = clock
        }

        fileprivate func allowance() -> TransmissionRate.Allowance { rate.withLock { $0.allowance(now: clock()) } }
        fileprivate func charge(_ count: Int) { rate.withLock { $0.charge(count) } }
    }

    private let base: any ResourceSource
    private let limit: Limit

    package init(_ base: any ResourceSource, limit: Limit) {
        self.base = base
        self.limit = limit
    }

    package var offer: Offer { base.offer }
    package var contents: [EntryHeader] { base.contents }

    package func makeReader() throws(StorageError) -> any ResourceReader { Reader(try base.makeReader(), limit) }
    package func cancel() { base.cancel() }

    private final class Reader: ResourceReader {
        private let base: any ResourceReader
        private let limit: Limit
        private let isCancelled = Monitor(false)

        init(_ base: any ResourceReader, _ limit: Limit) {
            self.base = base
            self.limit = limit
        }

        func nextEntry() throws(StorageError) -> EntryHeader? { try base.nextEntry() }
        func seek(to offset: UInt64) throws(StorageError) { try base.seek(to: offset) }

        func read(into buffer: UnsafeMutableRawBufferPointer) throws(StorageError) -> Int {
            while true {
                switch limit.allowance() {
                case .bytes(let allowed):
                    let count = try base.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer.prefix(allowed)))
                    limit.charge(count)
                    return count
                case .later(let time):
                    let isOver = isCancelled.wait(untilNanoseconds: time.nanoseconds) { $0 ? true : nil } ?? false
                    // A reader that was cancelled throws.
                    if isOver { return try base.read(into: buffer) }
                }
            }
        }

        func cancel() {
            base.cancel()
            isCancelled.update { $0 = true }
        }
    }
}

extension SendSource {
    /// The same content, read no faster than the limit for all receivers together.
    package func limited(to bytesPerSecond: UInt64) -> SendSource {
        let limit = RateLimitedSource.Limit(bytesPerSecond: bytesPerSecond)
        var limited = self
        limited.sources = sources.map { RateLimitedSource($0, limit: limit) }
        return limited
    }
}
