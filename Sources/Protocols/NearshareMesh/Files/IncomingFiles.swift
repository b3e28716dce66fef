internal import NearshareBase
internal import NearshareCrypto

/// Files that nearshare peers offer to this node (docs/PROTOCOL.md, section 10).
struct IncomingFiles: Sendable {
    /// How a complete file relates to the offers of its sender.
    enum Arrival {
        /// The file was never offered.
        case unknown
        /// The file was offered, but not accepted, or it was received before (A1, A2, A3).
        case unexpected
        case accepted(MeshFileOffer)
    }

    private(set) var files: [MeshFileKey: IncomingFile] = [:]
    private var lastNumber = 0
    /// Limit on new offers of each peer.
    private var offerBudgets: [PeerID: TokenBucket] = [:]

    var isEmpty: Bool { files.isEmpty }

    subscript(key: MeshFileKey) -> IncomingFile? { files[key] }

    /// Whether a file was accepted and has no final place yet.
    func isReceiving(_ key: MeshFileKey) -> Bool {
        switch files[key]?.phase {
        case .accepted?, .delivering?: true
        case .offered?, .ended?, nil: false
        }
    }

    mutating func removePeer(_ id: PeerID) { offerBudgets[id] = nil }

    /// Counts the files of a closed link to a host without a known address with those of the others, so that a host that comes
    /// and goes is not several.
    mutating func removeLink(_ link: MeshLinkID) {
        for (key, file) in files where file.link?.source == .link(link) { files[key]?.link = nil }
    }

    // MARK: Decisions of this node

    /// - Parameters:
    ///   - isFromFriend: whether the user trusts the sender. What arrives of its file then gives way to no other.
    ///   - timeout: the time after which an incomplete file is given up.
    mutating func accept(
        _ key: MeshFileKey, isFromFriend: Bool = false, timeout: Duration, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard let file = files[key], case .offered = file.phase else { return [] }
        files[key]?.isFromFriend = isFromFriend
        files[key]?.phase = .accepted(
            IncomingFile.Reassembly(deadline: now + timeout, lastProgress: now, lastFragment: now))
        return [.send(.accept(key.file), to: file.sender)]
    }

    mutating func decline(
        _ key: MeshFileKey, reason: MeshFileControl.DeclineReason, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard let file = files[key], !file.isEnded else { return [] }
        settle(key, as: .declined(reason), now: now)
        return [.send(.decline(key.file, reason), to: file.sender)]
    }

    /// Cancels a file that was offered or is being received, at both ends.
    mutating func cancel(_ key: MeshFileKey, now: MonotonicInstant) -> [FileTransferReaction] {
        guard let file = files[key], !file.isEnded else { return [] }
        return [.send(.cancel(key.file), to: file.sender)] + end(key, .cancelledLocally, as: .declined, now: now)
    }

    /// Confirms to the sender that a complete file has its final place.
    mutating func confirmStored(_ key: MeshFileKey, now: MonotonicInstant) -> [FileTransferReaction] {
        guard let file = files[key], case .delivering = file.phase else { return [] }
        settle(key, as: .stored, now: now)
        return [.send(.stored(key.file), to: file.sender)]
    }

    /// Ends a file that does not match its offer (A10).
    mutating func rejectContent(of key: MeshFileKey, now: MonotonicInstant) -> [FileTransferReaction] {
        guard let file = files[key] else { return [] }
        return [.send(.decline(key.file, .declined), to: file.sender)]
            + end(key, .declined(.declined), as: .declined, now: now)
    }

    // MARK: Messages of the sender

    /// Handles an offer. A repeated offer means that the answer was lost, or that the sender asks for the progress. An offer
    /// with other fragments means that the sender has restarted: an unfinished file continues, a finished one is offered once
    /// more.
    /// - Parameter link: the one over which it came.
    mutating func receive(
        _ offer: MeshFileOffer, from peer: AuthenticatedPeer, over link: MeshLinkShare? = nil, _ assembler: FragmentAssembler,
        now: MonotonicInstant
    ) -> [FileTransferReaction] {
        let key = MeshFileKey(offer.id, with: peer.id)
        let isRestarted = files[key]?.offer.fragmentID != offer.fragmentID
        guard let known = files[key], !(known.isEnded && isRestarted) else {
            return receiveNew(offer, from: peer, over: link, now: now)
        }
        // The user decides about the first offer, which was shown (A10).
        guard offer.isEquivalent(to: known.offer) else { return [] }
        switch known.phase {
        case .offered:
            files[key]?.offer = offer
            return []
        case .delivering: return []
        case .accepted(var reassembly) where isRestarted:
            reassembly.receivedCount = 0
            files[key]?.offer = offer
            files[key]?.phase = .accepted(reassembly)
            return [.discardFragments(known.offer.fragmentID, from: peer.id), .send(.accept(offer.id), to: peer.id)]
        case .accepted: return requestMissing(key, assembler, now: now)
        case .ended(.stored, _): return [.send(.stored(offer.id), to: peer.id)]
        case .ended(.declined(let reason), _): return [.send(.decline(offer.id, reason), to: peer.id)]
        }
    }

    private mutating func receiveNew(
        _ offer: MeshFileOffer, from peer: AuthenticatedPeer, over link: MeshLinkShare?, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        let file = IncomingFile(
            offer: offer, sender: peer.id, link: link, number: lastNumber + 1,
            phase: .offered(deadline: now + OutgoingFile.offerTimeout))
        guard files.values.count(where: { !$0.isEnded && $0.sender == peer.id }) < Self.maximumPendingCountPerPeer,
            let displaced = filesToDisplace(by: file, now: now),
            offerBudgets[peer.id, default: TokenBucket(capacity: 32, perSecond: 2, now: now)].consume(now: now)
        else { return [.send(.decline(offer.id, .busy), to: peer.id)] }
        var reactions: [FileTransferReaction] = []
        for other in displaced {
            reactions.append(.send(.decline(other.offer.id, .busy), to: other.sender))
            reactions += end(other.key, .declined(.busy), as: .busy, now: now)
        }
        lastNumber = file.number
        files[file.key] = file
        return reactions + [.emit(.fileOffered(offer, from: peer))]
    }

    /// - Parameter isExpired: because the offer was not answered within the time of the sender.
    mutating func cancelByPeer(
        _ key: MeshFileKey, isExpired: Bool, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard let file = files[key], !file.isEnded else { return [] }
        return end(key, isExpired ? .declined(.expired) : .cancelledByPeer, as: .declined, now: now)
    }

    // MARK: Room

    /// The groups of files that compete for memory.
    private enum Group: Hashable {
        case host(MeshLinkSource?)
        case link(MeshLinkShare?)
    }

    /// The files that give way to a new one; nil where there is no room for it.
    private func filesToDisplace(by new: IncomingFile, now: MonotonicInstant) -> [IncomingFile]? {
        let pending = files.values.filter { !$0.isEnded }.sorted { $0.number < $1.number }
        var capacity = SharedCapacity<Group>(
            count: pending.count, byteCount: { pending[$0].cost },
            levels: [{ .host(pending[$0].link?.source) }, { .link(pending[$0].link) }])
        var displaced: [IncomingFile] = []
        while capacity.byteCount + new.cost > Self.maximumPendingCost {
            guard let position = Self.positionToDisplace(in: pending, capacity, for: new, now: now) else { return nil }
            capacity.remove(at: position)
            displaced.append(pending[position])
        }
        return displaced
    }

    /// The position of the file that gives way to a new one, found in three steps (M19):
    ///
    /// 1. that of another host, which holds as much as the new file's host would;
    /// 2. of the same host, that of another link, which holds as much as the new file's link would;
    /// 3. of the same link, the oldest idle one.
    private static func positionToDisplace(
        in files: [IncomingFile], _ capacity: SharedCapacity<Group>, for new: IncomingFile, now: MonotonicInstant
    ) -> Int? {
        let host = capacity.divided(.host(new.link?.source))
        let link = host?.groups[.link(new.link)]
        return positionToDisplace(
            in: files, of: capacity.groups.filter { $0.key != .host(new.link?.source) }.map(\.value),
            heldAtLeast: (host?.byteCount ?? 0) + new.cost, now: now)
            ?? positionToDisplace(
                in: files, of: host?.groups.filter { $0.key != .link(new.link) }.map(\.value) ?? [],
                heldAtLeast: (link?.byteCount ?? 0) + new.cost, now: now)
            ?? link?.positions.first { files[$0].retention(now: now) == .idle }
    }

    /// Among the files with the least retention, the oldest of the group that holds most.
    /// - Parameter minimum: files of a group that holds less stay. One that is under way also stays where its group would hold
    ///   less without it, so that a host or link with a single one never loses it.
    private static func positionToDisplace(
        in files: [IncomingFile], of groups: [SharedCapacity<Group>], heldAtLeast minimum: Int,
        now: MonotonicInstant
    ) -> Int? {
        var best: (position: Int, order: (IncomingFile.Retention, Int, Int))?
        for group in groups {
            for position in group.positions {
                guard let retention = files[position].retention(now: now),
                    group.byteCount - (retention == .underWay ? files[position].cost : 0) >= minimum
                else { continue }
                let order = (retention, -group.byteCount, position)
                if let best, best.order <= order { continue }
                best = (position, order)
            }
        }
        return best?.position
    }

    // MARK: Fragments

    /// The accepted file with this fragment id.
    func acceptedFile(_ id: MeshFragment.ID, from sender: PeerID) -> MeshFileKey? {
        files.first { $0.value.reassembly != nil && $0.value.offer.fragmentID == id && $0.value.sender == sender }?.key
    }

    /// Whether a fragment belongs to an accepted file, and fits its offer.
    func acceptsFragment(_ fragment: MeshFragment, from sender: PeerID) -> Bool {
        guard let key = acceptedFile(fragment.id, from: sender), let file = files[key] else { return false }
        // The number that was offered is calculated before the file is sealed.
        return abs(Int(file.offer.fragmentCount) - fragment.total) <= 1 && fragment.originalType == .noiseEncrypted
    }

    /// Records that a fragment was added to its set.
    /// - Parameter receivedCount: number of fragments in the set.
    /// - Returns: the progress to show, if any.
    mutating func recordFragment(
        _ fragment: MeshFragment, from sender: PeerID, receivedCount: Int
    ) -> MeshFragmentProgress? {
        let offered = files.first { $0.value.offer.fragmentID == fragment.id && $0.value.sender == sender }
        if let (key, file) = offered {
            guard var reassembly = file.reassembly else { return nil }
            reassembly.receivedCount = receivedCount
            reassembly.requestCount = 0
            files[key]?.phase = .accepted(reassembly)
        } else if fragment.total < Self.minimumReportedFragmentCount {
            return nil
        }
        return MeshFragmentProgress(
            sender: sender, fragmentID: fragment.id, file: offered?.key.file, received: receivedCount, total: fragment.total)
    }

    /// Records that a file is complete.
    mutating func recordCompletion(of key: MeshFileKey) -> Arrival {
        guard let file = files[key] else { return .unknown }
        guard case .accepted = file.phase else { return .unexpected }
        files[key]?.phase = .delivering
        return .accepted(file.offer)
    }

    // MARK: Time

    /// Requests missing fragments, and gives up files without progress.
    mutating func advance(to now: MonotonicInstant, _ assembler: FragmentAssembler) -> [FileTransferReaction] {
        files.keys.flatMap { advance($0, to: now, assembler) }
    }

    private mutating func advance(
        _ key: MeshFileKey, to now: MonotonicInstant, _ assembler: FragmentAssembler
    ) -> [FileTransferReaction] {
        guard let file = files[key] else { return [] }
        switch file.phase {
        case .offered(let deadline) where now >= deadline:
            return [.send(.decline(key.file, .expired), to: file.sender)]
                + end(key, .declined(.expired), as: .expired, now: now)
        case .accepted(var reassembly):
            if let progress = assembler.progress(of: file.offer.fragmentID, from: file.sender) {
                reassembly.lastProgress = max(reassembly.lastProgress, progress.changed)
                reassembly.lastFragment = max(reassembly.lastFragment, progress.changed)
                files[key]?.phase = .accepted(reassembly)
            }
            guard now < reassembly.deadline, reassembly.requestCount < Self.maximumRequestCount else {
                return end(key, .lost, as: .expired, now: now)
            }
            return now - reassembly.lastProgress >= Self.requestInterval ? requestMissing(key, assembler, now: now) : []
        case .ended(_, let removal):
            if now >= removal { files[key] = nil }
            return []
        case .offered, .delivering: return []
        }
    }

    private mutating func requestMissing(
        _ key: MeshFileKey, _ assembler: FragmentAssembler, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard let file = files[key], var reassembly = file.reassembly else { return [] }
        // The peer may have moved: the later requests go everywhere.
        let onAllLinks = reassembly.requestCount > 2
        reassembly.lastProgress = now
        reassembly.requestCount += 1
        files[key]?.phase = .accepted(reassembly)
        let limit = MeshFileControl.maximumMissingCount
        let request: MeshFileControl
        if let missing = assembler.missing(of: file.offer.fragmentID, from: file.sender, limit: limit) {
            request = .missing(key.file, missing.map { UInt16(clamping: $0) })
        } else if reassembly.receivedCount == 0 {
            request = .accept(key.file)
        } else {
            // The received fragments were dropped in the meantime, so all are missing.
            request = .missing(key.file, (0..<min(Int(file.offer.fragmentCount), limit)).map { UInt16(clamping: $0) })
        }
        return [.send(request, to: file.sender, onAllLinks: onAllLinks)]
    }

    private mutating func end(
        _ key: MeshFileKey, _ outcome: MeshFileOutcome, as reason: MeshFileControl.DeclineReason, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        guard let file = files[key] else { return [] }
        settle(key, as: .declined(reason), now: now)
        return [
            .discardFragments(file.offer.fragmentID, from: file.sender), .emit(.fileReceiveEnded(key, outcome)),
        ]
    }

    private mutating func settle(_ key: MeshFileKey, as ending: IncomingFile.Ending, now: MonotonicInstant) {
        files[key]?.phase = .ended(ending, removal: now + Self.endedLifetime)
        let ended = files.compactMap { key, file in
            if case .ended(_, let removal) = file.phase { (key: key, removal: removal) } else { nil }
        }
        if ended.count > Self.maximumEndedCount, let oldest = ended.min(by: { $0.removal < $1.removal }) {
            files[oldest.key] = nil
        }
    }

    private static let maximumPendingCountPerPeer = 8
    /// Limit on the files that are offered or being received: 64 MiB, or 32 of up to 2 MiB.
    private static let maximumPendingCost = 64 << 20
    static let minimumCost = maximumPendingCost / 32
    private static let maximumEndedCount = 256
    private static let endedLifetime = Duration.seconds(300)
    /// Time without a fragment after which some must have been lost.
    private static let requestInterval = Duration.seconds(1)
    private static let maximumRequestCount = 30
    /// Sets that were not offered are reported from this size.
    private static let minimumReportedFragmentCount = 8
}
