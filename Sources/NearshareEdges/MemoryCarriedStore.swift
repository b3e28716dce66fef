public import NearshareBase
internal import Synchronization

/// The twin of the store on disk.
public final class MemoryCarriedStore: CarriedStore {
    private struct State {
        var messages: [StoredMessage] = []
        var delivered: [CarriedID: WallTime] = [:]
    }

    private let state = Mutex(State())
    private let quota: CarriedStoreQuota

    public init(quota: CarriedStoreQuota = CarriedStoreQuota()) {
        self.quota = quota
    }

    public func messages() -> [StoredMessage] { state.withLock { $0.messages } }

    public func insert(_ message: StoredMessage) throws(StorageError) {
        try state.withLock { (state) throws(StorageError) in
            guard !state.messages.contains(where: { $0.id == message.id }) else { return }
            let total = state.messages.reduce(0) { $0 + $1.copy.count }
            let share = state.messages.reduce(0) { $0 + ($1.depositor == message.depositor ? $1.copy.count : 0) }
            guard total + message.copy.count <= quota.byteCount, share + message.copy.count <= quota.byteCountPerDepositor
            else { throw .carriedStoreFull }
            state.messages.append(message)
        }
    }

    public func copy(of id: CarriedID) -> [UInt8]? { state.withLock { $0.messages.first { $0.id == id }?.copy } }

    public func countForward(of id: CarriedID) {
        state.withLock { state in
            guard let index = state.messages.firstIndex(where: { $0.id == id }) else { return }
            state.messages[index].forwards += 1
        }
    }

    public func remove(_ ids: [CarriedID]) {
        let ids = Set(ids)
        state.withLock { $0.messages.removeAll { ids.contains($0.id) } }
    }

    public func remember(_ id: CarriedID, until expiry: WallTime) {
        state.withLock { $0.delivered[id] = expiry }
    }

    public func delivered() -> [(id: CarriedID, until: WallTime)] {
        state.withLock { $0.delivered.map { (id: $0.key, until: $0.value) } }
    }

    public func expire(now: WallTime) {
        state.withLock { state in
            state.messages.removeAll { $0.expiry <= now }
            state.delivered = state.delivered.filter { $0.value > now }
        }
    }

    public func removeAll() {
        state.withLock { $0 = State() }
    }
}

extension StorageError {
    /// More than a ``CarriedStoreQuota`` allows.
    public static let carriedStoreFull = StorageError(
        .overLimit, "no room for more messages that are carried for others; some have to be delivered or expire first")
}
