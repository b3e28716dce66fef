import NearshareBase
import NearshareInterfaces
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("links that wait until a rate permits to serve them")
struct WaitingLinksTests {
    @Test("R9: a link is served when a later decision permits it") func turn() async {
        var decisions: [WaitingLinks.Step] = [.serve, .wait(2)]
        var asked: [UInt64] = []
        let isServed = await WaitingLinks.awaitTurn(
            after: .wait(1), stopping: Promise<Void>(),
            admit: { number in
                asked.append(number)
                return decisions.removeLast()
            },
            remove: { _ in Issue.record("a link was removed without a decision") })
        #expect(isServed)
        #expect(asked == [1, 2])
    }

    @Test func `a link that waits when the node stops is removed, and not served`() async {
        let stopping = Promise<Void>()
        stopping.fulfil()
        var removed: [UInt64] = []
        let isServed = await WaitingLinks.awaitTurn(
            after: .wait(1), stopping: stopping, admit: { _ in .serve }, remove: { removed.append($0) })
        #expect(!isServed)
        #expect(removed == [1])
    }

    @Test("R9: turns are those of the places in the queues, then of the latest turns, then of the numbers") func order() {
        let now = MonotonicInstant(nanoseconds: 1)
        var links = WaitingLinks()
        // Two queues with an earlier turn, and one without.
        let latest = ["a": now + .seconds(2), "b": now + .seconds(1)]
        let numbers = ["a", "a", "b", "c", "b", "c", "c"].compactMap { queue -> UInt64? in
            let address = LinkAddress(host: queue, port: 1)
            guard case .wait(let number) = links.insert(address, queue: queue, isOpen: { true }, now: now) else { return nil }
            return number
        }
        func turns() -> [Int?] { numbers.map { links.linksBefore($0, latestTurns: latest)?.inAll } }
        #expect(turns() == [2, 5, 1, 0, 4, 3, 6])
        #expect(numbers.map { links.linksBefore($0, latestTurns: latest)?.inQueue } == [0, 1, 0, 0, 1, 1, 2])
        links.remove(numbers[3])
        #expect(turns() == [2, 5, 1, nil, 4, 0, 3])
        let host = links.host(of: numbers[3])
        #expect(host == nil)
    }

    @Test("R9: a link for which there is no room asks no other one again whether it is open") func refusal() {
        let start = MonotonicInstant(nanoseconds: 1)
        var links = WaitingLinks()
        let questionCount = Mutex(0)
        func open(_ host: String, now: MonotonicInstant) -> Bool {
            let address = LinkAddress(host: host, port: 1)
            let isOpen: @Sendable () -> Bool = {
                questionCount.withLock { $0 += 1 }
                return true
            }
            let step = links.insert(address, queue: host, latestTurns: [:], isOpen: isOpen, now: now)
            return step != .close
        }
        let admitted = (0..<1_000).count { _ in open("192.0.2.1", now: start) }
        let first = questionCount.withLock { $0 }
        #expect(admitted == WaitingLinks.maximumCountPerAddress && first == admitted)
        _ = open("192.0.2.1", now: start + WaitingLinks.waitTime)
        let second = questionCount.withLock { $0 }
        #expect(second == 2 * admitted)
    }
}
