internal import Nearshare
internal import Synchronization

/// Publishes the states of the files that a node sends for other commands.
final class FileTransferFollower: Sendable {
    private let contacts: ContactDirectory
    private let running = Mutex<[TransferStatus.ID: Transfer]>([:])
    private let transfers: AsyncStream<(status: TransferStatus, transfer: Transfer)>
    private let continuation: AsyncStream<(status: TransferStatus, transfer: Transfer)>.Continuation

    init(_ contacts: ContactDirectory) {
        self.contacts = contacts
        (transfers, continuation) = AsyncStream.makeStream()
    }

    /// Whether no transfer is running.
    var isEmpty: Bool { running.withLock { $0.isEmpty } }

    func add(_ transfer: Transfer, _ status: TransferStatus) {
        running.withLock { $0[status.id] = transfer }
        continuation.yield((status, transfer))
    }

    /// Cancels a transfer at both ends. No effect on one that has ended.
    func cancel(_ id: TransferStatus.ID) {
        running.withLock { $0[id] }?.cancel()
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
        for await progress in transfer.progress {
            (status.done, status.total) = (progress.done, progress.total)
            status.isWaitingForAnswer = progress.phase == .waiting
            publish(status)
        }
        let result = await transfer.result
        running.withLock { _ = $0.removeValue(forKey: status.id) }
        let name =
            status.peer == .broadcast
            ? "everyone" : (try? contacts.snapshot().contact(status.peer).name.shown) ?? status.peer.hex
        status.outcome = result.outcome
        status.detail = result.detail ?? result.outcome.sentence(name, canResume: false)
        publish(status)
    }
}
