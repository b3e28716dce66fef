import Logging
import NearshareBase
import NearshareBundles
import NearshareCrypto
import NearshareInterfaces
import NearshareTesting
import Synchronization
import Testing

@testable import NearshareEngine

@Suite("bundle performer")
struct BundlePerformerTests {
    /// Records the order of calls; can be full.
    private final class RecordingStore: BundleStore {
        let calls = Mutex<[String]>([])
        let quota: BundleStoreQuota
        private let bundleStore: InMemoryBundleStore

        init(quota: BundleStoreQuota = BundleStoreQuota()) {
            self.quota = quota
            bundleStore = InMemoryBundleStore(quota: quota)
        }

        func record(_ call: String) { calls.withLock { $0.append(call) } }

        func bundles() -> [PersistedBundle] { bundleStore.bundles() }
        func apply(_ changes: [BundleStoreChange]) -> [BundleID] {
            record("apply \(changes.count)")
            return bundleStore.apply(changes)
        }
        func copy(of id: BundleID) -> [UInt8]? {
            record("read")
            return bundleStore.copy(of: id)
        }
        func contains(_ id: BundleID) -> Bool { bundleStore.contains(id) }
        func recordForward(of id: BundleID) {}
        func deliveries() -> [(id: BundleID, expiry: WallTime)] { bundleStore.deliveries() }
        func removeExpired(now: WallTime) {}
        func removeAll() {}
    }

    private let neighbour = EndpointID(rawValue: 7)

    private func stored(_ number: UInt8) -> StoredBundle {
        let bundle = Bundle(
            kind: .clear, destination: .everyone, profile: .standard, creationTime: WallTime(milliseconds: 1_000),
            senderKey: [UInt8](repeating: number, count: 32), hashLock: nil, body: [1, number])
        return StoredBundle(
            id: bundle.id,
            copy: BundleCopy(
                hopCount: 0, forwarding: .routed, visitedTags: [], bundle: bundle,
                signature: [UInt8](repeating: 0, count: 64)), previousNode: nil)
    }

    private func forward(_ bundle: StoredBundle) -> BundleReaction {
        .forward(bundle.id, to: neighbour, hopCount: 1, forwarding: .routed, visitedTags: [3])
    }

    private func performer(_ store: RecordingStore) -> BundlePerformer {
        BundlePerformer(
            store: store, log: Logger(label: "test"), emit: { _ in store.record("event") },
            send: { packet, _, _ in
                if case .copy(let copy) = packet {
                    store.record("copy \(copy.hopCount) \(copy.visitedTags)")
                } else {
                    store.record("packet")
                }
            })
    }

    @Test("events come first, then all changes in one transaction, then packets; what was stored is not read back")
    func order() {
        let store = RecordingStore()
        var performer = performer(store)
        let (one, two) = (stored(1), stored(2))
        performer.perform([
            .store(one), forward(one), .emit(.sent(one.id)), .store(two), .send(.receipt([1]), to: neighbour),
            .recordDelivery(two.id, expiry: WallTime(milliseconds: 2_000)), forward(two),
        ])
        #expect(store.calls.withLock { $0 } == ["event", "apply 3", "copy 1 [3]", "packet", "copy 1 [3]"])
        performer.perform([forward(one)])
        #expect(store.calls.withLock { !$0.contains("read") })
    }

    @Test("a bundle from before a restart is read once, and not after it was deleted")
    func restored() {
        let store = RecordingStore()
        let bundle = stored(1)
        var first = performer(store)
        first.perform([.store(bundle)])
        store.calls.withLock { $0 = [] }
        var second = performer(store)
        second.perform([forward(bundle), forward(bundle)])
        second.perform([forward(bundle), .delete([bundle.id])])
        #expect(
            store.calls.withLock { $0 } == ["read", "copy 1 [3]", "copy 1 [3]", "apply 1", "copy 1 [3]"])
        store.calls.withLock { $0 = [] }
        second.perform([forward(bundle)])
        #expect(store.calls.withLock { $0.filter { $0 != "read" }.isEmpty })
    }

    @Test("B5: a bundle that the store rejects is not forwarded")
    func rejected() {
        let store = RecordingStore(quota: BundleStoreQuota(byteCount: 10))
        var performer = performer(store)
        let bundle = stored(1)
        performer.perform([.store(bundle), forward(bundle)])
        #expect(store.calls.withLock { $0.filter { $0.hasPrefix("copy") }.isEmpty })
    }

    @Test("B9: the cache of copies is bounded, and drops the oldest")
    func cache() {
        var cache = BundleCopyCache(capacity: 3_000)
        let bundles = (1...20).map { stored($0) }
        for bundle in bundles { cache.insert(bundle.copy, id: bundle.id) }
        #expect(cache.count == 5)
        #expect(cache[bundles[19].id] != nil && cache[bundles[0].id] == nil)
        cache.insert(bundles[18].copy, id: bundles[18].id)
        #expect(cache.count == 5)
        cache.remove(bundles[19].id)
        #expect(cache.count == 4)
        var small = BundleCopyCache(capacity: 100)
        small.insert(bundles[0].copy, id: bundles[0].id)
        #expect(small.count == 0)
    }
}
