import NearshareBase
import NearshareInterfaces
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("rate of direct handshakes")
struct HandshakePacerTests {
    private let start = MonotonicInstant(nanoseconds: 1)
    private let host = LinkAddress(host: "192.0.2.1", port: 1)

    @Test("R9: of an address that opens links whose handshakes fail, one that stays open begins within two seconds")
    func junk() throws {
        var pacer = HandshakePacer()
        let clock = Mutex(start)
        var waiting: [(number: UInt64, end: MonotonicInstant)] = []
        var failures: [MonotonicInstant] = []
        var (newcomer, opened, served): (UInt64?, MonotonicInstant?, MonotonicInstant?) = (nil, nil, nil)
        var junkCount = 0
        for millisecond in 1...10_000 {
            let now = start + .milliseconds(millisecond)
            clock.withLock { $0 = now }
            while let end = failures.first, end <= now {
                failures.removeFirst()
                pacer.recordFailure(of: host.host, isCharged: true, now: now)
            }
            while let first = waiting.first, first.end <= now {
                waiting.removeFirst()
                switch pacer.admit(waited: first.number, now: now) {
                case .serve where first.number == newcomer: served = now
                case .serve:
                    junkCount += 1
                    failures.append(now + .milliseconds(100))
                case .wait(let number): waiting.append((number, now + WaitingLinks.waitTime))
                case .close: break
                }
            }
            // 20 a second, each for 0.1 s.
            if millisecond.isMultiple(of: 50) {
                let end = now + .milliseconds(100)
                switch pacer.admit(host, isOpen: { clock.withLock { $0 } < end }, now: now) {
                case .serve:
                    junkCount += 1
                    failures.append(end)
                case .wait(let number): waiting.append((number, now + WaitingLinks.waitTime))
                case .close: Issue.record("an open link was closed")
                }
            }
            if millisecond == 5_000, case .wait(let number) = pacer.admit(host, isOpen: { true }, now: now) {
                (newcomer, opened) = (number, now)
                waiting.append((number, now + WaitingLinks.waitTime))
            }
        }
        let (beginning, end) = (try #require(opened), try #require(served))
        #expect(end - beginning <= .seconds(2))
        #expect(junkCount <= 30)
    }

    @Test("R9: any number of handshakes that prove a key begin at an address with failures") func success() {
        var pacer = HandshakePacer()
        for _ in 0..<100 { pacer.recordFailure(of: host.host, isCharged: false, now: start) }
        let now = start + .seconds(1)
        for _ in 0..<100 {
            let step = pacer.admit(host, isOpen: { true }, now: now)
            #expect(step == .serve)
            pacer.recordSuccess(of: host.host)
        }
    }

    @Test("R9: a link that its peer has closed takes nothing from the rate of its address") func closed() {
        var pacer = HandshakePacer()
        for _ in 0..<100 { pacer.recordFailure(of: host.host, isCharged: false, now: start) }
        let now = start + .seconds(1)
        let steps = (0..<100).map { _ in pacer.admit(host, isOpen: { false }, now: now) }
        #expect(Set(steps) == [.close])
        let open = pacer.admit(host, isOpen: { true }, now: now)
        #expect(open == .serve)
    }
}
