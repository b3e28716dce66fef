package import NearshareBase
internal import Synchronization

/// The in-memory form of the store on disk.
package final class InMemoryBundleStore: BundleStore {
    private struct State {
        var bundles: [PersistedBundle] = []
        var deliveries: [BundleID: WallTime] = [:]

        /// - Returns: false when the bundle exceeds the quota.
        mutating func insert(_ bundle: PersistedBundle, within quota: BundleStoreQuota) -> Bool {
            guard !bundles.contains(where: { $0.id == bundle.id }) else { return true }
            let total = bundles.reduce(bundle.copy.count) { $0 + $1.copy.count }
            let share = bundles.reduce(bundle.copy.count) {
                $0 + ($1.previousNode == bundle.previousNode ? $1.copy.count : 0)
            }
            guard total <= quota.byteCount, share <= quota.byteCountPerPreviousNode else { return false }
            bundles.append(bundle)
            return true
        }
    }

    private let state = Mutex(State())
    private let quota: BundleStoreQuota

    package init(quota: BundleStoreQuota = BundleStoreQuota()) {
        self.quota = quota
    }

    package func bundles() -> [PersistedBundle] { state.withLock { $0.bundles } }

    package func apply(_ changes: [BundleStoreChange]) -> [BundleID] {
        state.withLock { state in
            var rejected: [BundleID] = []
            for change in changes {
                switch change {
                case .insert(let bundle): if !state.insert(bundle, within: quota) { rejected.append(bundle.id) }
                case .remove(let id): state.bundles.removeAll { $0.id == id }
                case .recordDelivery(let id, let expiry): state.deliveries[id] = expiry
                }
            }
            return rejected
        }
    }

    package func copy(of id: BundleID) -> [UInt8]? { state.withLock { $0.bundles.first { $0.id == id }?.copy } }

    package func contains(_ id: BundleID) -> Bool { state.withLock { $0.bundles.contains { $0.id == id } } }

    package func recordForward(of id: BundleID) {
        state.withLock { state in
            guard let index = state.bundles.firstIndex(where: { $0.id == id }) else { return }
            state.bundles[index].forwardCount += 1
        }
    }

    package func deliveries() -> [(id: BundleID, expiry: WallTime)] {
        state.withLock { $0.deliveries.map { (id: $0.key, expiry: $0.value) } }
    }

    package func removeExpired(now: WallTime) {
        state.withLock { state in
            state.bundles.removeAll { $0.expiry <= now }
            state.deliveries = state.deliveries.filter { $0.value > now }
        }
    }

    package func removeAll() {
        state.withLock { $0 = State() }
    }
}
