internal import Nearshare

/// The tries of one send after its link broke: the addresses that have failed, the back-off, and the time in which they must
/// succeed.
struct Reconnection: Sendable {
    /// Time for a new connection after the last byte that the receiver got, unless the user sets another.
    static let defaultTimeout = Duration.seconds(120)
    /// Time that one search for the peer takes, before the addresses of the first connection are tried again.
    static let searchTime = Duration.seconds(10)
    /// Back-off before the first try. The receiver resumes only what its side of the broken link no longer holds, and may
    /// notice the break later than the sender.
    private static let initialDelay = Duration.seconds(1)
    private static let maximumDelay = Duration.seconds(8)

    private let timeout: Duration
    /// Addresses at which a try has failed since the last byte.
    private(set) var failedAddresses: Set<LinkAddress> = []
    private var byteCount: UInt64?
    private var deadline: MonotonicInstant?
    private var nextDelay = initialDelay

    /// - Parameter timeout: zero for no further try.
    init(timeout: Duration) { self.timeout = timeout }

    /// Records a failed try.
    /// - Parameter byteCount: bytes of content that the receiver had at its end; more than before begins a new series of tries.
    /// - Returns: the back-off before the next try; nil when the time is over.
    mutating func delay(afterFailureAt addresses: [LinkAddress], byteCount: UInt64, now: MonotonicInstant) -> Duration? {
        if byteCount > self.byteCount ?? 0 || deadline == nil {
            self.byteCount = byteCount
            deadline = now + timeout
            nextDelay = Self.initialDelay
            failedAddresses = []
        }
        failedAddresses.formUnion(addresses)
        guard timeLeft(now) > .zero else { return nil }
        defer { nextDelay = min(nextDelay * 2, Self.maximumDelay) }
        return nextDelay
    }

    /// Time until the tries end.
    func timeLeft(_ now: MonotonicInstant) -> Duration { deadline.map { max($0 - now, .zero) } ?? timeout }
}
