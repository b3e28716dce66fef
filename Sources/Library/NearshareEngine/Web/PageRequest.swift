package import NearshareCrypto
package import NearshareDirect
internal import NearshareInterfaces
internal import Synchronization

/// A browser's request for the offered content. It is accepted or declined once; releasing it unanswered declines it.
package final class PageRequest: Sendable {
    /// The browser.
    package let peer: Peer
    /// The code that the browser shows.
    package let shortCode: ShortAuthenticationDigits
    /// The transfer, which has ended already when the browser has withdrawn its request.
    package let transfer: Transfer
    private let answer: @Sendable (_ isAccepted: Bool) -> Void
    private let isAnswered = Atomic(false)
    private let endEvent = Promise<TransferOutcome>()
    /// Fulfilled when the browser downloads an item without encryption.
    let unencryptedDownload = Promise<Bool>()

    init(
        _ peer: Peer, _ shortCode: ShortAuthenticationDigits, _ transfer: Transfer,
        answer: @escaping @Sendable (_ isAccepted: Bool) -> Void
    ) {
        (self.peer, self.shortCode, self.transfer, self.answer) = (peer, shortCode, transfer, answer)
    }

    deinit {
        if !isAnswered.load(ordering: .acquiring) { answer(false) }
    }

    /// Accepts the request. The transfer ends at once when the request was over already.
    package func accept() { reply(true) }

    /// Declines the request. No effect once it is answered.
    package func decline() { reply(false) }

    /// Waits until the request is withdrawn or has expired; nil when the task is cancelled first. Never returns
    /// a value once the request is answered.
    package var ended: TransferOutcome? {
        get async { await endEvent.value }
    }

    /// Waits until the browser begins an unencrypted download of an item, which others on the network can read.
    /// - Returns: false when the task is cancelled first.
    package func isDownloadedUnencrypted() async -> Bool { await unencryptedDownload.value ?? false }

    private func reply(_ isAccepted: Bool) {
        if !isAnswered.exchange(true, ordering: .acquiringAndReleasing) { answer(isAccepted) }
    }

    /// Ends a request that has not been answered.
    func end(_ outcome: TransferOutcome) { endEvent.fulfil(outcome) }
}
