import Nearshare
import NearshareInterfaces
import Synchronization
import Testing

@testable import NearshareService

@Suite("rate limit of a send") struct RateLimitTests {
    /// Bytes that are read in a time by a reader that asks whenever it may.
    private func bytesRead(in time: Duration, at bytesPerSecond: UInt64, portion: Int = 65536) -> Int {
        var now = MonotonicInstant(nanoseconds: 1)
        let end = now + time
        var rate = TransmissionRate(bytesPerSecond: bytesPerSecond, now: now)
        var count = 0
        while now < end {
            switch rate.allowance(now: now) {
            case .bytes(let allowed):
                let read = min(allowed, portion)
                rate.charge(read)
                count += read
            case .later(let time): now = max(time, now + .nanoseconds(1))
            }
        }
        return count
    }

    @Test(arguments: [1, 7, 1000, 500_000, 100_000_000, 10_000_000_000] as [UInt64])
    func `the rate is kept to, but for the burst at the start`(_ rate: UInt64) {
        let count = Double(bytesRead(in: .seconds(20), at: rate, portion: .max))
        let wanted = Double(min(rate, 10_000_000_000)) * 20
        #expect(count <= wanted * 1.01 + Double(rate) * 0.1 + 1)
        if rate <= 100_000_000 { #expect(count >= wanted * 0.9 - 1) }
    }

    @Test func `a pause saves up no more than a tenth of a second`() {
        let start = MonotonicInstant(nanoseconds: 1)
        var rate = TransmissionRate(bytesPerSecond: 1000, now: start)
        let saved = rate.allowance(now: start + .seconds(3600))
        #expect(saved == .bytes(100))
        // A clock that goes back, as none should, changes nothing.
        rate.charge(100)
        let earlier = rate.allowance(now: start)
        #expect(earlier != .bytes(100))
    }

    @Test func `two sources share one limit, and cancelling wakes a reader that waits`() throws {
        let clock = Mutex(MonotonicInstant(nanoseconds: 1))
        let limit = RateLimitedSource.Limit(bytesPerSecond: 1000) { clock.withLock { $0 } }
        let source = InMemorySource([.file("a", [UInt8](repeating: 1, count: 1000))])
        let readers = try (0...1).map { _ in try RateLimitedSource(source, limit: limit).makeReader() }
        var buffer = [UInt8](repeating: 0, count: 1000)
        for reader in readers { _ = try reader.nextEntry() }
        let first = try buffer.withUnsafeMutableBytes { try readers[0].read(into: $0) }
        #expect(first == 100)
        readers[1].cancel()
        #expect(throws: (any Error).self) { try buffer.withUnsafeMutableBytes { try readers[1].read(into: $0) } }
    }
}
