internal import NearshareBase

extension BundleRouter {
    /// A copy has come. Whatever is in it: one check of a signature, and at most one copy to each other neighbour for it.
    mutating func take(_ copy: BundleCopy, from neighbour: EndpointID, now: Moment) {
        let id = copy.message.id
        if known.contains(id) { return takeAgain(id, copy, from: neighbour, now: now) }
        guard isTimely(copy.message, now: now), copy.hops > 0, copy.hops <= copy.message.profile.hopLimit,
            neighbours[neighbour]!.signatures.consume(now: now.monotonic), settings.isSigned(copy, id)
        else { return }
        noteOwner(neighbour, of: id, now: now)
        noteTrail(to: copy.message.sender, over: neighbour, hops: copy.hops, now: now)
        if copy.message.kind == .acknowledgement {
            takeAcknowledgement(copy, id, from: neighbour, now: now)
        } else {
            takeMessage(copy, id, from: neighbour, now: now)
        }
    }

    private mutating func takeMessage(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, now: Moment
    ) {
        let isForUs: Bool
        switch copy.message.receiver {
        case .everybody, .unnamed: isForUs = true
        case .address(let receiver): isForUs = receiver == address
        }
        if isForUs, let (message, secret) = copy.message.opened(by: keys, hops: copy.hops) {
            remember(id, until: copy.message.expiry, from: neighbour)
            if copy.way == .spread { known.markSpread(id) }
            // Remembered only when it was taken: killed between the two, a node is given it once more.
            actions.append(.tell(.received(message)))
            actions.append(.remember(id, until: copy.message.expiry))
            if let secret, let lock = copy.message.lock, BundleAcknowledgement.lock(for: secret) == lock {
                acknowledge(copy, id, secret, from: neighbour, now: now)
            }
            // Broadcasts go on; what was for us alone has come to its end.
            if copy.message.receiver != .everybody { return receipt(id, to: neighbour, now: now) }
        }
        guard copy.message.receiver != .address(address) else { return }
        // An acknowledgement that overtook its message.
        if let overtaker = acknowledgements[id], let lock = StoredBundleEntry.Lock(copy.message.lock),
            entries[overtaker]?.lock == lock
        {
            remember(id, until: copy.message.expiry, from: neighbour)
            return receipt(id, to: neighbour, now: now)
        }
        carry(copy, id, from: neighbour, now: now)
    }

    /// Not over, and not from a future that only a wrong clock has seen.
    private mutating func isTimely(_ message: Bundle, now: Moment) -> Bool {
        let ahead = message.created.milliseconds - now.wall.milliseconds
        guard ahead <= Self.clockTolerance.components.seconds * 1_000 else {
            if toldOfClock.map({ now.monotonic - $0 > .seconds(600) }) ?? true {
                toldOfClock = now.monotonic
                actions.append(.tell(.clockDiffers(by: .milliseconds(ahead))))
            }
            return false
        }
        return message.expiry > now.wall
    }

    /// Known already: the neighbour has it too, and may have begun to spread it, or wait for an acknowledgement that got lost.
    private mutating func takeAgain(
        _ id: BundleID, _ copy: BundleCopy, from neighbour: EndpointID, now: Moment
    ) {
        let isRepeated = isHandled(id, neighbours[neighbour]!)
        noteOwner(neighbour, of: id, now: now)
        receipt(id, to: neighbour, now: now)
        if copy.way == .routed, case .routed(let next) = entries[id]?.state, !isRepeated || next == neighbour {
            // Its sender tries again; or it has gone in a circle, for somebody believes what is no longer so.
            let isTriedAgain = entries[id]!.depositor == neighbour
            return route(id, except: isTriedAgain ? [neighbour] : [neighbour, next], now: now)
        }
        // Whoever is met now need not offer it.
        if copy.way == .spread { known.markSpread(id) }
        if let answer = acknowledgements[id], entries[answer]?.isOwn == true {
            if copy.way == .spread, !entries[answer]!.isSpreading {
                spread(answer, except: nil, now: now)
            } else if entries[answer]!.state == .resting {
                forward(answer, to: neighbour, .routed, now: now)
            }
        }
        guard let entry = entries[id], copy.way == .spread, !entry.isSpreading, entry.state != .resting else { return }
        spread(id, except: neighbour, now: now)
    }

    // MARK: Acknowledgements

    /// Ours: back the way that the message came.
    private mutating func acknowledge(
        _ copy: BundleCopy, _ id: BundleID, _ secret: [UInt8], from neighbour: EndpointID, now: Moment
    ) {
        let left = Int((copy.message.expiry.milliseconds - now.wall.milliseconds) / 1_000)
        let profile = copy.message.profile
        // Both ends of the range hold: what comes was within bounds, and its end lies ahead.
        let limits = try! PropagationProfile(
            hopLimit: profile.hopLimit, timeToLive: max(left, PropagationProfile.Bounds.timeToLive.lowerBound),
            sharingTime: profile.sharingTime, maximumPropagation: profile.maximumPropagation,
            tracklistLimit: profile.tracklistLimit)
        var isPrivate = false
        if case .unnamed = copy.message.receiver { isPrivate = true }
        let answer = OutgoingMessage(
            acknowledging: BundleAcknowledgement(id: id, secret: secret), from: keys, to: copy.message.sender,
            isPrivate: isPrivate, profile: limits, created: now.wall, random: &random)
        let kept = StoredBundle(id: answer.id, copy: answer.copy, depositor: nil)
        entries[answer.id] = StoredBundleEntry(kept, mark: address.mark(in: answer.id))
        acknowledgements[id] = answer.id
        remember(answer.id, until: answer.copy.message.expiry, from: nil)
        actions.append(.keep(kept))
        scheduleSweep(now: now)
        if copy.way == .spread {
            spread(answer.id, except: nil, now: now)
        } else {
            route(answer.id, except: [], preferred: neighbour, now: now)
        }
    }

    private mutating func takeAcknowledgement(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, now: Moment
    ) {
        guard let acknowledgement = try? BundleAcknowledgement(decoding: copy.message.body) else { return }
        var isSpreading = copy.way == .spread
        let depositor = entries[acknowledgement.id]?.depositor
        if let entry = entries[acknowledgement.id] {
            // Only its receiver has seen the secret: a forged one ends nothing (M6).
            let lock = StoredBundleEntry.Lock(BundleAcknowledgement.lock(for: acknowledgement.secret))
            guard entry.acknowledged == nil, entry.lock == lock else { return }
            isSpreading = isSpreading || entry.isSpreading
            drop(acknowledgement.id, now: now)
            if entry.isOwn {
                actions.append(.tell(.delivered(acknowledgement.id)))
                // At home. It goes on only to clear up what was spread.
                guard isSpreading else {
                    remember(id, until: copy.message.expiry, from: neighbour)
                    return receipt(id, to: neighbour, now: now)
                }
            }
        } else if copy.message.receiver == .address(address) {
            // Expired, or acknowledged before.
            remember(id, until: copy.message.expiry, from: neighbour)
            return receipt(id, to: neighbour, now: now)
        }
        var copy = copy
        copy.way = isSpreading ? .spread : .routed
        carry(copy, id, from: neighbour, preferred: depositor, now: now)
        if entries[id] != nil { acknowledgements[acknowledgement.id] = id }
    }

    // MARK: Keeping

    private mutating func carry(
        _ copy: BundleCopy, _ id: BundleID, from neighbour: EndpointID, preferred: EndpointID? = nil,
        now: Moment
    ) {
        guard settings.isCarrying, makeRoom(for: copy, from: neighbour, now: now) else { return }
        let kept = StoredBundle(id: id, copy: copy, depositor: neighbour)
        entries[id] = StoredBundleEntry(kept, mark: address.mark(in: id))
        remember(id, until: copy.message.expiry, from: neighbour)
        actions.append(.keep(kept))
        scheduleSweep(now: now)
        receipt(id, to: neighbour, now: now)
        begin(id, except: neighbour, preferred: preferred, isSpread: copy.way == .spread, now: now)
    }

    /// Makes room, first among what the same neighbour has brought (M6); there, of the sender who has most, the oldest goes.
    private mutating func makeRoom(for copy: BundleCopy, from neighbour: EndpointID, now: Moment) -> Bool {
        let size = copy.message.body.count + 256
        let quota = settings.quota
        guard size <= quota.byteCountPerDepositor, size <= quota.byteCount else { return false }
        while true {
            var counts: [EndpointID: (messages: Int, bytes: Int)] = [:]
            guard
                entries.count >= min(quota.messageCount, quota.messageCountPerDepositor)
                    || entries.count * 2_656 >= quota.byteCountPerDepositor
            else { return true }
            for entry in entries.values {
                guard let depositor = entry.depositor else { continue }
                counts[depositor, default: (0, 0)].messages += 1
                counts[depositor]!.bytes += Int(entry.byteCount)
            }
            let (messages, bytes) = counts[neighbour] ?? (0, 0)
            let isOver =
                messages >= quota.messageCountPerDepositor || bytes + size > quota.byteCountPerDepositor
            let total = counts.values.reduce((messages: 0, bytes: 0)) { ($0.messages + $1.messages, $0.bytes + $1.bytes) }
            let isFull = total.messages >= quota.messageCount || total.bytes + size > quota.byteCount
            guard isOver || isFull else { return true }
            let most = counts.max { ($0.value.bytes, $0.key.rawValue) < ($1.value.bytes, $1.key.rawValue) }?.key
            guard let loser = isOver ? neighbour : most, let victim = oldest(from: loser) else { return false }
            drop(victim, now: now)
            // It may come again when there is room.
            known.remove(victim)
        }
    }

    private func oldest(from depositor: EndpointID) -> BundleID? {
        let theirs = entries.filter { $0.value.depositor == depositor }
        let counts = theirs.values.reduce(into: [EndpointID: Int]()) { $0[$1.sender, default: 0] += 1 }
        let sender = counts.max { ($0.value, $0.key.rawValue) < ($1.value, $1.key.rawValue) }?.key
        return theirs.filter { $0.value.sender == sender }
            .min { ($0.value.created, $0.key.short) < ($1.value.created, $1.key.short) }?.key
    }

    /// Lets go of what is over.
    mutating func sweep(now: Moment) {
        isSweepDue = false
        for (id, entry) in entries where entry.expiry <= now.wall { fail(id, now: now) }
        known.expire(now: now.wall)
        for (address, trail) in trails where now.monotonic - trail.at > Self.trailLifetime { trails[address] = nil }
        trails.shrink()
        entries.shrink()
        acknowledgements.shrink()
        for id in neighbours.keys {
            forgetOld(neighbour: id, now: now)
        }
        if !entries.isEmpty || known.count > 0 || !neighbours.isEmpty { scheduleSweep(now: now) }
    }

    // MARK: Receipts

    /// Says that a message has come, where the link doesn't.
    mutating func receipt(_ id: BundleID, to neighbour: EndpointID, now: Moment) {
        receipt(id.short, to: neighbour, now: now)
    }

    mutating func receipt(_ number: UInt64, to neighbour: EndpointID, now: Moment) {
        guard let count = neighbours[neighbour]?.note(receipt: number) else { return }
        if count == 1 {
            schedule(.receipts(neighbour), in: Self.receiptDelay, now: now)
        } else if count >= BundlePacket.maximumReceiptCount {
            confirm(to: neighbour)
        }
    }

    mutating func confirm(to neighbour: EndpointID) {
        guard let receipts = neighbours[neighbour]?.takeReceipts(), !receipts.isEmpty else { return }
        actions.append(.send(.receipt(receipts), to: neighbour))
    }

    mutating func take(receipt ids: [UInt64], from neighbour: EndpointID, now: Moment) {
        for short in ids {
            guard let offer = neighbours[neighbour]!.confirm(short) else { continue }
            neighbours[neighbour]!.has[short] = Self.seconds(now)
            handedOver(offer.id, now: now)
        }
    }

    // MARK: Who has what

    mutating func noteOwner(_ neighbour: EndpointID, of id: BundleID, now: Moment) {
        neighbours[neighbour]!.offers[id.short] = nil
        neighbours[neighbour]!.has[id.short] = Self.seconds(now)
        // Its next summary says all this again.
        if neighbours[neighbour]!.has.count > Self.ownedCount { forgetOld(neighbour: neighbour, now: now) }
    }

    private mutating func forgetOld(neighbour: EndpointID, now: Moment) {
        let oldest = Self.seconds(now) - min(Self.ownedSeconds, Self.seconds(now))
        guard neighbours[neighbour]!.has.values.contains(where: { $0 < oldest }) else { return }
        neighbours[neighbour]!.has = neighbours[neighbour]!.has.filter { $0.value >= oldest }
    }

    private static func seconds(_ now: Moment) -> UInt32 { UInt32(clamping: now.monotonic.nanoseconds / 1_000_000_000) }

    private mutating func noteTrail(to sender: EndpointID, over neighbour: EndpointID, hops: Int, now: Moment) {
        if let trail = trails[sender] {
            // A longer way replaces only one that is no longer sure.
            guard hops <= Int(trail.hops) || neighbours[trail.next] == nil || now.monotonic - trail.at > Self.trailTrust
            else { return }
        } else if trails.count >= Self.maximumTrailCount, let oldest = trails.min(by: { $0.value.at < $1.value.at })?.key {
            trails[oldest] = nil
        }
        trails[sender] = ReverseRoute(next: neighbour, hops: UInt16(clamping: hops), at: now.monotonic)
    }

    private static let clockTolerance = Duration.seconds(600)
    private static let receiptDelay = Duration.milliseconds(100)
    private static let ownedSeconds: UInt32 = 20
    private static let ownedCount = 40
    private static let trailLifetime = Duration.seconds(900)
    private static let trailTrust = Duration.seconds(120)
    private static let maximumTrailCount = 128
}
