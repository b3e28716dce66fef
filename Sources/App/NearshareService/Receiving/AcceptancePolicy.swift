package import Nearshare

/// Decides about an offer without asking the user, or decides that the user must be asked.
package struct AcceptancePolicy: Sendable {
    package enum Verdict: Sendable, Hashable {
        case accept
        case ask
        /// The user must be asked, and all of it cannot be accepted, but a part.
        case askForPart(DeclineReason, detail: String)
        /// - Parameter detail: a message for the local user.
        case decline(DeclineReason, detail: String? = nil)
    }

    /// The peers whose offers are accepted.
    package let accept: Configuration.Accept
    /// The limits of the inbox; nil for standard output, which accepts one file of any size.
    package let limits: InboxLimits?
    /// Whether the user can be asked.
    package let canAsk: Bool
    package let quota: PeerQuota

    package init(accept: Configuration.Accept, limits: InboxLimits?, canAsk: Bool, quota: PeerQuota) {
        self.accept = accept
        self.limits = limits
        self.canAsk = canAsk
        self.quota = quota
    }

    /// - Parameters:
    ///   - freeSpace: bytes that received files may use; nil when unknown.
    ///   - sendsParts: whether the sender would send a part of it.
    ///   - kept: returns the disk space that the peer's unfinished transfers take.
    package func verdict(
        on offer: Offer, from peer: Fingerprint, trustStatus: TrustStatus, freeSpace: UInt64?, sendsParts: Bool = false,
        kept: () -> UInt64 = { 0 }
    ) -> Verdict {
        if let refusal = refusal(of: offer, freeSpace: freeSpace) {
            guard case .decline(let reason, let detail?) = refusal, accept == .ask, canAsk, sendsParts else { return refusal }
            return .askForPart(reason, detail: detail)
        }
        switch accept {
        case .none: return .decline(.takesNothing)
        case .all:
            // A peer that claims the name of another one is declined even when all others are accepted (K2).
            if case .nameClash = trustStatus { return .decline(.identityChanged) }
            return reserve(offer, for: peer, kept)
        case .friends: return trustStatus.isFriend ? reserve(offer, for: peer, kept) : .decline(.notAllowed)
        case .ask: return canAsk ? .ask : .decline(.notAllowed)
        }
    }

    /// Releases what ``verdict(on:from:trustStatus:freeSpace:kept:)`` has reserved for a transfer that was not completed.
    package func release(_ offer: Offer, from peer: Fingerprint) {
        if accept != .ask { quota.release(offer.totalSize.map { _ in offer.storedByteCount }, for: peer) }
    }

    /// - Returns: nil for an offer within the limits.
    func refusal(of offer: Offer, freeSpace: UInt64?) -> Verdict? {
        guard let limits else {
            guard offer.items.count > 1 || offer.items.first?.kind == .folder else { return nil }
            // A reader of standard output sees no file names: several files would become one.
            return .decline(
                .declined, detail: "standard output accepts a single file; receive several files or a folder with --inbox")
        }
        let size = offer.limitedByteCount
        if let limit = limits.maximumSize, size > limit {
            return .decline(.tooLarge, detail: "it is \(size.asByteCount), and --max-size is \(limit.asByteCount)")
        }
        if offer.entryCount > limits.maximumEntries {
            return .decline(
                .tooLarge, detail: "it has \(offer.entryCount) entries, and \(limits.maximumEntries) are accepted at once")
        }
        if let freeSpace, offer.limitedByteCount > freeSpace {
            return .decline(
                .noSpace,
                detail:
                    "it needs \(offer.limitedByteCount.asByteCount), but only \(freeSpace.asByteCount) can be used, because "
                    + "\(limits.reserve.asByteCount) of the disk must stay free")
        }
        return nil
    }

    private func reserve(_ offer: Offer, for peer: Fingerprint, _ kept: () -> UInt64) -> Verdict {
        switch quota.reserve(offer.totalSize.map { _ in offer.storedByteCount }, for: peer, kept: kept) {
        case .reserved: return .accept
        case .unknownSize: return .decline(.tooLarge, detail: "its size is not known, and --max-per-peer sets a limit")
        case .exceeds(let limit, let used):
            let size = offer.storedByteCount
            return .decline(
                .tooLarge,
                detail: "it takes \(size.asByteCount), and after the earlier \(used.asByteCount) --max-per-peer leaves "
                    + "\((limit - min(limit, used)).asByteCount) of \(limit.asByteCount)")
        }
    }
}

extension DeclineReason {
    /// A short form of the reason, for the user who declined.
    package var words: String {
        switch self {
        case .declined: "declined"
        case .expired: "not answered in time"
        case .notAllowed: "not a friend; see `nearshare friends`"
        case .takesNothing: "nothing is accepted, by --accept none"
        case .tooLarge: "too large"
        case .noSpace: "not enough disk space"
        case .busy: "another invitation is waiting"
        case .identityChanged: "known name, other key"
        }
    }
}

extension Configuration {
    /// The policy for a process.
    /// - Parameters:
    ///   - given: the value on the command line.
    ///   - canAsk: whether the process can ask the user.
    /// - Throws: ``CommandFailure`` when the user must be asked and cannot be.
    package func acceptance(given: Accept?, canAsk: Bool) throws(CommandFailure) -> Accept {
        let accept = given ?? accept ?? (canAsk ? .ask : .friends)
        guard accept != .ask || canAsk else {
            throw CommandFailure(.usage, "there is no terminal to ask on; use --accept friends, all or none")
        }
        return accept
    }

    /// The policy for a node of another command, whose user cannot be asked.
    package var unattendedAcceptance: Accept {
        switch accept {
        case .ask?, nil: .friends
        case let accept?: accept
        }
    }
}
