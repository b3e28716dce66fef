package import NearshareBase

/// Reassembles packets from fragments, within bounds of count, bytes and age, for each sender and in total (bitchat
/// specification, section 6.3; M4).
package struct FragmentAssembler: Sendable {
    package struct Limits: Sendable, Hashable {
        package var sets = 128
        package var setsPerSender = 8
        package var bytes = 24 << 20
        package var bytesPerSender = 12 << 20
        /// Limit on a set of a type that cannot hold a file.
        package var bytesPerSet = 1_048_576
        /// Limit on a set of a file or a sealed packet.
        package var bytesPerFileSet = MeshPacket.maximumPayloadByteCount
        /// A set is dropped when no fragment is received for this time.
        package var idle = Duration.seconds(30)
        /// A set is dropped at this age, even if fragments are still being received.
        package var lifetime = Duration.seconds(900)

        package init() {}

        func byteLimit(for type: MeshPacketType) -> Int {
            type == .fileTransfer || type == .noiseEncrypted ? bytesPerFileSet : bytesPerSet
        }
    }

    package enum Outcome: Sendable, Hashable {
        /// The fragment is the first of its set.
        case started
        case stored
        /// The set is complete: the frame that was cut.
        case complete([UInt8])
        /// The set was larger than a packet of its type may be, and was dropped.
        case oversized
    }

    /// The progress of a set.
    package struct Progress: Sendable, Hashable {
        package var sender: PeerID
        package var id: MeshFragment.ID
        package var received: Int
        package var total: Int
        /// When the last fragment was received.
        package var changed: MonotonicInstant
    }

    private struct Key: Hashable, Sendable {
        var sender: PeerID
        var id: MeshFragment.ID
    }

    private struct Assembly: Sendable {
        var pieces: [Int: [UInt8]] = [:]
        var byteCount = 0
        var total: Int
        var type: MeshPacketType
        let link: MeshLinkID?
        let isExpected: Bool
        let started: MonotonicInstant
        var changed: MonotonicInstant

        /// Memory with the table of pieces.
        var cost: Int { byteCount + pieces.count * 96 }

        /// Returns the reassembled frame, and removes its pieces; nil while one is missing.
        mutating func removeFrame() -> [UInt8]? {
            guard pieces.count >= total, (0..<total).allSatisfy({ pieces[$0] != nil }) else { return nil }
            var frame: [UInt8] = []
            frame.reserveCapacity(byteCount)
            // Each piece is freed as soon as it is copied, so that memory is not needed twice.
            for index in 0..<total { frame += pieces.removeValue(forKey: index) ?? [] }
            return frame
        }
    }

    /// The sets of one sender, or of all.
    private struct Share: Sendable {
        var sets = 0
        var bytes = 0
    }

    private var assemblies: [Key: Assembly] = [:]
    /// Sets that this node has not accepted.
    private var unsolicited = Share()
    private var unsolicitedBySender: [PeerID: Share] = [:]
    private var expectedByteCount = 0
    /// A lower bound on the time at which a set expires.
    private var nextExpiry: MonotonicInstant?
    private let limits: Limits

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Memory in use, including the tables.
    package var byteCount: Int { unsolicited.bytes + expectedByteCount }
    package var count: Int { assemblies.count }

    /// - Parameters:
    ///   - sender: the claimed sender of the fragment's packet; sets of several senders are never mixed.
    ///   - link: the link on which it was received. The link with most sets loses one first, so that a flood on one affects no
    ///     other.
    ///   - isExpected: whether this node has accepted it. Such a set is never evicted, so the caller bounds their number.
    package mutating func add(
        _ fragment: MeshFragment, from sender: PeerID, on link: MeshLinkID? = nil, isExpected: Bool = false,
        now: MonotonicInstant
    ) -> Outcome {
        expire(now: now)
        let key = Key(sender: sender, id: fragment.id)
        let isNew = assemblies[key] == nil
        // Removed while it is changed, so that its table is not copied.
        var assembly =
            remove(key)
            ?? Assembly(
                total: fragment.total, type: fragment.originalType, link: link, isExpected: isExpected, started: now,
                changed: now)
        // The latest header is used, as on iOS.
        assembly.total = fragment.total
        assembly.changed = now
        assembly.byteCount += fragment.slice.count - (assembly.pieces[fragment.index]?.count ?? 0)
        guard assembly.byteCount <= limits.byteLimit(for: assembly.type) else { return .oversized }
        assembly.pieces[fragment.index] = Array(fragment.slice)
        if let frame = assembly.removeFrame() { return .complete(frame) }
        insert(assembly, key)
        makeRoom(for: key)
        return isNew ? .started : .stored
    }

    package func progress(of id: MeshFragment.ID, from sender: PeerID) -> Progress? {
        assemblies[Key(sender: sender, id: id)].map {
            Progress(sender: sender, id: id, received: $0.pieces.count, total: $0.total, changed: $0.changed)
        }
    }

    /// The indices of the first missing pieces, at most `limit`; nil for an unknown set.
    package func missing(of id: MeshFragment.ID, from sender: PeerID, limit: Int) -> [Int]? {
        assemblies[Key(sender: sender, id: id)].map { assembly in
            Array((0..<assembly.total).lazy.filter { assembly.pieces[$0] == nil }.prefix(limit))
        }
    }

    package mutating func discard(_ id: MeshFragment.ID, from sender: PeerID) {
        remove(Key(sender: sender, id: id))
    }

    private mutating func insert(_ assembly: Assembly, _ key: Key) {
        let expiry = min(assembly.changed + limits.idle, assembly.started + limits.lifetime)
        nextExpiry = min(nextExpiry ?? expiry, expiry)
        if assembly.isExpected {
            expectedByteCount += assembly.cost
        } else {
            unsolicited.sets += 1
            unsolicited.bytes += assembly.cost
            var share = unsolicitedBySender[key.sender] ?? Share()
            share.sets += 1
            share.bytes += assembly.cost
            unsolicitedBySender[key.sender] = share
        }
        assemblies[key] = assembly
    }

    @discardableResult
    private mutating func remove(_ key: Key) -> Assembly? {
        guard let assembly = assemblies.removeValue(forKey: key) else { return nil }
        if assembly.isExpected {
            expectedByteCount -= assembly.cost
        } else {
            unsolicited.sets -= 1
            unsolicited.bytes -= assembly.cost
            var share = unsolicitedBySender[key.sender] ?? Share()
            share.sets -= 1
            share.bytes -= assembly.cost
            unsolicitedBySender[key.sender] = share.sets == 0 ? nil : share
        }
        return assembly
    }

    /// Drops sets that have waited for too long.
    package mutating func expire(now: MonotonicInstant) {
        guard let nextExpiry, nextExpiry <= now else { return }
        self.nextExpiry = nil
        for (key, assembly) in assemblies {
            let expiry = min(assembly.changed + limits.idle, assembly.started + limits.lifetime)
            if expiry <= now { remove(key) } else { self.nextExpiry = min(self.nextExpiry ?? expiry, expiry) }
        }
    }

    /// Drops the sets that have waited longest for their next piece: first of the same sender, then of the link with most sets.
    private mutating func makeRoom(for key: Key) {
        while let share = unsolicitedBySender[key.sender],
            share.sets > limits.setsPerSender || share.bytes > limits.bytesPerSender
        {
            guard dropOldest(excluding: key, where: { $0.sender == key.sender }) else { break }
        }
        while unsolicited.sets > limits.sets || unsolicited.bytes > limits.bytes {
            guard dropOldest(excluding: key, where: { _ in true }) else { break }
        }
    }

    /// - Returns: false when there is none.
    private mutating func dropOldest(excluding key: Key, where isCandidate: (Key) -> Bool) -> Bool {
        let candidates = assemblies.filter { $0.key != key && !$0.value.isExpected && isCandidate($0.key) }
        var costs: [MeshLinkID?: Int] = [:]
        // Each set has a minimum cost, so that many empty ones count.
        for assembly in candidates.values { costs[assembly.link, default: 0] += assembly.cost + 4096 }
        guard let largest = costs.max(by: { $0.value < $1.value }),
            let oldest = candidates.filter({ $0.value.link == largest.key }).min(by: { $0.value.changed < $1.value.changed })
        else { return false }
        remove(oldest.key)
        return true
    }
}

extension MeshFrame {
    /// Decodes a reassembled frame, also one whose tail an Android sender has lost: it mistakes 1 to 16 bytes at the end, all
    /// with the value of their number, for padding (section 6.4). The signature decides.
    package init(decodingReassembled frame: [UInt8]) throws(MalformedInput) {
        do {
            self = try MeshFrame(decoding: frame[...])
        } catch {
            // Only where these bytes alone are missing: decompressing a damaged stream again and again would be costly (R2).
            guard let missing = MeshFrame.missingByteCount(of: frame[...]), (1...16).contains(missing) else { throw error }
            let repaired = frame + [UInt8](repeating: UInt8(missing), count: missing)
            self = try MeshFrame(decoding: repaired[...])
        }
    }
}
