import NearshareBase
import NearshareDirect
import NearshareInterfaces
import NearshareTestTraits
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("a function that threads share") struct HandlerTests {
    /// A function that is wrapped at each access needs more than any stack here.
    @Test("takes no more of the stack after many accesses") func manyAccesses() {
        let shared = Mutex<Handler<Int, Int>?>(Handler { $0 + 1 })
        for _ in 0..<300_000 { _ = shared.withLock { $0 } }
        #expect(shared.withLock { $0 }?(1) == 2)
    }
}

@Test("a search that finds nothing lists the ids of peers that share a name")
func sharedNames() throws {
    let peers = try ["ben", "anna", "Ben"].enumerated().map { number, name in
        NearbyPeer(
            id: try #require(PeerID(hex: "00000000000000a\(number)")), name: try DisplayName(name),
            addresses: [])
    }
    #expect(
        NodeError.notFound("00a", nearby: peers).description
            == "00a is not nearby; these are: ben (00000000000000a0), anna, Ben (00000000000000a2)")
}

@Test("a search that finds nothing names eight peers, and counts the others", arguments: [8, 10] as [UInt8])
func manyPeers(count: UInt8) throws {
    let peers = try (0..<count).map { number in
        NearbyPeer(
            id: try #require(PeerID(bytes: [UInt8](repeating: number, count: 8))),
            name: try DisplayName(String(UnicodeScalar(97 + number))), addresses: [])
    }
    let more = count > 8 ? " and 2 more" : ""
    #expect(
        NodeError.notFound("zoe", nearby: peers).description == "zoe is not nearby; these are: a, b, c, d, e, f, g, h" + more)
}

@Test("an error names an empty text in quotation marks, and says where this node is the reason")
func errorWords() {
    #expect(NodeError.notFound("", nearby: []).description == "no peers found")
    #expect(NodeError.ambiguity(of: "", rows: []) == "\"\" matches several peers; use the id of one:")
    #expect(NodeError(HandshakeFailure.ownKey).description.hasPrefix("the peer at this address is this machine itself"))
    #expect(NodeError(HandshakeFailure.ownKey).isOwnKey && !NodeError(HandshakeFailure.notAuthentic("x")).isOwnKey)
    #expect(NodeError(DirectClosure.closed(by: .local, .goingAway)).description.hasPrefix("the node is stopping"))
    for reason in [CloseReason.goingAway, .done] {
        let error = NodeError(DirectClosure.closed(by: .remote, reason))
        #expect(error.isTransient && error.description.hasPrefix("the peer is shutting down"))
    }
    for reason in [CloseReason.blocked, .unattended, .tooManyLinks, .replaced, .violation, .goingAway, .done] {
        let error = NodeError(DirectClosure.closed(by: .local, reason))
        #expect(error.isTransient == [.done, .replaced].contains(reason), "\(reason)")
        #expect(error.description != NodeError(DirectClosure.closed(by: .remote, reason)).description, "\(reason)")
    }
}

@Test func `the log says in words why a link has ended`() {
    var closures = [DirectClosure.lost, .violation(MalformedInput("offer: a name"))]
    for reason in (0...UInt8.max).compactMap(CloseReason.init(rawValue:)) {
        closures += [.closed(by: .local, reason), .closed(by: .remote, reason)]
    }
    let ends = closures.map { LinkEnd.closure($0) } + [.handshake(.ownKey), .handshake(.encryptionMismatch)]
    for end in ends { #expect(!"\(end)".contains("closed(") && !"\(end)".contains("Direct"), "\(end)") }
}

@Test("K3: a peer that violates the protocol is not connected to again: each try would be another guess")
func violation() {
    let error = NodeError(DirectClosure.violation(MalformedInput("short authentication string: another one")))
    #expect(!error.isTransient)
    #expect(error.description.contains("short authentication string: another one"))
    // Also where the peer says so of this node.
    guard case .incompatible = NodeError(DirectClosure.closed(by: .remote, .violation)) else {
        Issue.record("a reported violation is no incompatibility")
        return
    }
    #expect(NodeError(DirectClosure.lost).isTransient)
}

@Suite("the parts of a node", .leavesNothing) struct NodePartsTests {
    /// A registry whose links end when they are told to.
    private struct Links {
        var registry = LinkRegistry()
        var limits = NodeLimits()
        var now = MonotonicInstant(nanoseconds: 0)
        let ended = Monitor<[LinkRegistry.Slot]>([])
        /// Keeps no slots for friends.
        private var roomy: NodeLimits {
            var limits = limits
            limits.linksKeptForFriends = 0
            return limits
        }

        /// - Returns: nil when it was refused.
        mutating func admit(
            _ host: String, isUsed: Bool = true, isProven: Bool = true, isServing: Bool = false, rate: Int? = nil
        ) -> LinkRegistry.Slot? {
            let source = LinkSource(LinkAddress(host: host, port: 1))
            let admission = registry.admit(from: source, isForeign: isServing, limits: limits, now: now, end: {})
            guard case .admitted(let slot, let end) = admission else { return nil }
            end?()
            let since = now
            registry.attach(
                slot, unusedSince: { _ in isUsed ? nil : since }, rate: { _ in rate }, isServing: { _ in isServing },
                end: { [ended] in ended.update { $0.append(slot) } })
            if isProven { _ = registry.classify(slot, isFriend: false, limits: roomy, now: now) }
            return slot
        }
    }

    @Test("R3: incoming links are limited in all and for each source, and a link that ends makes room") func limits() {
        var links = Links()
        (links.limits.links, links.limits.linksPerAddress) = (3, 2)
        let first = (0..<3).map { _ in links.admit("10.0.0.1") }
        #expect(first.map { $0 != nil } == [true, true, false])
        let second = links.admit("10.0.0.2")
        #expect(second != nil)
        #expect(links.admit("10.0.0.3") == nil, "three links are open")
        if let second { links.registry.release(second, now: links.now) }
        #expect(links.admit("10.0.0.1") == nil, "two of this host are open")
        #expect(links.admit("10.0.0.3") != nil)
        #expect(links.registry.incomingCount == 3)
    }

    @Test("Q6: an unused link gives way to a newcomer: the oldest of the source with the most, after a second") func eviction()
    {
        var links = Links()
        (links.limits.links, links.limits.linksPerAddress) = (4, 3)
        let crowd = (0..<3).map { number -> LinkRegistry.Slot? in
            links.now = MonotonicInstant(nanoseconds: Int64(number))
            return links.admit("10.0.0.1", isUsed: number == 0)
        }
        let single = links.admit("10.0.0.2", isUsed: false)
        #expect(crowd.allSatisfy { $0 != nil } && single != nil)
        #expect(links.admit("10.0.0.3") == nil, "all are younger than a second")
        links.now = MonotonicInstant(nanoseconds: 2_000_000_000)
        let newcomer = links.admit("10.0.0.3")
        #expect(newcomer != nil && links.ended.withLock { $0 } == [crowd[1]])
        // A full source makes room among its own links only.
        let another = links.admit("10.0.0.2", isUsed: false)
        #expect(another != nil && links.ended.withLock { $0 } == [crowd[1], crowd[2]])
        #expect(links.registry.incomingCount == 4)
    }

    @Test("Q6: a foreign link that serves a request gives way to others, and not to foreign ones of its source") func serving()
    {
        var links = Links()
        (links.limits.links, links.limits.linksPerAddress) = (3, 2)
        let first = (0..<2).map { number -> LinkRegistry.Slot? in
            links.now = MonotonicInstant(nanoseconds: Int64(number))
            return links.admit("10.0.0.1", isUsed: false, isProven: false, isServing: true)
        }
        let another = links.admit("10.0.0.1", isServing: true)
        #expect(another == nil && links.ended.withLock(\.isEmpty))
        let others = (0..<2).map { _ in links.admit("10.0.0.2") }
        #expect(others.allSatisfy { $0 != nil } && links.ended.withLock { $0 } == [first[0]])
        links.limits.linksPerAddress = 1
        let direct = links.admit("10.0.0.1")
        #expect(direct != nil && links.ended.withLock { $0 } == first)
    }

    @Test("R5: no slow transfer gives way where links without use are about to") func slowBesideGrace() {
        var links = Links()
        (links.limits.links, links.limits.linksPerAddress) = (5, 2)
        let slow = links.admit("10.0.0.1", rate: 0)
        let unused = links.admit("10.0.0.1", isUsed: false)
        let refused = links.admit("10.0.0.1")
        #expect(slow != nil && unused != nil && refused == nil && links.ended.withLock { $0.isEmpty })
    }

    @Test("R5: where all slots of a source are in use, the slowest link below the minimum rate gives way") func trickle() {
        var links = Links()
        (links.limits.links, links.limits.linksPerAddress) = (5, 2)
        let sound = links.admit("10.0.0.1", rate: ProgressMeter.minimumRate)
        let slow = links.admit("10.0.0.1", rate: 12)
        let newcomer = links.admit("10.0.0.1", rate: ProgressMeter.minimumRate)
        #expect(sound != nil && newcomer != nil && links.ended.withLock { $0 } == [slow])
        #expect(links.admit("10.0.0.1") == nil, "none is slow")
        // Where all are used up, the only link of its source stays.
        let single = links.admit("10.0.0.2", rate: 0)
        let two = (0..<2).map { links.admit("10.0.0.3", rate: 100 + $0) }
        let last = links.admit("10.0.0.4")
        #expect(single != nil && last != nil && links.ended.withLock { $0 } == [slow, two[0]])
    }

    @Test("Q6: connections renewed without end keep no newcomer out: those without a proven key give way at once") func churn()
    {
        var links = Links()
        var newcomer: LinkRegistry.Slot?
        for time in 0..<1_000 {
            links.now = MonotonicInstant(nanoseconds: Int64(time) * 1_000_000)
            let renewed = links.admit("10.1.0.\(time % 60)", isUsed: false, isProven: false)
            #expect(renewed != nil, "\(time)")
            if time == 500 { newcomer = links.admit("10.0.0.1", isUsed: false, isProven: false) }
            let ended = links.ended.withLock { $0 }
            // The time for a handshake.
            if time == 550 { #expect(newcomer.map { !ended.contains($0) } == true) }
            for slot in ended { links.registry.release(slot, now: links.now) }
        }
        #expect(links.registry.incomingCount == links.limits.links)
    }

    @Test("Q6: slots are kept for friends, and friends' links neither count for a source nor give way") func friends() {
        var links = Links()
        (links.limits.links, links.limits.linksKeptForFriends, links.limits.linksPerAddress) = (4, 2, 2)
        var limits = links.limits
        limits.links = 4
        func classify(_ slot: LinkRegistry.Slot?, isFriend: Bool) -> Bool {
            guard let slot else { return false }
            let end = links.registry.classify(slot, isFriend: isFriend, limits: limits, now: links.now)
            end?()
            return end == nil
        }
        for host in ["10.0.0.1", "10.0.0.2"] {
            let slot = links.admit(host)
            #expect(classify(slot, isFriend: false))
        }
        // All slots of untrusted peers are in use: this one has to go.
        let third = links.admit("10.0.0.3")
        #expect(!classify(third, isFriend: false) && links.ended.withLock { $0 } == [third])
        for _ in 0..<2 {
            let friend = links.admit("10.0.0.1", isUsed: false)
            #expect(classify(friend, isFriend: true))
        }
        links.now = MonotonicInstant(nanoseconds: 9_000_000_000)
        #expect(links.admit("10.0.0.4") == nil, "a friend's link is not pushed out")
    }

    @Test("Q6: addresses of one IPv6 network are one source, IPv4 addresses are one each") func sources() {
        func source(_ host: String) -> LinkSource { LinkSource(LinkAddress(host: host, port: 1)) }
        let network = source("2001:db8:1:2:3:4:5:6")
        for host in ["2001:db8:1:2::1", "2001:db8:1:2:ffff::", "2001:db8:1:2:0:0:10.0.0.1"] {
            #expect(source(host) == network, "\(host)")
        }
        for host in ["2001:db8:1:3::1", "2001:db8:1::2", "::1", "fe80::1%eth0", "10.0.0.1"] {
            #expect(source(host) != network, "\(host)")
        }
        #expect(source("fe80::1%eth0") == source("fe80::ffff:2%eth0"))
        #expect(source("::1") == .loopback && source("127.0.0.1") == .loopback && source("::2") == .network(0))
        // A process of this machine can use every one of them.
        #expect(source("127.0.0.2") == source("127.66.1.1") && source("127.0.0.2") != .loopback)
        #expect(source("10.0.0.1") != source("10.0.0.2"))
        #expect(source("1::") == .network(1 << 48) && source("0:0:0:7::") == .network(7))
    }

    @Test("R9: an address has sixteen failed handshakes at once, then one a second, and others are not concerned")
    func failedHandshakes() {
        var limiter = HandshakeRateLimiter()
        /// The handshakes that begin, of so many a second.
        func startedCount(_ host: String, in seconds: Range<Int>, perSecond: Int = 100) -> Int {
            var count = 0
            for number in seconds.lowerBound * perSecond..<seconds.upperBound * perSecond {
                let now = MonotonicInstant(nanoseconds: Int64(number) * 1_000_000_000 / Int64(perSecond))
                guard limiter.begin(host, now: now) else { continue }
                limiter.recordFailure(of: host, isCharged: true, now: now)
                count += 1
            }
            return count
        }
        #expect(startedCount("10.0.0.1", in: 0..<10) == 25)
        #expect(startedCount("10.0.0.2", in: 9..<10, perSecond: 10) == 10)
        // The rate is full again.
        #expect(startedCount("10.0.0.1", in: 40..<41) == 16)
    }

    @Test("R9: failures count in full, however long after the connections they come") func lateFailures() {
        var limiter = HandshakeRateLimiter()
        limiter.recordFailure(of: "10.0.0.1", now: MonotonicInstant(nanoseconds: 1))
        let later = MonotonicInstant(nanoseconds: 1) + .seconds(100)
        for _ in 0..<16 { limiter.recordFailure(of: "10.0.0.1", now: later) }
        let isAllowed = limiter.allows("10.0.0.1", now: later)
        #expect(!isAllowed)
    }

    @Test("R9: the addresses with failed handshakes are bounded, and the worst is not forgotten") func failingAddresses() {
        var limiter = HandshakeRateLimiter()
        let now = MonotonicInstant(nanoseconds: 1)
        for _ in 0..<16 { limiter.recordFailure(of: "10.0.0.1", now: now) }
        for number in 0..<10_000 { limiter.recordFailure(of: "2001:db8::\(number)", now: now) }
        #expect(limiter.addressCount == HandshakeRateLimiter.maximumAddressCount)
        #expect(!limiter.allows("10.0.0.1", now: now) && limiter.allows("10.0.0.2", now: now))
        for _ in 0..<2 { limiter.recordFailure(of: "10.0.0.3", now: now + .seconds(60)) }
        #expect(limiter.addressCount == 1)
    }

    @Test("Q8: of the links that are relayed on one path, two are carried at once") func relays() throws {
        var relays = ForwardedRelays()
        let ids = try (1...2).map { try #require(PeerID(bytes: [UInt8](repeating: $0, count: PeerID.byteCount))) }
        let path = RelayPath(origin: ids[0], target: ids[1])
        let started = (0..<3).map { _ in relays.begin(path) }
        #expect(started == [true, true, false])
        let back = relays.begin(RelayPath(origin: ids[1], target: ids[0]))
        relays.end(path)
        let again = (0..<2).map { _ in relays.begin(path) }
        #expect(back && again == [true, false])
    }

    @Test("relayed links are quiet a while after the last byte, and when there are none") func quietRelays() throws {
        var relays = ForwardedRelays()
        let ids = try (1...2).map { try #require(PeerID(bytes: [UInt8](repeating: $0, count: PeerID.byteCount))) }
        let path = RelayPath(origin: ids[0], target: ids[1])
        _ = relays.begin(path)
        #expect(relays.quietInstant == nil)
        let start = MonotonicInstant(nanoseconds: 0)
        for now in [start, start + .seconds(3)] {
            relays.recordBytes(at: now)
            #expect(relays.quietInstant == now + ForwardedRelays.quietTime)
        }
        relays.end(path)
        #expect(relays.quietInstant == nil)
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
        let (started, finished) = (Promise<Void>(), Monitor(0))
        for _ in 0..<3 {
            tasks.start {
                _ = await started.value
                finished.update { $0 += 1 }
            }
        }
        tasks.start {
            #expect(tasks.stopping.current == nil)
            tasks.finish()
            #expect(tasks.stopping.current != nil)
            #expect(tasks.start { finished.update { $0 += 1 } } == false)
            started.fulfil()
        }
        await tasks.run()
        #expect(finished.withLock { $0 } == 3)
    }

    @Test("a stopped node starts nothing, and nothing waits for it", .timeLimit(.minutes(1)))
    func startsNothingAfterStop() async throws {
        let network = TestNetwork(.memory)
        try await withNode(network.settings(0)) { node in
            let session = try node.startSession()
            node.beginShutdown()
            // Each of these calls needs a task that is never run.
            await #expect(throws: NodeError.self) { try await node.withConnection(to: network.destination(1, 1)) { _ in } }
            await #expect(throws: SessionError.self) { try await session.invite(network.destination(1, 1)) }
            await session.leave()
        }
    }
}
