internal import Nearshare
internal import Synchronization

/// Publishes the states of the files that a node sends for other commands.
final class FileTransferFollower: Sendable {
    private struct State {
        var running: [TransferStatus.ID: Transfer] = [:]
        /// The number of transfers that are being started.
        var startingCount = 0
        var isClosed = false
    }

    private let contacts: ContactDirectory
    private let state = Mutex(State())
    private let transfers: AsyncStream<(status: TransferStatus, transfer: Transfer)>
    private let continuation: AsyncStream<(status: TransferStatus, transfer: Transfer)>.Continuation

    init(_ contacts: ContactDirectory) {
        self.contacts = contacts
        (transfers, continuation) = AsyncStream.makeStream()
    }

    /// Admits no more transfers, unless one is running or being started.
    /// - Returns: whether it is closed now.
    func closeIfIdle() -> Bool {
        state.withLock { state in
            if state.running.isEmpty, state.startingCount == 0 { state.isClosed = true }
            return state.isClosed
        }
    }

    /// Performs `start`, which may ``add(_:_:)`` a transfer. ``closeIfIdle()`` does not close meanwhile.
    /// - Throws: ``ControlFailure/handedOver`` after it was closed; the errors of `start`.
    func performStart<Result>(_ start: () async throws -> Result) async throws -> Result {
        let isAdmitted = state.withLock { state in
            if !state.isClosed { state.startingCount += 1 }
            return !state.isClosed
        }
        guard isAdmitted else { throw ControlFailure.handedOver }
        defer { state.withLock { $0.startingCount -= 1 } }
        return try await start()
    }

    func add(_ transfer: Transfer, _ status: TransferStatus) {
        state.withLock { $0.running[status.id] = transfer }
        continuation.yield((status, transfer))
    }

    /// Cancels a transfer at both ends. No effect on one that has ended.
    func cancel(_ id: TransferStatus.ID) {
        state.withLock { $0.running[id] }?.cancel()
    }

    /// Records that no more transfers will be added.
    func finish() {
        continuation.finish()
    }

    /// Runs until ``finish()`` was called and all transfers have ended.
    func run(_ publish: @escaping @Sendable (TransferStatus) -> Void) async {
        await withDiscardingTaskGroup { group in
            for await (status, transfer) in transfers {
                group.addTask { await self.follow(transfer, status, publish) }
            }
        }
    }

    private func follow(
        _ transfer: Transfer, _ initial: TransferStatus, _ publish: @Sendable (TransferStatus) -> Void
    ) async {
        var status = initial
        // A transfer may end before its first progress is read.
        publish(status)
        for await progress in transfer.progress {
            (status.done, status.total) = (progress.done, progress.total)
            status.isWaitingForAnswer = progress.phase == .waiting
            publish(status)
        }
        let contact = status.peer == .broadcast ? nil : try? contacts.snapshot().contact(status.peer)
        let result = MeshAdvice.completed(await transfer.result, to: contact?.software)
        state.withLock { _ = $0.running.removeValue(forKey: status.id) }
        let name = status.peer == .broadcast ? "everyone" : contact?.name.shown ?? status.peer.hex
        if result.outcome == .completed, status.peer != .broadcast { await contacts.recordReceiver(status.peer) }
        status.outcome = result.outcome
        status.isConfirmed = result.isConfirmed
        status.detail = result.detail ?? (result.outcome == .completed ? nil : result.outcome.sentence(name, canResume: false))
        publish(status)
    }
}
