import Nearshare
import Testing

@testable import NearshareService

@Suite("tries after a broken link") struct ReconnectionTests {
    private let network = LinkAddress(host: "192.0.2.1", port: 4000)
    private let radio = LinkAddress(host: "00:AA:01:00:00:00", port: 0, medium: .bluetooth)

    private func instant(_ seconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: seconds * 1_000_000_000) }

    @Test func `the back-off doubles up to eight seconds and ends with the time`() {
        var reconnection = Reconnection(timeout: .seconds(30))
        var delays: [Duration] = []
        var now: Int64 = 100
        while let delay = reconnection.delay(afterFailureAt: [network], byteCount: 10, now: instant(now)) {
            delays.append(delay)
            now += 4
        }
        #expect(delays == [1, 2, 4, 8, 8, 8, 8, 8].map { .seconds($0) })
        #expect(reconnection.timeLeft(instant(now)) == .zero)
    }

    @Test func `addresses that failed are collected`() {
        var reconnection = Reconnection(timeout: .seconds(30))
        _ = reconnection.delay(afterFailureAt: [radio], byteCount: 10, now: instant(0))
        _ = reconnection.delay(afterFailureAt: [network], byteCount: 0, now: instant(1))
        #expect(reconnection.failedAddresses == [radio, network])
        #expect(reconnection.timeLeft(instant(1)) == .seconds(29))
    }

    @Test func `more bytes than before begin a new series of tries`() {
        var reconnection = Reconnection(timeout: .seconds(30))
        _ = reconnection.delay(afterFailureAt: [radio], byteCount: 10, now: instant(0))
        _ = reconnection.delay(afterFailureAt: [radio], byteCount: 10, now: instant(20))
        let delay = reconnection.delay(afterFailureAt: [network], byteCount: 11, now: instant(29))
        #expect(delay == .seconds(1))
        #expect(reconnection.failedAddresses == [network])
        #expect(reconnection.timeLeft(instant(29)) == .seconds(30))
    }

    @Test func `a peer that takes nothing more cannot keep the tries going`() {
        var reconnection = Reconnection(timeout: .seconds(30))
        var tries = 0
        var now: Int64 = 0
        while reconnection.delay(afterFailureAt: [network], byteCount: 5, now: instant(now)) != nil {
            tries += 1
            now += 1
        }
        #expect(tries == 30)
    }
}
