internal import NearshareBase
internal import NearshareInterfaces
internal import Synchronization

/// A limit on bytes per second: a token bucket with the bytes of a tenth of a second, empty at the start.
struct TransmissionRate: Sendable {
    /// The bytes that may be sent now, or the time at which some may be.
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
        bucket.charge(capacity)
    }

    /// Empties the bucket, as at the start: what a pause has filled it with would be taken for the rate.
    mutating func restart(now: MonotonicInstant) { bucket.charge(max(0, bucket.balance(now: now))) }

    mutating func allowance(now: MonotonicInstant) -> Allowance {
        let balance = bucket.balance(now: now)
        // Half a bucket at a time, rather than byte by byte.
        let wanted = max(1, capacity / 2)
        guard balance < wanted else { return .bytes(Int(min(balance, 1e9))) }
        return .later(now + .seconds((wanted - balance) / bytesPerSecond) + .milliseconds(1))
    }

    /// Records that bytes were sent.
    mutating func charge(_ count: Int) { bucket.charge(Double(count)) }

    /// Records that bytes are sent as a whole.
    /// - Returns: the time from which they may be sent.
    mutating func reserve(_ count: Int, now: MonotonicInstant) -> MonotonicInstant {
        bucket.charge(Double(count))
        return now + .seconds(max(0, -bucket.balance(now: now)) / bytesPerSecond)
    }
}

/// A limit on the content that several transfers send together. What is read to be compared is not limited.
package final class TransmissionLimit: Sendable {
    private let bytesPerSecond: UInt64
    /// nil before the first transfer begins.
    private let rate = Mutex<TransmissionRate?>(nil)

    package init(bytesPerSecond: UInt64) { self.bytesPerSecond = bytesPerSecond }

    /// Begins the content of a transfer, such as of one that goes on after its link was lost.
    func restart(now: MonotonicInstant) { update(now) { $0.restart(now: now) } }

    func allowance(now: MonotonicInstant) -> TransmissionRate.Allowance { update(now) { $0.allowance(now: now) } }

    /// Records that bytes are sent as a whole.
    /// - Returns: the time from which they may be sent.
    func reserve(_ count: UInt64, now: MonotonicInstant) -> MonotonicInstant {
        update(now) { $0.reserve(Int(clamping: count), now: now) }
    }

    private func update<Result: Sendable>(_ now: MonotonicInstant, _ body: (inout TransmissionRate) -> Result) -> Result {
        rate.withLock { rate in
            var current = rate ?? TransmissionRate(bytesPerSecond: bytesPerSecond, now: now)
            defer { rate = current }
            return body(&current)
        }
    }

    /// Records that bytes were sent.
    func charge(_ count: UInt64) { rate.withLock { $0?.charge(Int(clamping: count)) } }
}
