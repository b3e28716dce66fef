import NearshareBase
import Testing

@testable import NearshareBundles

@Suite("bundle index")
struct BundleIndexTests {
    private let one = RouterFixtures.endpoint(1)
    private let two = RouterFixtures.endpoint(2)
    private let now = RouterFixtures.moment(10)

    private func index(_ quota: BundleQuota = BundleQuota()) -> BundleIndex {
        BundleIndex(local: RouterFixtures.local, quota: quota, salt: 0)
    }

    @Test("a stored bundle is seen, and stays so for a while after it is removed")
    func seen() {
        var index = index()
        let stored = RouterFixtures.stored(1, to: .endpoint(one))
        index.insert(stored)
        #expect(index.seen.contains(stored.id) && index[stored.id]?.destination == one)
        #expect(index.remove(stored.id, now: now) != nil)
        #expect(index[stored.id] == nil && index.seen.contains(stored.id))
        index.sweep(now: RouterFixtures.moment(609))
        #expect(index.seen.contains(stored.id))
        index.sweep(now: RouterFixtures.moment(611))
        #expect(index.isEmpty)
    }

    @Test("bundles for one destination are forwarded in the order of their creation")
    func order() {
        var index = index()
        let ids = [3, 1, 2].map { number -> BundleID in
            let stored = RouterFixtures.stored(UInt8(number), to: .endpoint(one), created: Double(number))
            index.insert(stored)
            return stored.id
        }
        #expect(index.bundles(for: one) == [ids[1], ids[2], ids[0]])
        index.update(ids[1]) { $0.state = .retained }
        #expect(index.bundles(for: one) == [ids[2], ids[0]])
        #expect(index.bundles(in: .waiting) == [ids[2], ids[0]])
    }

    @Test("sources take turns, however much one of them sends")
    func roundRobin() {
        var index = index()
        var ids: [String: BundleID] = [:]
        for (name, source, created) in [("a1", 1, 1.0), ("a2", 1, 2.0), ("a3", 1, 3.0), ("b1", 2, 4.0)] {
            let stored = RouterFixtures.stored(UInt8(created), from: UInt8(source), to: .everyone, created: created)
            index.insert(stored)
            ids[name] = stored.id
        }
        #expect(index.roundRobin(Array(ids.values)) == ["a1", "b1", "a2", "a3"].compactMap { ids[$0] })
    }

    @Test("B5: a neighbour over its share loses its oldest bundle, and only one of its own")
    func quota() {
        var quota = BundleQuota()
        quota.bundleCountPerHost = 2
        var index = index(quota)
        let other = RouterFixtures.stored(9, to: .unnamed(two), previousNode: two)
        index.insert(other)
        for number in 1...2 {
            index.insert(RouterFixtures.stored(UInt8(number), to: .unnamed(two), previousNode: one, created: Double(number)))
        }
        let oldest = RouterFixtures.stored(1, to: .unnamed(two), previousNode: one, created: 1).id
        let (isAdmitted, evicted) = index.admit(byteCount: 400, from: one, now: now)
        #expect(isAdmitted && evicted == [oldest])
        // Evicted bundles are accepted again.
        #expect(!index.seen.contains(oldest) && index[other.id] != nil)
    }

    @Test("B5: a bundle that exceeds the share by itself is rejected, and evicts nothing")
    func tooLarge() {
        var quota = BundleQuota()
        quota.byteCountPerHost = 300
        var index = index(quota)
        index.insert(RouterFixtures.stored(1, to: .everyone, previousNode: one))
        let (isAdmitted, evicted) = index.admit(byteCount: 301, from: one, now: now)
        #expect(!isAdmitted && evicted.isEmpty && index.count == 1)
    }

    @Test("M6, B5: a flood of broadcasts over the same neighbour displaces nothing that is for somebody, or of a contact")
    func ranks() {
        var quota = BundleQuota()
        quota.bundleCountPerHost = 20
        let friend = RouterFixtures.stored(250, from: 9, to: .everyone).copy.bundle.source
        var index = BundleIndex(local: RouterFixtures.local, quota: quota, salt: 0, isContact: { $0 == friend })
        func arrive(_ stored: StoredBundle, _ rank: BundleIndex.Rank) -> [BundleID] {
            let (isAdmitted, evicted) = index.admit(byteCount: 400, from: one, rank: rank, now: now)
            if isAdmitted { index.insert(stored) }
            return evicted
        }
        let theirs = RouterFixtures.stored(1, from: 9, to: .endpoint(two), previousNode: one)
        let directed = RouterFixtures.stored(2, from: 8, to: .endpoint(two), previousNode: one, created: 1)
        for stored in [theirs, directed] {
            let rank = index.rank(source: stored.copy.bundle.source, destination: two)
            #expect(rank == (stored.id == theirs.id ? .contact : .directed))
            _ = arrive(stored, rank)
        }
        // Each of another source, as private bundles are.
        for number in 10..<110 as Range<UInt8> {
            _ = arrive(RouterFixtures.stored(number, from: number, to: .everyone, previousNode: one, created: 2), .flooded)
        }
        #expect(index.count == 20 && index[theirs.id] != nil && index[directed.id] != nil)
        for number in 110..<240 as Range<UInt8> {
            _ = arrive(
                RouterFixtures.stored(number, from: number, to: .endpoint(two), previousNode: one, created: 3), .directed)
        }
        #expect(index.count == 20 && index[theirs.id] != nil)
    }

    // MARK: Hosts

    private let attacker = BundleHost(address: "10.0.0.9")

    /// An index with room for 120 bundles, whichever host they come from.
    private func fullIndex() -> BundleIndex {
        var quota = BundleQuota()
        quota.bundleCount = 120
        return index(quota)
    }

    /// Receives a bundle as the router does.
    private func receive(_ stored: StoredBundle, from neighbour: EndpointID, in index: inout BundleIndex) {
        let arrived = StoredBundle(
            id: stored.id, copy: stored.copy, previousNode: neighbour, host: index.host(of: neighbour))
        let (isAdmitted, _) = index.admit(byteCount: stored.copy.bundle.quotaByteCount, from: neighbour, now: now)
        if isAdmitted { index.insert(arrived) }
    }

    /// Receives 20 small bundles of one source, from a neighbour that is present.
    private func receiveHonest(from neighbour: EndpointID, in index: inout BundleIndex) -> [BundleID] {
        (0..<20).map { number in
            let stored = RouterFixtures.stored(UInt8(number), to: .endpoint(two), created: Double(number))
            receive(stored, from: neighbour, in: &index)
            return stored.id
        }
    }

    /// The bundles of 200 keys, three of each, for a destination that does not exist.
    private static let madeUp: [[StoredBundle]] = (0..<200).map { key in
        (0..<3).map { part in
            RouterFixtures.stored(
                UInt8(part), from: UInt8(key), to: .endpoint(RouterFixtures.endpoint(77)),
                created: Double(1_000 + 3 * key + part), bodyByteCount: 2_200)
        }
    }

    private func key(_ number: Int) -> EndpointID { RouterFixtures.endpoint(1_000 + UInt64(number)) }

    /// Connects with one key after the other, each of which hands over three bundles.
    /// - Parameter host: that of each connection.
    private func attack(
        _ index: inout BundleIndex, keys: Range<Int> = 0..<200, from host: (_ connection: Int) -> BundleHost
    ) {
        for number in keys {
            let key = key(number)
            index.setHost(host(number), of: key)
            for stored in Self.madeUp[number] { receive(stored, from: key, in: &index) }
            index.removeHost(of: key)
        }
    }

    @Test("B5, M6: a host that changes its key displaces no bundle of an honest neighbour", arguments: [true, false])
    func changingKeys(hasAddress: Bool) {
        var index = fullIndex()
        index.setHost(BundleHost(address: "10.0.0.1"), of: one)
        let honest = receiveHonest(from: one, in: &index)
        attack(&index) { hasAddress ? attacker : BundleHost(link: UInt64($0)) }
        #expect(index.count == 120 && honest.allSatisfy { index[$0] != nil })
        // Its newest are stored: it has displaced its own.
        #expect(Self.madeUp[199].allSatisfy { index[$0.id] != nil })
    }

    @Test("B5, M6: the share of a host is that of all its keys")
    func shareOfHost() {
        var quota = BundleQuota()
        quota.bundleCountPerHost = 50
        var index = index(quota)
        attack(&index) { _ in attacker }
        #expect(index.count == 50)
    }

    @Test("B5, M6: a host that changes its key displaces no bundle of an honest neighbour that has left")
    func leftNeighbour() {
        var index = fullIndex()
        index.setHost(BundleHost(address: "10.0.0.1"), of: one)
        let honest = receiveHonest(from: one, in: &index)
        index.removeHost(of: one)
        attack(&index) { _ in attacker }
        #expect(index.count == 120 && honest.allSatisfy { index[$0] != nil })
    }

    @Test("B5, M6: behind the attacker's address, the bundles of a neighbour that is present stay")
    func sameHost() {
        var index = fullIndex()
        index.setHost(attacker, of: one)
        let honest = receiveHonest(from: one, in: &index)
        attack(&index) { _ in attacker }
        #expect(index.count == 120 && honest.allSatisfy { index[$0] != nil })
    }

    @Test("B5, M6: made-up bundles from before a restart, of unknown hosts, displace none of an honest neighbour")
    func restored() {
        var index = fullIndex()
        index.setHost(BundleHost(address: "10.0.0.1"), of: one)
        // The neighbour that is back has handed over 20 before the restart as well.
        let earlier = (100..<120).map { number in
            RouterFixtures.stored(
                UInt8(number), to: .endpoint(two), previousNode: one, host: .unknown, created: Double(number))
        }
        for stored in earlier { index.insert(stored) }
        for number in 0..<40 {
            for stored in Self.madeUp[number] {
                index.insert(StoredBundle(id: stored.id, copy: stored.copy, previousNode: key(number)))
            }
        }
        let honest = receiveHonest(from: one, in: &index)
        #expect((honest + earlier.map(\.id)).allSatisfy { index[$0] != nil })
        attack(&index, keys: 40..<200) { _ in attacker }
        #expect(index.count == 120 && (honest + earlier.map(\.id)).allSatisfy { index[$0] != nil })
    }

    @Test("this node's own bundles have a limit of their own, and are never evicted")
    func own() {
        var quota = BundleQuota()
        quota.ownBundleCount = 1
        quota.bundleCount = 1
        var index = index(quota)
        let own = RouterFixtures.stored(1, to: .endpoint(one))
        index.insert(own)
        #expect(index.isFullOfOwn)
        #expect(index.admit(byteCount: 400, from: one, now: now) == (true, []))
        #expect(index[own.id] != nil)
    }

    @Test("bundles expire by their own time to live")
    func expiry() {
        var index = index()
        let short = RouterFixtures.stored(1, to: .everyone, profile: .shortReach)
        index.insert(short)
        index.insert(RouterFixtures.stored(2, to: .everyone))
        #expect(index.expired(now: RouterFixtures.moment(1_799)).isEmpty)
        #expect(index.expired(now: RouterFixtures.moment(1_800)) == [short.id])
    }
}

private func == (left: (isAdmitted: Bool, evicted: [BundleID]), right: (Bool, [BundleID])) -> Bool {
    left.isAdmitted == right.0 && left.evicted == right.1
}
