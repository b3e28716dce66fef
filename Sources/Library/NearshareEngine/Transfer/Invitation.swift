public import NearshareBase
public import NearshareCrypto
public import NearshareDirect
package import NearshareInterfaces
internal import Synchronization

/// Somebody offers something. Accept it, decline it, or drop it, which declines it too.
public final class Invitation: Sendable {
    /// Who offers it.
    public let peer: Peer
    /// What is offered. The sender is held to it.
    public let offer: Offer
    /// Bytes for the program, as the peer's program wrote them.
    public let context: [UInt8]
    /// Same for the same send repeated: where an earlier try is found again, together with the peer's key.
    package let resumeKey: [UInt8]
    /// After this it declines itself.
    package let expiry: MonotonicInstant
    private let answering: Answering
    private let transfer: Transfer
    private let transfers: TransferProgressManager
    private let isAnswered = Atomic(false)
    private let codeEvent = Promise<ShortAuthenticationDigits?>()
    private let endEvent = Promise<TransferOutcome>()

    /// What an answer sets in motion, on the path that the invitation came by.
    struct Answering: Sendable {
        var accept: @Sendable (Transfer, any ResourceSink, _ keepsPartial: Bool) -> Void
        var decline: @Sendable (DeclineReason) -> Void
    }

    init(
        peer: Peer, offer: Offer, context: [UInt8], resumeKey: [UInt8], expiry: MonotonicInstant, transfer: Transfer,
        transfers: TransferProgressManager, answering: Answering
    ) {
        self.peer = peer
        self.offer = offer
        self.context = context
        self.resumeKey = resumeKey
        self.expiry = expiry
        self.answering = answering
        self.transfer = transfer
        self.transfers = transfers
    }

    deinit {
        if !isAnswered.load(ordering: .acquiring) { answering.decline(.declined) }
    }

    /// The eight digits that the sender sees as well; nil when the link ended before they were agreed, or the task is
    /// cancelled.
    public var shortCode: ShortAuthenticationDigits? {
        get async { await codeEvent.happened ?? nil }
    }

    /// Waits until it was withdrawn or has expired; nil when the task is cancelled before. An answered invitation does not end.
    public var ended: TransferOutcome? {
        get async { await endEvent.happened }
    }

    /// Takes it. The handle tells how it goes; when the invitation was over already, it ends at once.
    /// - Parameter keepsPartial: what has arrived when it breaks off is kept for another try.
    package func accept(into sink: any ResourceSink, keepsPartial: Bool = true) -> Transfer {
        precondition(takeAnswer(), "an invitation is answered once")
        transfers.add(transfer)
        answering.accept(transfer, sink, keepsPartial)
        return transfer
    }

    /// Does not take it. Answered already, nothing happens.
    public func decline(_ reason: DeclineReason = .declined) {
        if takeAnswer() { answering.decline(reason) }
    }

    private func takeAnswer() -> Bool { !isAnswered.exchange(true, ordering: .acquiringAndReleasing) }

    // MARK: For the engine

    func shortCodeIsReady(_ code: ShortAuthenticationDigits) {
        codeEvent.happen(code)
    }

    func hasNoShortCode() {
        codeEvent.happen(nil)
    }

    func end(_ outcome: TransferOutcome) {
        codeEvent.happen(nil)
        endEvent.happen(outcome)
    }
}
