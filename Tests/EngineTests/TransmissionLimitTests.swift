import NearshareBase
import NearshareDirect
import NearshareInterfaces
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("rate limit of a send") struct TransmissionLimitTests {
    /// The number of bytes that are read in a time by a reader that asks as early as it may.
    /// - Parameter portion: limit on the bytes of one read.
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
    func `the rate is kept to from the start on`(_ rate: UInt64) {
        #expect(Double(bytesRead(in: .seconds(1), at: rate, portion: .max)) <= Double(rate) * 1.01 + 1)
        let count = Double(bytesRead(in: .seconds(20), at: rate, portion: .max))
        let wanted = Double(min(rate, 10_000_000_000)) * 20
        #expect(count <= wanted * 1.01 + 1)
        if rate <= 100_000_000 { #expect(count >= wanted * 0.9 - 1) }
    }

    @Test func `a pause saves up no more than a tenth of a second`() {
        let start = MonotonicInstant(nanoseconds: 1)
        var rate = TransmissionRate(bytesPerSecond: 1000, now: start)
        let saved = rate.allowance(now: start + .seconds(3600))
        #expect(saved == .bytes(100))
        // A clock that goes back changes nothing.
        rate.charge(100)
        let earlier = rate.allowance(now: start)
        #expect(earlier != .bytes(100))
    }

    @Test func `a transfer that goes on later begins with an empty bucket`() {
        let limit = TransmissionLimit(bytesPerSecond: 1000)
        let start = MonotonicInstant(nanoseconds: 1)
        limit.restart(now: start)
        limit.restart(now: start + .seconds(60))
        #expect(limit.allowance(now: start + .seconds(60)) == .later(start + .seconds(60) + .milliseconds(51)))
    }

    @Test func `two transfers share one limit, and only what they send counts`() {
        let limit = TransmissionLimit(bytesPerSecond: 1000)
        let start = MonotonicInstant(nanoseconds: 1) + .milliseconds(100)
        #expect(limit.allowance(now: start + .milliseconds(-100)) == .later(start + .milliseconds(-49)))
        #expect(limit.allowance(now: start) == .bytes(100))
        limit.charge(60)
        #expect(limit.allowance(now: start) != .bytes(40), "Less than half a bucket is not worth a record.")
        #expect(limit.allowance(now: start + .milliseconds(20)) == .bytes(60))
    }

    @Test func `bytes that are sent as a whole wait until they are paid for`() {
        let limit = TransmissionLimit(bytesPerSecond: 1000)
        let start = MonotonicInstant(nanoseconds: 1)
        #expect(limit.reserve(400, now: start) == start + .milliseconds(400), "The bucket was empty.")
        #expect(limit.reserve(100, now: start + .milliseconds(400)) == start + .milliseconds(500))
        #expect(limit.reserve(10, now: start + .seconds(60)) == start + .seconds(60))
    }

    @Test func `a pump sends at the rate`() throws {
        let clock = Mutex(MonotonicInstant(nanoseconds: 1))
        let source = InMemorySource([.file("a", [UInt8](repeating: 1, count: 2000))])
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 2000, totalEntries: 1)
        let transfer = Transfer(progress: progress) { clock.withLock { $0 } }
        let pump = SourcePump(
            wireID: TransferID(rawValue: 1), transfer: transfer, source: source,
            rateLimit: TransmissionLimit(bytesPerSecond: 1000)
        ) {
            clock.withLock { now in
                now = now + .milliseconds(1)
                return now
            }
        }
        pump.allow(upTo: .max)
        var byteCount = 0
        try pump.run(from: .start) { block in
            byteCount += block.frames.reduce(0, +)
            return true
        }
        #expect(byteCount > 2000)
        let elapsed = clock.withLock { $0.seconds(since: MonotonicInstant(nanoseconds: 1)) }
        #expect(elapsed > 1.8 && elapsed < 3)
    }

    @Test("R5: a receiver that grants nothing does not hold the sender")
    func stalled() throws {
        let clock = Mutex(MonotonicInstant(nanoseconds: 1))
        let source = InMemorySource([.file("a", [UInt8](repeating: 1, count: 2000))])
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 2000, totalEntries: 1)
        let transfer = Transfer(progress: progress) { clock.withLock { $0 } }
        // The monotonic clock of the machine is past each deadline that this one names.
        let pump = SourcePump(wireID: TransferID(rawValue: 1), transfer: transfer, source: source) {
            clock.withLock { now in
                now = now + .seconds(1)
                return now
            }
        }
        pump.allow(upTo: 100)
        var byteCount = 0
        #expect(throws: SourcePumpError.self) {
            try pump.run(from: .start) { block in
                byteCount += block.frames.reduce(0, +)
                return true
            }
        }
        #expect(byteCount > 0 && byteCount < 200)
        pump.end(.interrupted)
        let elapsed = clock.withLock { $0.seconds(since: MonotonicInstant(nanoseconds: 1)) }
        #expect(elapsed >= 600 && elapsed < 700)
    }

    @Test func `stopping wakes a pump that waits for the rate`() async throws {
        let source = InMemorySource([.file("a", [UInt8](repeating: 1, count: 2000))])
        let progress = TransferProgress(id: TransferID(rawValue: 1), direction: .outgoing, total: 2000, totalEntries: 1)
        let transfer = Transfer(progress: progress, clock: SystemClock.monotonic)
        let pump = SourcePump(
            wireID: TransferID(rawValue: 1), transfer: transfer, source: source,
            rateLimit: TransmissionLimit(bytesPerSecond: 1), clock: SystemClock.monotonic)
        pump.allow(upTo: .max)
        let pumping = try BlockingThread.start {
            // It would take half an hour.
            try? pump.run(from: .start) { _ in true }
        }
        pump.stop()
        await pumping.join()
        #expect(pump.isStopped)
    }
}
