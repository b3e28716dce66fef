package import NearshareBase
internal import Synchronization

/// The transfers of a node in both directions: active ones, and the last ones that ended.
public final class TransferProgressManager: Sendable {
    private struct State {
        var transfers: [TransferID: Transfer] = [:]
        var order: [TransferID] = []
    }

    /// Limit on remembered transfers: beyond it, those that ended are dropped, and active ones stay.
    package static let capacity = 1024

    private let state = Mutex(State())

    /// The transfers, in the order in which they began.
    public var transfers: [Transfer] {
        state.withLock { state in state.order.compactMap { state.transfers[$0] } }
    }

    /// The transfer with this identifier, as long as it is remembered.
    package subscript(id: TransferID) -> Transfer? {
        state.withLock { $0.transfers[id] }
    }

    /// Cancels a transfer at both ends.
    /// - Returns: false when no such transfer is known.
    @discardableResult
    package func cancelTransfer(_ id: TransferID) -> Bool {
        guard let transfer = self[id] else { return false }
        transfer.cancel()
        return true
    }

    /// Adds a transfer that begins.
    func add(_ transfer: Transfer) {
        state.withLock { state in
            if state.order.count >= Self.capacity {
                let ended = state.order.firstIndex { id in
                    if case .ended = state.transfers[id]?.snapshot.phase { true } else { false }
                }
                if let ended { state.transfers[state.order.remove(at: ended)] = nil }
            }
            state.transfers[transfer.id] = transfer
            state.order.append(transfer.id)
        }
    }
}
