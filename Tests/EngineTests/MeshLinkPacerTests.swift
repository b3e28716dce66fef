import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareEngine

@Suite("rate of links to the mesh")
struct MeshLinkPacerTests {
    private let start = MonotonicInstant(nanoseconds: 0)

    private func address(_ host: String) -> LinkAddress { LinkAddress(host: host, port: 1) }

    @Test(
        "R3: a host that opens links and closes them at once is served at a rate, and a newcomer at its address after a moment")
    func churn() {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        var (servedCount, now) = (0, start)
        // 1,000 a second, for ten seconds.
        for _ in 0..<10_000 {
            now = now + .milliseconds(1)
            switch pacer.admit(host, isOpen: { false }, now: now) {
            case .serve: servedCount += 1
            case .wait: Issue.record("a closed link waits")
            case .close: break
            }
        }
        #expect(servedCount <= 5 * MeshLinkPacer.openingsPerAddress)
        let step = pacer.admit(host, isOpen: { true }, now: now)
        #expect(step == .wait)
        let isServed = pacer.admitWaited(host, isOpen: true, now: now + MeshLinkPacer.wait)
        #expect(isServed)
    }

    @Test("R3: links that stay open are served at twice the rate at most, and few wait")
    func held() {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        var (servedCount, now) = (0, start)
        var waiting: [MonotonicInstant] = []
        var mostWaiting = 0
        for _ in 0..<10_000 {
            now = now + .milliseconds(1)
            while let first = waiting.first, first <= now {
                waiting.removeFirst()
                if pacer.admitWaited(host, isOpen: true, now: now) { servedCount += 1 }
            }
            switch pacer.admit(host, isOpen: { true }, now: now) {
            case .serve: servedCount += 1
            case .wait: waiting.append(now + MeshLinkPacer.wait)
            case .close: break
            }
            mostWaiting = max(mostWaiting, waiting.count)
        }
        #expect(servedCount <= 10 * MeshLinkPacer.openingsPerAddress)
        #expect(mostWaiting <= MeshLinkPacer.waitingPerAddress)
    }

    @Test("R3: a newcomer at another address waits for no host, and for many of them a moment at most")
    func others() {
        var pacer = MeshLinkPacer()
        for _ in 0..<1_000 { _ = pacer.admit(address("192.0.2.1"), isOpen: { false }, now: start) }
        let other = pacer.admit(address("192.0.2.2"), isOpen: { true }, now: start)
        #expect(other == .serve)
        for number in 0..<1_000 { _ = pacer.admit(address("198.51.100.\(number % 250)"), isOpen: { false }, now: start) }
        let third = pacer.admit(address("192.0.2.3"), isOpen: { true }, now: start)
        let isServed = pacer.admitWaited(address("192.0.2.3"), isOpen: true, now: start + MeshLinkPacer.wait)
        #expect(third == .wait && isServed)
    }

    @Test("R3: the links that wait are bounded in all, and those that were closed meanwhile are not served")
    func bounded() {
        var pacer = MeshLinkPacer()
        var waitingCount = 0
        for number in 0..<10_000 {
            if pacer.admit(address("2001:db8::\(String(number, radix: 16))"), isOpen: { true }, now: start) == .wait {
                waitingCount += 1
            }
        }
        // One host can use all addresses of the network.
        #expect(waitingCount == MeshLinkPacer.waitingPerAddress)
        for number in 0..<10_000 {
            if pacer.admit(address("10.0.\(number / 250).\(number % 250)"), isOpen: { true }, now: start) == .wait {
                waitingCount += 1
            }
        }
        #expect(waitingCount == MeshLinkPacer.waiting)
        let isServed = pacer.admitWaited(address("10.0.0.1"), isOpen: false, now: start + MeshLinkPacer.wait)
        #expect(!isServed)
    }
}
