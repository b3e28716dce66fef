import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareDiscovery

@Suite("which services are resolved")
struct ResolutionQueueTests {
    private func key(_ number: Int) -> ServiceSighting.Key {
        ServiceSighting.Key(instance: "\(number)", interfaceIndex: 2, isIPv6: false)
    }

    private func started(_ queue: inout ResolutionQueue) -> [ServiceSighting.Key] {
        var keys: [ServiceSighting.Key] = []
        while let start = queue.next() { keys.append(start.key) }
        return keys
    }

    @Test("each service is resolved once, the newest first")
    func order() {
        var queue = ResolutionQueue(retriesOnce: true)
        for number in [1, 2, 3, 2] { queue.announce(key(number)) }
        #expect(queue.isResolving)
        #expect(started(&queue) == [key(3), key(2), key(1)])
        queue.announce(key(2))
        #expect(started(&queue).isEmpty)
        for number in 1...3 { queue.resolve(key(number)) }
        #expect(!queue.isResolving)
        queue.announce(key(2))
        #expect(started(&queue).isEmpty, "it is followed")
        #expect(queue.contains(key(2)) && queue.resolvingKeys.isEmpty)
    }

    @Test("without an answer a service is tried once more, after those that have not been tried", arguments: [true, false])
    func retries(_ retriesOnce: Bool) {
        var queue = ResolutionQueue(retriesOnce: retriesOnce)
        queue.announce(key(1))
        #expect(started(&queue) == [key(1)])
        queue.fail(key(1))
        queue.announce(key(2))
        #expect(started(&queue) == (retriesOnce ? [key(2), key(1)] : [key(2)]))
        queue.fail(key(1))
        #expect(started(&queue).isEmpty, "twice is enough")
        queue.announce(key(1))
        #expect(started(&queue) == [key(1)], "until it announces itself again")
    }

    @Test("R6: a flood of names without answers keeps 64 questions busy, 1024 waiting, and no newcomer out")
    func flood() {
        var queue = ResolutionQueue(retriesOnce: true)
        for number in 0..<5000 { queue.announce(key(number)) }
        #expect(started(&queue).count == ResolutionQueue.maximumResolvingCount)
        queue.announce(key(9999))
        #expect(queue.next() == nil)
        queue.fail(key(4999))
        #expect(queue.next() == ResolutionQueue.Start(key: key(9999), evicted: nil))
        var total = ResolutionQueue.maximumResolvingCount + 1
        while let failed = queue.resolvingKeys.first {
            queue.fail(failed)
            total += started(&queue).count
        }
        #expect(total <= 2 * (ResolutionQueue.maximumWaitingCount + ResolutionQueue.maximumResolvingCount + 1))
        #expect(!queue.isResolving)
    }

    @Test("R6: of 256 followed services one gives way to a new one")
    func eviction() throws {
        var queue = ResolutionQueue(retriesOnce: false)
        for number in 0..<ResolutionQueue.maximumFollowedCount {
            queue.announce(key(number))
            #expect(queue.next()?.evicted == nil)
            queue.resolve(key(number))
        }
        queue.announce(key(9999))
        let next = queue.next()
        let start = try #require(next)
        let evicted = try #require(start.evicted)
        #expect(start.key == key(9999) && !queue.contains(evicted))
        queue.announce(evicted)
        #expect(queue.next()?.key == evicted, "it can come back")
    }

    @Test("a service that says goodbye is neither waited for, nor resolved, nor retried")
    func goodbye() {
        var queue = ResolutionQueue(retriesOnce: true)
        queue.announce(key(1))
        queue.announce(key(2))
        queue.remove(key(2))
        #expect(started(&queue) == [key(1)])
        queue.fail(key(1))
        queue.remove(key(1))
        #expect(started(&queue).isEmpty)
        queue.announce(key(3))
        queue.removeAll()
        #expect(started(&queue).isEmpty && !queue.isResolving)
        queue.resolve(key(3))
        #expect(!queue.contains(key(3)), "a late answer")
    }
}

@Suite("when a browser has settled")
struct SettlingTests {
    private func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }

    @Test("not before 1.5 s, also when the engine is complete")
    func minimum() {
        var settling = Settling(startedAt: at(0))
        settling.engineIsComplete()
        #expect(settling.nextDeadline == at(1500))
        #expect(settling.tick(at: at(1499), isResolving: false) == false)
        #expect(settling.tick(at: at(1500), isResolving: false) == true)
        #expect(settling.nextDeadline == nil)
        #expect(settling.tick(at: at(9000), isResolving: false) == false, "once")
    }

    @Test("services that do not answer delay it to 4 s at the most")
    func maximum() {
        var settling = Settling(startedAt: at(0))
        settling.engineIsComplete()
        #expect(settling.tick(at: at(1500), isResolving: true) == false)
        #expect(settling.nextDeadline == at(4000))
        #expect(settling.tick(at: at(4000), isResolving: true) == true)
    }

    @Test("in between, it settles as soon as the engine is complete and all is resolved")
    func between() {
        var settling = Settling(startedAt: at(0))
        #expect(settling.tick(at: at(2000), isResolving: false) == false)
        settling.engineIsComplete()
        #expect(settling.tick(at: at(2500), isResolving: true) == false)
        #expect(settling.tick(at: at(2600), isResolving: false) == true)
    }
}

@Suite("clock and randomness")
struct DiscoveryEnvironmentTests {
    @Test("a query repeats its question once, and ends, by the clock that it is given")
    func query() throws {
        func at(_ milliseconds: Int64) -> MonotonicInstant { MonotonicInstant(nanoseconds: milliseconds * 1_000_000) }
        let query = LegacyUnicastQuery(for: .nearshare, id: 7, on: [], at: at(0))
        #expect(query.nextDeadline == at(250))
        query.retransmitIfDue(at: at(249))
        #expect(query.nextDeadline == at(250))
        query.retransmitIfDue(at: at(250))
        #expect(query.nextDeadline == at(1500))
        #expect(query.isFinished(at: at(0)), "without sockets there is nothing to wait for")
        #expect(query.descriptors.isEmpty && query.receiveAnswers().isEmpty)
    }
}
