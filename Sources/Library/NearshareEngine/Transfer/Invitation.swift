public import NearshareBase
package import NearshareCrypto
public import NearshareDirect
package import NearshareInterfaces
internal import Synchronization

/// An offer of files, folders or text. It is accepted or declined once; releasing it unanswered declines it.
public final class Invitation: Sendable {
    /// The offering peer.
    public let peer: Peer
    /// The offered items and sizes. Content that exceeds them ends the transfer.
    public let offer: Offer
    /// The first entries of the items as the sender lists them, without times; empty where it lists none. Content that differs ends
    /// the transfer.
    package let contents: [EntryHeader]
    /// The abilities of the sender.
    package let features: TransferFeatures
    /// Untrusted bytes from the sending program, at most 1024.
    public let context: [UInt8]
    /// Equal for repeated sends of the same content; together with the peer's key it identifies a partial transfer.
    package let resumeKey: [UInt8]
    /// Whether the peer has sent the content to everyone in the mesh.
    package let isForEveryone: Bool
    /// The time at which the invitation is declined automatically; nil for content that waits for the user's decision.
    package let expiry: MonotonicInstant?
    private let answering: Answering
    let transfer: Transfer
    private let transfers: TransferProgressManager
    private let isAnswered = Atomic(false)
    private let codeEvent = Promise<ShortAuthenticationDigits?>()
    private let endEvent = Promise<TransferOutcome>()

    /// The actions that answer an offer, for the path on which it was received.
    struct Answering: Sendable {
        var accept: @Sendable (Transfer, any ResourceSink, OfferPart?, _ keepsPartial: Bool) -> Void
        var decline: @Sendable (DeclineReason) -> Void
        /// Ends the offer's part in the limit on questions (R11).
        var prompt = PromptAdmission.exempt
    }

    init(
        peer: Peer, offer: Offer, contents: [EntryHeader] = [], features: TransferFeatures = [], context: [UInt8],
        resumeKey: [UInt8], isForEveryone: Bool = false,
        expiry: MonotonicInstant?, transfer: Transfer, transfers: TransferProgressManager, answering: Answering
    ) {
        (self.contents, self.features) = (contents, features)
        self.peer = peer
        self.offer = offer
        self.context = context
        self.resumeKey = resumeKey
        self.isForEveryone = isForEveryone
        self.expiry = expiry
        self.answering = answering
        self.transfer = transfer
        self.transfers = transfers
    }

    deinit {
        if !isAnswered.load(ordering: .acquiring) { answering.decline(.declined) }
    }

    /// The short authentication string that the sender sees as well, eight digits; nil when the link ended before it was agreed
    /// on, or the task is cancelled.
    public var shortCode: String? {
        get async { await authenticationDigits?.description }
    }

    /// ``shortCode`` as a value.
    package var authenticationDigits: ShortAuthenticationDigits? {
        get async { await codeEvent.value ?? nil }
    }

    /// Waits until the invitation is withdrawn or has expired; nil when the task is cancelled first. An answered invitation
    /// does not end.
    public var ended: TransferOutcome? {
        get async { await endEvent.value }
    }

    /// The outcome of an invitation that has ended unanswered, without waiting.
    package var currentEnd: TransferOutcome? { endEvent.current }

    /// Accepts the offer. The returned transfer ends at once when the invitation was over already.
    /// - Parameters:
    ///   - part: the accepted part of the offer, for which the sink is made; nil for all of it. Only a sender with
    ///     ``TransferFeatures/sendsParts`` sends one.
    ///   - keepsPartial: keeps the content of an interrupted transfer, so that it can be resumed.
    package func accept(
        into sink: any ResourceSink, part: OfferPart? = nil, keepsPartial: Bool = true
    ) -> Transfer {
        guard let transfer = acceptIfOpen(into: sink, part: part, keepsPartial: keepsPartial) else {
            preconditionFailure("an invitation is answered once")
        }
        return transfer
    }

    /// Accepts the offer, unless it was answered before: then it returns nil.
    package func acceptIfOpen(
        into sink: any ResourceSink, part: OfferPart? = nil, keepsPartial: Bool = true
    ) -> Transfer? {
        guard beginAnswer() else { return nil }
        answering.prompt.release()
        transfers.add(transfer)
        if let part { transfer.select(part.counts) }
        answering.accept(transfer, sink, part, keepsPartial)
        return transfer
    }

    /// Declines the offer. No effect once it is answered.
    public func decline(_ reason: DeclineReason = .declined) {
        if beginAnswer() { answering.decline(reason) }
    }

    /// Declines the offer by a rule. The user was not asked, so that it does not count as a question (R11). No effect once it is
    /// answered.
    package func declineUnprompted(_ reason: DeclineReason) {
        guard beginAnswer() else { return }
        answering.prompt.releaseUnprompted()
        answering.decline(reason)
    }

    /// Whether the offer was accepted or declined before.
    package var wasAnswered: Bool { isAnswered.load(ordering: .acquiring) }

    private func beginAnswer() -> Bool { !isAnswered.exchange(true, ordering: .acquiringAndReleasing) }

    // MARK: For the engine

    func setShortCode(_ code: ShortAuthenticationDigits) {
        guard answering.prompt.show() else {
            if beginAnswer() { answering.decline(.busy) }
            return end(.declined(.busy))
        }
        codeEvent.fulfil(code)
    }

    func finishWithoutShortCode() {
        codeEvent.fulfil(nil)
    }

    func end(_ outcome: TransferOutcome) {
        // First, so that without a code the end is known.
        endEvent.fulfil(outcome)
        codeEvent.fulfil(nil)
    }
}
