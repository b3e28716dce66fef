package import NearshareBase

// Packets from neighbours: bundles, acknowledgements, reports and receipts.
extension BundleRouter {
    /// Handles a packet from a neighbour. Reports and receipts must be authenticated as the neighbour's.
    package mutating func receive(_ packet: BundlePacket, from neighbour: EndpointID, now: Moment) {
        guard forwarder.isNeighbour(neighbour) else { return }
        switch packet {
        case .copy(let copy): receive(copy, from: neighbour, now: now)
        case .report(let report):
            confirmClock(now: now)
            receive(report, from: neighbour, now: now)
        case .receipt(let numbers):
            confirmClock(now: now)
            for number in numbers {
                exchange.confirm(number, by: neighbour)
                apply(forwarder.receiveReceipt(number, from: neighbour, index: &index, now: now), now: now)
            }
        }
    }

    // MARK: Reports

    private mutating func receive(_ report: SpanningTreeReport, from neighbour: EndpointID, now: Moment) {
        // Not confirmed: the neighbour sends it again.
        let byteCount = (report.summary?.filter.bytes.count ?? 0) + (report.reachability?.bytes.count ?? 0)
        let cost = 1 + Double(byteCount / settings.reportByteCount)
        guard budgets.consume(.reports, cost, by: payer(for: neighbour), now: now.monotonic) else { return }
        if let token = report.token { apply(forwarder.confirm(token, to: neighbour), now: now) }
        apply(tree.receive(report, from: neighbour, now: now), now: now)
        guard let summary = report.summary else { return }
        let (missing, hasUnseen) = forwarder.compare(summary, of: neighbour, index: index)
        if hasUnseen, !report.isAnswer { self.report(.answer, to: neighbour, now: now) }
        apply(forwarder.replaceQueue(of: neighbour, with: missing, index: &index, now: now), now: now)
    }

    // MARK: Bundles

    /// Receives a copy. For any content, it costs one signature check, and at most one copy to each other neighbour.
    private mutating func receive(_ copy: BundleCopy, from neighbour: EndpointID, now: Moment) {
        let id = copy.bundle.id
        if index.seen.contains(id) { return receiveDuplicate(copy, id, from: neighbour, now: now) }
        let lead = copy.bundle.creationTime.milliseconds - now.wall.milliseconds
        guard lead <= Self.clockTolerance else {
            return warnAboutClock(of: copy, id, lead: .milliseconds(lead), from: neighbour, now: now)
        }
        guard copy.bundle.expiry > now.wall, copy.hopCount > 0, copy.hopCount <= copy.bundle.profile.hopLimit,
            budgets.consume(.signatureChecks, by: payer(for: neighbour), now: now.monotonic), settings.isSigned(copy, id),
            admitStorage(of: copy.bundle, from: neighbour, now: now)
        else { return }
        forwarder.recordHolding(of: id, by: neighbour, now: now)
        forwarder.recordRoute(to: copy.bundle.source, through: neighbour, hopCount: copy.hopCount, now: now)
        if copy.bundle.kind == .acknowledgement {
            receiveAcknowledgement(copy, id, from: neighbour, now: now)
        } else {
            receiveMessage(copy, id, from: neighbour, now: now)
        }
    }

    /// The account to which the work of a neighbour is charged.
    private func payer(for neighbour: EndpointID) -> BundleBudgets.Payer {
        settings.isContact(neighbour) ? .contact(neighbour) : .host(index.host(of: neighbour))
    }

    /// Accounts for storing or delivering a bundle whose signature is valid. One that a contact has signed is charged to the contact,
    /// whichever neighbour forwards it.
    private mutating func admitStorage(of bundle: Bundle, from neighbour: EndpointID, now: Moment) -> Bool {
        let source = bundle.source
        let payer: BundleBudgets.Payer = settings.isContact(source) ? .contact(source) : payer(for: neighbour)
        return budgets.consume(.storedBytes, Double(bundle.quotaByteCount), by: payer, now: now.monotonic)
    }

    private mutating func receiveMessage(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, now: Moment
    ) {
        let bundle = copy.bundle
        let isDestination =
            switch bundle.destination {
            case .everyone, .unnamed: true
            case .endpoint(let destination): destination == address
            }
        if isDestination, bundle.source == address {
            // This node's own, which its store no longer has, as after a restored backup: forwarded, but no message for its user.
            index.recordSeen(id, expiry: bundle.expiry, from: neighbour)
            react(.recordDelivery(id, expiry: bundle.expiry))
            guard bundle.destination == .everyone else { return confirm(id, to: neighbour, now: now) }
        } else if isDestination, let (message, secret) = bundle.opened(by: keys, hopCount: copy.hopCount) {
            // Whichever node forwarded it. It is not delivered, and its sender is not told that it was; a later copy is delivered if
            // the sender is unblocked by then.
            if let sender = message.sealedBy, settings.isBlocked(sender) { return confirm(id, to: neighbour, now: now) }
            index.recordSeen(id, expiry: bundle.expiry, from: neighbour)
            if copy.forwarding == .epidemic, bundle.destination != .everyone { index.markEpidemic(id) }
            // Recorded after it was delivered: a node that is killed between the two receives it again.
            react(.emit(.received(message)))
            react(.recordDelivery(id, expiry: bundle.expiry))
            if let secret, let lock = bundle.hashLock, BundleAcknowledgement.hashLock(for: secret) == lock {
                acknowledge(copy, id, secret, from: neighbour, now: now)
            }
            guard bundle.destination == .everyone else { return confirm(id, to: neighbour, now: now) }
        }
        guard bundle.destination != .endpoint(address) else { return }
        // The acknowledgement of the bundle has overtaken it.
        if let lock = BundleEntry.HashLock(bundle.hashLock), index.acknowledgement(of: id)?.entry.hashLock == lock {
            index.recordSeen(id, expiry: bundle.expiry, from: neighbour)
            return confirm(id, to: neighbour, now: now)
        }
        accept(copy, id, from: neighbour, now: now)
    }

    /// Reports a bundle that was created further in the future than clocks may differ. The warning names the endpoint that has signed
    /// it, so the signature is checked first.
    private mutating func warnAboutClock(
        of copy: BundleCopy, _ id: BundleID, lead: Duration, from neighbour: EndpointID, now: Moment
    ) {
        var warnings = clockWarnings
        guard warnings.admit(copy.bundle.source, now: now.monotonic),
            budgets.consume(.signatureChecks, by: payer(for: neighbour), now: now.monotonic), settings.isSigned(copy, id)
        else { return }
        clockWarnings = warnings
        react(.emit(.clockDiffers(of: copy.bundle.source, by: lead)))
    }

    /// The neighbour holds the bundle as well. It may have started epidemic forwarding, or lack the acknowledgement.
    private mutating func receiveDuplicate(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, now: Moment
    ) {
        let wasHeldOrSent = forwarder.isHeldOrSent(id, by: neighbour)
        forwarder.recordHolding(of: id, by: neighbour, now: now)
        confirm(id, to: neighbour, now: now)
        let isShorter = index.lowerHopCount(of: id, to: copy.hopCount)
        let entry = index[id]
        if isShorter, let entry, entry.isEpidemic {
            return apply(forwarder.spread(id, from: neighbour, index: &index, tree: tree, now: now), now: now)
        }
        if copy.forwarding == .routed, let entry, case .routed(let next) = entry.state, !wasHeldOrSent || next == neighbour {
            // The sender tries again; or the bundle has travelled in a loop, because a node relies on outdated reports.
            let isTriedAgain = entry.previousNode == neighbour
            let excluded: Set<EndpointID> = isTriedAgain ? [neighbour] : [neighbour, next]
            return apply(forwarder.route(id, excluding: excluded, index: &index, tree: tree, now: now), now: now)
        }
        if copy.forwarding == .epidemic { index.markEpidemic(id) }
        if let answer = index.acknowledgement(of: id), answer.entry.isOwn {
            if copy.forwarding == .epidemic, !answer.entry.isEpidemic {
                apply(forwarder.spread(answer.id, from: nil, index: &index, tree: tree, now: now), now: now)
            } else if answer.entry.state == .retained {
                apply(forwarder.forward(answer.id, to: neighbour, index: &index, now: now).effects, now: now)
            }
        }
        guard let entry, copy.forwarding == .epidemic, !entry.isEpidemic, entry.state != .retained else { return }
        apply(forwarder.spread(id, from: neighbour, index: &index, tree: tree, now: now), now: now)
    }

    /// Stores a bundle for others, and forwards it.
    private mutating func accept(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, preferring preferred: EndpointID? = nil, now: Moment
    ) {
        guard settings.isForwarding else { return }
        var destination: EndpointID?
        if case .endpoint(let id) = copy.bundle.destination { destination = id }
        let (isAdmitted, evicted) = index.admit(
            byteCount: copy.bundle.quotaByteCount, from: neighbour,
            rank: index.rank(source: copy.bundle.source, destination: destination), now: now)
        for victim in evicted { react(.delete([victim])) }
        guard isAdmitted else { return }
        store(StoredBundle(id: id, copy: copy, previousNode: neighbour, host: index.host(of: neighbour)), now: now)
        confirm(id, to: neighbour, now: now)
        let effects = forwarder.start(
            id, from: neighbour, preferring: preferred, isEpidemic: copy.forwarding == .epidemic, index: &index,
            tree: tree, now: now)
        apply(effects, now: now)
    }

    private mutating func confirm(_ id: BundleID, to neighbour: EndpointID, now: Moment) {
        apply(forwarder.confirm(id.short, to: neighbour), now: now)
    }

    // MARK: Acknowledgements

    /// Sends this node's acknowledgement back along the path of the bundle.
    private mutating func acknowledge(
        _ copy: BundleCopy, _ id: BundleID, _ secret: [UInt8], from neighbour: EndpointID, now: Moment
    ) {
        let answer = OutgoingBundle(
            acknowledging: BundleAcknowledgement(id: id, secret: secret), of: copy.bundle, from: keys, created: now.wall,
            random: &random)
        store(StoredBundle(id: answer.id, copy: answer.copy, previousNode: nil, host: index.host(of: neighbour)), now: now)
        if let surplus = index.surplusAcknowledgement { delete(surplus, now: now) }
        index.register(acknowledgement: answer.id)
        if copy.forwarding == .epidemic {
            apply(forwarder.spread(answer.id, from: nil, index: &index, tree: tree, now: now), now: now)
        } else {
            let effects = forwarder.route(
                answer.id, excluding: [], preferring: neighbour, index: &index, tree: tree, now: now)
            apply(effects, now: now)
        }
    }

    private mutating func receiveAcknowledgement(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, now: Moment
    ) {
        guard let acknowledgement = try? BundleAcknowledgement(decoding: copy.bundle.body) else { return }
        var isEpidemic = copy.forwarding == .epidemic
        let entry = index[acknowledgement.id]
        if let entry {
            // Only the destination has seen the secret: a forged acknowledgement ends nothing (B5).
            let lock = BundleEntry.HashLock(BundleAcknowledgement.hashLock(for: acknowledgement.secret))
            guard !entry.isAcknowledgement, entry.hashLock == lock else { return }
            isEpidemic = isEpidemic || entry.isEpidemic
            delete(acknowledgement.id, now: now)
            if entry.isOwn { react(.emit(.delivered(acknowledgement.id))) }
        }
        // The acknowledgement has reached its destination. It is forwarded only to delete copies under epidemic forwarding.
        let isAtDestination = entry?.isOwn ?? (copy.bundle.destination == .endpoint(address))
        guard !isAtDestination || (entry != nil && isEpidemic) else {
            index.recordSeen(id, expiry: copy.bundle.expiry, from: neighbour)
            return confirm(id, to: neighbour, now: now)
        }
        var copy = copy
        copy.forwarding = isEpidemic ? .epidemic : .routed
        accept(copy, id, from: neighbour, preferring: entry?.previousNode, now: now)
        index.register(acknowledgement: id)
    }

    /// Limit on the lead of a sender's clock, in milliseconds.
    package static let clockTolerance: Int64 = 600_000
}
