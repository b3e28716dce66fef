package import Nearshare

/// Decides about an offer without asking the user, or decides that the user must be asked.
package struct AcceptancePolicy: Sendable {
    package enum Verdict: Sendable, Hashable {
        case accept
        /// Accepted if what is missing of it fits, once the files that are present were compared.
        case acceptMissing
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

    /// The peer of an offer, and the facts beside the offer on which the verdict depends. What takes time to find out is asked for
    /// when it is needed.
    package struct Facts {
        package var peer: Fingerprint
        package var trustStatus: TrustStatus
        /// Whether the peer has proven the key of a friend, also under the name of another known peer.
        package var hasFriendKey = false
        /// The address, or the network, that shares a part of the limits; nil for none.
        package var source: String?
        /// Bytes that received files may use; nil when unknown.
        package var freeSpace: UInt64?
        /// Whether the sender would send a part of the offer.
        package var sendsParts = false
        /// Returns the bytes of the offer that an interrupted transfer has stored.
        package var receivedByteCount: () -> UInt64 = { 0 }
        /// Returns whether files of the offer may be here, so that they are compared before they are sent.
        package var isPartlyPresent: () -> Bool = { false }
        /// Returns the disk space that the peer's unfinished transfers take.
        package var partialByteCount: () -> UInt64 = { 0 }

        package init(of peer: Fingerprint, _ trustStatus: TrustStatus) {
            (self.peer, self.trustStatus) = (peer, trustStatus)
        }
    }

    package func verdict(on offer: Offer, _ facts: Facts) -> Verdict {
        var offered = refusal(of: offer, freeSpace: facts.freeSpace, facts.receivedByteCount)
        let isMissingChecked =
            offered != nil && refusal(of: offer, freeSpace: facts.freeSpace, checksSize: false) == nil
            && facts.isPartlyPresent()
        if isMissingChecked { offered = nil }
        if let refusal = offered {
            // No part is accepted by a reader that sees no names.
            guard case .decline(let reason, let detail?) = refusal, reason != .singleFileOnly, accept == .ask, canAsk,
                facts.sendsParts
            else { return refusal }
            return .askForPart(reason, detail: detail)
        }
        switch accept {
        case .none: return .decline(.acceptsNothing)
        case .all:
            // A peer that claims the name of another one is declined even when all others are accepted (K2).
            if case .nameClash = facts.trustStatus, !facts.hasFriendKey { return .decline(.identityChanged) }
        case .friends:
            guard facts.trustStatus.isFriend || facts.hasFriendKey else { return .decline(.notAllowed) }
        case .ask: return canAsk ? .ask : .decline(.notAllowed)
        }
        return isMissingChecked ? .acceptMissing : reserve(offer, facts)
    }

    private func reserve(_ offer: Offer, _ facts: Facts) -> Verdict {
        let verdict = reserve(Self.byteCount(of: offer), for: facts.peer, at: facts.source, facts.partialByteCount)
        guard case .decline = verdict, offer.totalSize != nil, facts.isPartlyPresent() else { return verdict }
        return .acceptMissing
    }

    /// The bytes of an offer that count towards the limit of its peer; nil where its size is not known.
    static func byteCount(of offer: Offer) -> UInt64? { offer.totalSize.map { _ in offer.storedByteCount } }

    /// Releases what was reserved for a transfer that was not completed.
    package func release(_ byteCount: UInt64?, from peer: Fingerprint, at source: String? = nil) {
        if accept != .ask { quota.release(byteCount, for: peer, at: source) }
    }

    /// Records the space that the unfinished transfers of a peer take, for the other peers at its source.
    func recordPartial(_ partial: () -> UInt64, of peer: Fingerprint, at source: String?) {
        if let source { quota.recordPartial(partial, of: peer, at: source) }
    }

    /// - Returns: nil for an offer within the limits.
    /// - Parameter checksSize: false where less than the offer may be received.
    func refusal(
        of offer: Offer, freeSpace: UInt64?, checksSize: Bool = true, _ received: () -> UInt64 = { 0 }
    ) -> Verdict? {
        guard let limits else {
            guard offer.items.count > 1 || offer.items.first?.kind == .folder else { return nil }
            // A reader of standard output sees no file names: several files would become one.
            return .decline(
                .singleFileOnly,
                detail: "standard output accepts a single file; receive several files or a folder without --stdout")
        }
        let size = offer.byteCountForLimit
        if checksSize, let limit = limits.maximumSize, size > limit {
            return .decline(
                .tooLarge, detail: "it is \(size.formattedByteCount), and --max-size is \(limit.formattedByteCount)")
        }
        if offer.entryCount > limits.maximumEntries {
            return .decline(
                .tooLarge,
                detail: "it has \(offer.entryCount) files and folders, and \(limits.maximumEntries) are accepted at once")
        }
        // Stored bytes take no more space.
        guard checksSize, let freeSpace, size > freeSpace else { return nil }
        let needed = size.subtractingClamped(received())
        guard needed > freeSpace else { return nil }
        return .decline(
            .noSpace,
            detail:
                "it needs \(needed.formattedByteCount), but only \(freeSpace.formattedByteCount) can be used, because "
                + "\(limits.minimumFreeByteCount.formattedByteCount) of the disk must stay free")
    }

    /// Counts bytes towards the limit of a peer. Without effect where the user answers.
    func reserve(_ byteCount: UInt64?, for peer: Fingerprint, at source: String? = nil, _ partial: () -> UInt64) -> Verdict {
        guard accept != .ask else { return .accept }
        switch quota.reserve(byteCount, for: peer, at: source, partial: partial) {
        case .reserved: return .accept
        case .unknownSize: return .decline(.tooLarge, detail: "its size is not known, and --max-per-peer sets a limit")
        case .exceeds(let limit, let used):
            let size = byteCount ?? 0
            return .decline(
                .tooLarge,
                detail:
                    "it takes \(size.formattedByteCount), and after the earlier \(used.formattedByteCount) --max-per-peer leaves "
                    + "\((limit - min(limit, used)).formattedByteCount) of \(limit.formattedByteCount)")
        }
    }
}

extension DeclineReason {
    /// A short form of the reason, for the user who declined.
    package var words: String {
        switch self {
        case .declined: "declined"
        case .notAllowed: "not a friend; see `nearshare friends`"
        case .acceptsNothing: "nothing is accepted, by --accept none"
        case .tooLarge: "too large"
        case .noSpace: "not enough disk space"
        case .busy: "busy"
        case .identityChanged: "known name, other key"
        case .singleFileOnly: "not a single file"
        }
    }
}

/// The choice of the peers whose offers a process accepts.
package struct Acceptance: Sendable, Hashable {
    /// While no user can be asked, `ask` means `friends`.
    package var policy: Configuration.Accept
    /// Whether `ask` leaves friends out.
    package var exemptsFriends = false

    package init(_ policy: Configuration.Accept, exemptsFriends: Bool = false) {
        self.policy = policy
        self.exemptsFriends = exemptsFriends
    }
}

extension Configuration {
    /// The choice for a process. One without a terminal accepts friends, and asks about others in notifications, where the user
    /// has chosen nothing.
    /// - Parameter given: the value on the command line.
    package func acceptance(given: Accept?, hasTerminal: Bool) -> Acceptance {
        guard let chosen = given ?? accept else { return Acceptance(.ask, exemptsFriends: !hasTerminal) }
        return Acceptance(chosen)
    }
}
