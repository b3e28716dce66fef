import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareEngine

@Suite("The parts of a node") struct NodePartsTests {
    @Test("R3: incoming links are limited in all and for each host, and a link that ends makes room") func limits() {
        var links = LinkRegistry()
        var limits = NodeLimits()
        (limits.links, limits.linksPerAddress) = (3, 2)
        let first = (0..<3).map { _ in links.admit(from: "a", limits: limits) }
        #expect(first == [true, true, false])
        #expect(links.admit(from: "b", limits: limits) == true)
        #expect(links.admit(from: "c", limits: limits) == false, "three links are open")
        links.release(from: "b")
        #expect(links.admit(from: "a", limits: limits) == false, "two of this host are open")
        #expect(links.admit(from: "c", limits: limits) == true)
        for host in ["a", "a", "c"] { links.release(from: host) }
        let again = (0..<3).map { _ in links.admit(from: "a", limits: limits) }
        #expect(again == [true, true, false])
    }

    @Test("a listener that is removed is no longer the one to connect to; the rest is closed together") func listeners() throws
    {
        let transport = InMemoryTransport()
        let (first, second) = (try transport.listen(port: 0, interface: nil), try transport.listen(port: 0, interface: nil))
        var listeners = ListenerRegistry()
        #expect(listeners.port == nil)
        listeners.insert(first, nil)
        listeners.insert(second, nil)
        #expect(listeners.port == first.port)
        listeners.remove(first)
        #expect(listeners.port == second.port)
        let removed = listeners.removeAll()
        #expect(listeners.port == nil)
        removed.close()
        #expect(throws: LinkError.self) { try second.accept() }
    }

    @Test("all started tasks are awaited, none is started after the end", .timeLimit(.minutes(1))) func tasks() async {
        let tasks = OwnedTasks()
        let (started, finished) = (Promise<Bool>(), Monitor(0))
        for _ in 0..<3 {
            tasks.start {
                _ = await started.value
                finished.update { $0 += 1 }
            }
        }
        tasks.start {
            tasks.finish()
            #expect(tasks.start { finished.update { $0 += 1 } } == false)
            started.fulfil(true)
        }
        await tasks.run()
        #expect(finished.withLock { $0 } == 3)
    }
}
