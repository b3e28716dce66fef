package import Nearshare
internal import Synchronization

/// The transfers of an operation that have not ended.
package final class RunningTransfers: Sendable {
    private struct State {
        var transfers: [(number: Int, label: TransferLabel, transfer: Transfer)] = []
        var lastNumber = 0
        var reconnecting: [Reconnecting] = []
        var isCancelled = false

        mutating func reserveNumber() -> Int {
            lastNumber += 1
            return lastNumber
        }
    }

    /// A peer whose link broke in the middle of a transfer, while a new connection is tried.
    package struct Reconnecting: Sendable, Hashable {
        /// Escaped for a terminal.
        package var label: String
        /// The time at which the link broke.
        package var since: MonotonicInstant
    }

    private let state = Mutex(State())
    private let additions = AsyncCondition()

    package init() {}

    /// Whether anything is listed.
    package var isActive: Bool { state.withLock { !$0.transfers.isEmpty || !$0.reconnecting.isEmpty } }

    /// Waits until something is listed, or the task is cancelled.
    package func waitForAddition() async { await additions.wait { [self] in isActive } }

    /// The transfers with their labels.
    package var current: [(label: TransferLabel, transfer: Transfer)] {
        state.withLock { $0.transfers.map { ($0.label, $0.transfer) } }
    }

    /// The transfers by their numbers, which no later ones get.
    var numbered: [(number: Int, label: TransferLabel, transfer: Transfer)] {
        state.withLock { $0.transfers.sorted { $0.number < $1.number } }
    }

    /// Reserves the number of a question, which the transfer that it is about keeps.
    func reserveNumber() -> Int { state.withLock { $0.reserveNumber() } }

    /// The peers to which a new connection is tried.
    package var reconnecting: [Reconnecting] { state.withLock { $0.reconnecting } }

    /// Whether ``cancelAll()`` was called.
    package var isCancelled: Bool { state.withLock { $0.isCancelled } }

    /// Lists a transfer while `body` runs. A transfer that was begun before ``cancelAll()`` and is listed after it is cancelled.
    /// - Parameter number: as ``reserveNumber()`` returned it; nil for the next one.
    func following<Result>(
        _ transfer: Transfer, label: TransferLabel, number: Int? = nil, _ body: () async -> Result
    ) async -> Result {
        let isCancelled = state.withLock { state in
            state.transfers.append((number ?? state.reserveNumber(), label, transfer))
            return state.isCancelled
        }
        additions.notifyAll()
        // Offered while the others were being cancelled.
        if isCancelled { transfer.cancel() }
        defer { state.withLock { state in state.transfers.removeAll { $0.transfer === transfer } } }
        return await body()
    }

    /// Lists the reading of standard input while `body` runs, so that the user sees its progress, and cancels it.
    func reading<Result>(_ reading: Transfer, _ body: () async throws -> Result) async throws -> Result {
        let outcome: Swift.Result<Result, any Error> = await following(
            reading, label: TransferLabel("reading standard input")
        ) {
            do { return .success(try await body()) } catch { return .failure(error) }
        }
        return try outcome.get()
    }

    /// Lists a peer as reconnecting while `body` runs.
    func reconnecting<Result>(
        _ peer: Reconnecting, _ body: () async throws -> Result
    ) async rethrows -> Result {
        state.withLock { $0.reconnecting.append(peer) }
        additions.notifyAll()
        defer {
            state.withLock { state in
                if let index = state.reconnecting.firstIndex(of: peer) { state.reconnecting.remove(at: index) }
            }
        }
        return try await body()
    }

    /// Cancels the transfers at both ends. Received content is kept for resuming.
    /// - Returns: false when there is none.
    @discardableResult
    func cancelAll() -> Bool {
        let transfers = state.withLock { state in
            state.isCancelled = true
            return state.transfers
        }
        for (_, _, transfer) in transfers { transfer.cancel() }
        return !transfers.isEmpty
    }
}
