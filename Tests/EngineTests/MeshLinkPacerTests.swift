import NearshareBase
import NearshareInterfaces
import Synchronization
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
        guard case .wait(let number) = step else {
            Issue.record("\(step)")
            return
        }
        let decision = pacer.admit(waited: number, now: now + WaitingLinks.waitTime)
        #expect(decision == .serve)
    }

    @Test("R3: links that are closed while they wait keep no newcomer from waiting")
    func closedMeanwhile() {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        let isOpen = Mutex(true)
        for _ in 0..<1_000 { _ = pacer.admit(host, isOpen: { isOpen.withLock { $0 } }, now: start) }
        let full = pacer.admit(host, isOpen: { true }, now: start)
        #expect(full == .close)
        isOpen.withLock { $0 = false }
        guard case .wait(let number) = pacer.admit(host, isOpen: { true }, now: start) else {
            Issue.record("no room")
            return
        }
        let decision = pacer.admit(waited: number, now: start + WaitingLinks.waitTime)
        #expect(decision == .serve)
    }

    @Test("R3: links that stay open are served at twice the rate at most, and few wait")
    func held() {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        var (servedCount, now) = (0, start)
        var waiting: [(number: UInt64, end: MonotonicInstant)] = []
        var mostWaiting = 0
        for _ in 0..<10_000 {
            now = now + .milliseconds(1)
            while let first = waiting.first, first.end <= now {
                waiting.removeFirst()
                switch pacer.admit(waited: first.number, now: now) {
                case .serve: servedCount += 1
                case .wait(let number): waiting.append((number, now + WaitingLinks.waitTime))
                case .close: break
                }
            }
            switch pacer.admit(host, isOpen: { true }, now: now) {
            case .serve: servedCount += 1
            case .wait(let number): waiting.append((number, now + WaitingLinks.waitTime))
            case .close: break
            }
            mostWaiting = max(mostWaiting, waiting.count)
        }
        #expect(servedCount <= 10 * MeshLinkPacer.openingsPerAddress)
        #expect(mostWaiting <= WaitingLinks.maximumCountPerAddress)
    }

    @Test("R3: a newcomer at another address waits for no host, and for many of them a moment at most")
    func others() {
        var pacer = MeshLinkPacer()
        for _ in 0..<1_000 { _ = pacer.admit(address("192.0.2.1"), isOpen: { false }, now: start) }
        let other = pacer.admit(address("192.0.2.2"), isOpen: { true }, now: start)
        #expect(other == .serve)
        for number in 0..<1_000 { _ = pacer.admit(address("198.51.100.\(number % 250)"), isOpen: { false }, now: start) }
        guard case .wait(let number) = pacer.admit(address("192.0.2.3"), isOpen: { true }, now: start) else {
            Issue.record("no wait")
            return
        }
        let decision = pacer.admit(waited: number, now: start + WaitingLinks.waitTime)
        #expect(decision == .serve)
    }

    @Test("R3: a link that is kept open is served before those that its address holds for a moment, hundreds a second")
    func keptOpen() throws {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        let clock = Mutex(start)
        var waiting: [(number: UInt64, end: MonotonicInstant)] = []
        var (newcomer, opened, served): (UInt64?, MonotonicInstant?, MonotonicInstant?) = (nil, nil, nil)
        for millisecond in 1...6_000 {
            let now = start + .milliseconds(millisecond)
            clock.withLock { $0 = now }
            while let first = waiting.first, first.end <= now {
                waiting.removeFirst()
                let step = pacer.admit(waited: first.number, now: now)
                if case .wait = step { waiting.append((first.number, now + WaitingLinks.waitTime)) }
                if first.number == newcomer, step != .wait(first.number) { served = step == .serve ? now : nil }
            }
            if newcomer == nil, millisecond >= 500, case .wait(let number) = pacer.admit(host, isOpen: { true }, now: now) {
                (newcomer, opened) = (number, now)
                waiting.append((number, now + WaitingLinks.waitTime))
            }
            // The host holds each link until the first decision about it.
            let end = now + WaitingLinks.waitTime + .milliseconds(1)
            if millisecond.isMultiple(of: 3),
                case .wait(let number) = pacer.admit(host, isOpen: { clock.withLock { $0 } < end }, now: now)
            {
                waiting.append((number, now + WaitingLinks.waitTime))
            }
        }
        let (beginning, end) = (try #require(opened), try #require(served))
        #expect(end - beginning <= MeshLinkPacer.period + WaitingLinks.waitTime * 2)
    }

    @Test("R3: hosts that hold all slots keep no newcomer at another address waiting")
    func otherAddress() {
        var pacer = MeshLinkPacer()
        for number in 0..<600 {
            _ = pacer.admit(address("2001:db8::\(String(number, radix: 16))"), isOpen: { true }, now: start)
            _ = pacer.admit(address("192.0.2.\(number % 8)"), isOpen: { true }, now: start)
        }
        let newcomer = pacer.admit(address("192.0.2.100"), isOpen: { true }, now: start)
        #expect(newcomer == .serve)
    }

    @Test("R3: the links that wait are bounded in all, and those that were closed meanwhile are not served")
    func bounded() {
        var pacer = MeshLinkPacer()
        let isOpen = Mutex(true)
        var waiting: [UInt64] = []
        func open(_ host: String) {
            let step = pacer.admit(address(host), isOpen: { isOpen.withLock { $0 } }, now: start)
            if case .wait(let number) = step { waiting.append(number) }
        }
        for number in 0..<1_000 { open("2001:db8::\(String(number, radix: 16))") }
        // One host can use all addresses of the network.
        #expect(waiting.count == WaitingLinks.maximumCountPerAddress)
        for number in 0..<2_000 { open("10.0.\(number / 250).\(number % 250)") }
        #expect(waiting.count == WaitingLinks.maximumCount)
        isOpen.withLock { $0 = false }
        let servedCount = waiting.count { pacer.admit(waited: $0, now: start + WaitingLinks.waitTime) == .serve }
        #expect(servedCount == 0)
    }

    @Test("R3: links for which no other one gives way take slots in the order in which they were opened, and few of them wait")
    func slots() {
        var pacer = MeshLinkPacer()
        let host = address("192.0.2.1")
        let isOpen = Mutex(true)
        var numbers: [UInt64] = []
        for _ in 0..<100 {
            let step = pacer.awaitSlot(host, isOpen: { isOpen.withLock { $0 } }, now: start)
            if case .wait(let number) = step { numbers.append(number) }
        }
        #expect(numbers.count == MeshLinkPacer.slotQueueCapacity)
        let hasLinks = [host, address("192.0.2.2")].map { pacer.hasLinksAwaitingSlot(from: $0) }
        let first = numbers.filter { pacer.isNext($0) }
        #expect(hasLinks == [true, false] && first == [numbers[0]])
        pacer.removeAwaitingSlot(numbers[0])
        let second = numbers.filter { pacer.isNext($0) }
        let early = pacer.awaitSlotLonger(numbers[1], now: start + WaitingLinks.maximumWaitTime)
        let late = pacer.awaitSlotLonger(numbers[1], now: start + MeshLinkPacer.maximumSlotWaitTime)
        let third = numbers.filter { pacer.isNext($0) }
        #expect(early == .wait(numbers[1]))
        #expect(second == [numbers[1]] && late == .close && third == [numbers[2]])
        isOpen.withLock { $0 = false }
        let closed = pacer.hasLinksAwaitingSlot(from: host)
        #expect(!closed)
    }

    @Test func `R3: links that wait for slots leave the links that wait for the rate their room`() {
        var pacer = MeshLinkPacer()
        for host in 1...20 {
            for _ in 0..<MeshLinkPacer.slotQueueCapacity {
                _ = pacer.awaitSlot(address("10.0.0.\(host)"), isOpen: { true }, now: start)
            }
        }
        let host = address("192.0.2.1")
        for _ in 0..<MeshLinkPacer.openingsPerAddress { _ = pacer.admit(host, isOpen: { true }, now: start) }
        let step = pacer.admit(host, isOpen: { true }, now: start)
        guard case .wait = step else {
            Issue.record("\(step)")
            return
        }
    }
}
