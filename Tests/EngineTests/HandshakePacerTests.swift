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
            pacer.recordSuccess(of: host.host, isKnown: false)
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

    /// Links that are opened as fast as the pacer serves them, each with a new key that is proven at once.
    private struct Flood {
        var pacer = HandshakePacer()
        private(set) var now: MonotonicInstant
        /// The handshakes of the flood that have begun.
        private(set) var count = 0
        private var waiting: [(number: UInt64, address: LinkAddress, end: MonotonicInstant)] = []
        private var turn = 0
        private let addresses: [LinkAddress]

        init(from addressCount: Int, start: MonotonicInstant) {
            addresses = (0..<addressCount).map { LinkAddress(host: "198.51.\($0 / 250).\($0 % 250)", port: 1) }
            now = start
        }

        /// Opens 20 links each 50 ms.
        mutating func run(for duration: Duration) {
            let end = now + duration
            while now < end { step() }
        }

        /// - Returns: when the handshake of an honest link has begun; nil for one that is closed.
        mutating func open(_ address: LinkAddress, isKnown: Bool = false) -> MonotonicInstant? {
            var step = pacer.admit(address, isOpen: { true }, now: now)
            var next = now + WaitingLinks.waitTime
            while case .wait(let number) = step {
                self.step()
                guard now >= next else { continue }
                step = pacer.admit(waited: number, now: now)
                next = now + WaitingLinks.waitTime
            }
            guard step == .serve else { return nil }
            pacer.recordSuccess(of: address.host, isKnown: isKnown)
            return now
        }

        private mutating func step() {
            now = now + .milliseconds(50)
            while let first = waiting.first, first.end <= now {
                waiting.removeFirst()
                handle(pacer.admit(waited: first.number, now: now), of: first.address)
            }
            for _ in 0..<20 {
                turn += 1
                let address = addresses[turn % addresses.count]
                handle(pacer.admit(address, isOpen: { true }, now: now), of: address)
            }
        }

        private mutating func handle(_ step: WaitingLinks.Step, of address: LinkAddress) {
            switch step {
            case .serve:
                count += 1
                pacer.recordSuccess(of: address.host, isKnown: false)
            case .wait(let number): waiting.append((number, address, now + WaitingLinks.waitTime))
            case .close: break
            }
        }
    }

    @Test(
        "R9: handshakes that prove new keys begin at a bounded rate; a newcomer and a friend begin within half a second",
        arguments: [1, 200])
    func newKeys(addressCount: Int) throws {
        var flood = Flood(from: addressCount, start: start)
        flood.run(for: .seconds(2))
        let total = UnknownKeyRateLimiter.totalBurst + 2 * UnknownKeyRateLimiter.totalPerSecond
        let ofAddress = UnknownKeyRateLimiter.burst + 2 * UnknownKeyRateLimiter.perSecond
        #expect(Double(flood.count) <= (addressCount == 1 ? ofAddress : total) + 1)
        for (address, isKnown) in [("192.0.2.1", false), ("192.0.2.2", true), ("192.0.2.2", true)] {
            let opened = flood.now
            let begun = flood.open(LinkAddress(host: address, port: 1), isKnown: isKnown)
            #expect(try #require(begun) - opened <= .milliseconds(500))
        }
    }

    @Test("R9: addresses of which more open links than wait do not come before a newcomer again") func manyAddresses() throws {
        var flood = Flood(from: 300, start: start)
        // Each has had its turn several times.
        flood.run(for: .seconds(8))
        for number in 1...4 {
            let opened = flood.now
            let begun = flood.open(LinkAddress(host: "192.0.2.\(number)", port: 1))
            #expect(try #require(begun) - opened <= .milliseconds(500))
        }
    }

    @Test("R9: keys that are known cost nothing, and 64 nodes of one machine begin at once") func knownKeys() {
        var pacer = HandshakePacer()
        let known = (0..<1_000).count { _ in
            let step = pacer.admit(host, isOpen: { true }, now: start)
            pacer.recordSuccess(of: host.host, isKnown: true)
            return step == .serve
        }
        #expect(known == 1_000)
        let nodes = (0..<2 * 64).count { _ in pacer.admit(host, isOpen: { true }, now: start) == .serve }
        #expect(nodes == 2 * 64)
    }

    @Test("R9: the first link of an address that waits begins before further ones of another address") func turns() {
        var pacer = HandshakePacer()
        // All that may begin at once.
        for number in 0..<256 {
            _ = pacer.admit(LinkAddress(host: "203.0.113.\(number)", port: 1), isOpen: { true }, now: start)
        }
        func open(_ address: LinkAddress) -> [UInt64] {
            (0..<64).compactMap { _ -> UInt64? in
                guard case .wait(let number) = pacer.admit(address, isOpen: { true }, now: start) else { return nil }
                return number
            }
        }
        let waiting = [open(host), open(LinkAddress(host: "192.0.2.2", port: 1))]
        #expect(waiting.map(\.count) == [64, 64])
        let now = start + WaitingLinks.waitTime
        let begun = waiting.map { numbers in numbers.count { pacer.admit(waited: $0, now: now) == .serve } }
        #expect(begun[0] > 16 && begun[1] >= 1)
    }

    @Test("R9, R3: a newcomer's link has room among those of other addresses that wait") func room() {
        var pacer = HandshakePacer()
        let crowd = (0..<100).map { LinkAddress(host: "203.0.113.\($0)", port: 1) }
        var waiting: [UInt64] = []
        for each in 0..<256 + WaitingLinks.maximumCount {
            if case .wait(let number) = pacer.admit(crowd[each % 100], isOpen: { true }, now: start) {
                waiting.append(number)
            }
        }
        #expect(waiting.count == WaitingLinks.maximumCount)
        guard case .wait(let newcomer) = pacer.admit(host, isOpen: { true }, now: start) else {
            Issue.record("the newcomer does not wait")
            return
        }
        let now = start + WaitingLinks.waitTime
        let steps = waiting.map { pacer.admit(waited: $0, now: now) }
        let step = pacer.admit(waited: newcomer, now: now)
        #expect(steps.count { $0 == .close } == 1 && step == .serve)
    }
}
