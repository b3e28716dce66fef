package import NearshareBase
internal import Synchronization

/// The twin of the store on disk.
package final class InMemoryBundleStore: BundleStore {
    private struct State {
        var messages: [StoredMessage] = []
        var delivered: [BundleID: WallTime] = [:]
    }

    private let state = Mutex(State())
    private let quota: BundleStoreQuota

    package init(quota: BundleStoreQuota = BundleStoreQuota()) {
        self.quota = quota
    }

    package func messages() -> [StoredMessage] { state.withLock { $0.messages } }

    package func insert(_ message: StoredMessage) throws(StorageError) {
        try state.withLock { (state) throws(StorageError) in
            guard !state.messages.contains(where: { $0.id == message.id }) else { return }
            let total = state.messages.reduce(0) { $0 + $1.copy.count }
            let share = state.messages.reduce(0) { $0 + ($1.depositor == message.depositor ? $1.copy.count : 0) }
            guard total + message.copy.count <= quota.byteCount, share + message.copy.count <= quota.byteCountPerDepositor
            else { throw .carriedStoreFull }
            state.messages.append(message)
        }
    }

    package func copy(of id: BundleID) -> [UInt8]? { state.withLock { $0.messages.first { $0.id == id }?.copy } }

    package func countForward(of id: BundleID) {
        state.withLock { state in
            guard let index = state.messages.firstIndex(where: { $0.id == id }) else { return }
            state.messages[index].forwards += 1
        }
    }

    package func remove(_ ids: [BundleID]) {
        let ids = Set(ids)
        state.withLock { $0.messages.removeAll { ids.contains($0.id) } }
    }

    package func remember(_ id: BundleID, until expiry: WallTime) {
        state.withLock { $0.delivered[id] = expiry }
    }

    package func delivered() -> [(id: BundleID, until: WallTime)] {
        state.withLock { $0.delivered.map { (id: $0.key, until: $0.value) } }
    }

    package func expire(now: WallTime) {
        state.withLock { state in
            state.messages.removeAll { $0.expiry <= now }
            state.delivered = state.delivered.filter { $0.value > now }
        }
    }

    package func removeAll() {
        state.withLock { $0 = State() }
    }
}

extension StorageError {
    /// More than a ``BundleStoreQuota`` allows.
    package static let carriedStoreFull = StorageError(
        .overLimit, "no room for more messages that are carried for others; some have to be delivered or expire first")
}
