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
