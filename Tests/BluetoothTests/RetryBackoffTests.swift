import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareBluetooth

@Suite("back-off")
struct RetryBackoffTests {
    @Test("delays double from one second to a minute, and start again after success")
    func delays() {
        var backoff = RetryBackoff(firstAttempt: DeviceFixtures.at(0))
        #expect(backoff.nextAttempt == DeviceFixtures.at(0))
        var delays: [Double] = []
        for _ in 0..<9 {
            backoff.recordFailure(at: DeviceFixtures.at(100))
            delays.append((backoff.nextAttempt - DeviceFixtures.at(100)).inSeconds)
        }
        #expect(delays == [1, 2, 4, 8, 16, 32, 60, 60, 60])
        #expect(backoff.failureCount == 9)
        backoff.recordSuccess()
        backoff.recordFailure(at: DeviceFixtures.at(100), jitter: .milliseconds(50))
        #expect(backoff.nextAttempt == DeviceFixtures.at(101) + .milliseconds(50))
    }

    @Test("a time can be set without a failure")
    func scheduled() {
        var backoff = RetryBackoff(firstAttempt: DeviceFixtures.at(0))
        backoff.schedule(at: DeviceFixtures.at(7))
        #expect(backoff.failureCount == 0 && backoff.nextAttempt == DeviceFixtures.at(7))
    }
}
