package import NearshareBase

/// Puts packets together from their fragments, within bounds of count, bytes and age, for each sender and in all
/// (bitchat specification, section 6.3; M4).
package struct FragmentAssembler: Sendable {
    package struct Limits: Sendable, Hashable {
        package var sets = 128
        package var setsPerSender = 8
        package var bytes = 24 << 20
        package var bytesPerSender = 12 << 20
        /// For packets that can't hold a file.
        package var bytesPerSet = 1_048_576
        /// For files and what is sealed.
        package var bytesPerFileSet = MeshPacket.maximumPayloadByteCount
        /// A set to which nothing came for so long is dropped.
        package var idle = Duration.seconds(30)
        /// A set older than this is dropped, however busy.
        package var lifetime = Duration.seconds(900)

        package init() {}

        func byteLimit(for type: MeshPacketType) -> Int {
            type == .fileTransfer || type == .noiseEncrypted ? bytesPerFileSet : bytesPerSet
        }
    }

    package enum Outcome: Sendable, Hashable {
        /// The first of its set.
        case started
        case stored
        /// The frame, as it was cut up.
        case complete([UInt8])
        /// The set would be larger than any packet may be, and was dropped.
        case oversized
    }

    /// How far a set is.
    package struct Progress: Sendable, Hashable {
        package var sender: PeerID
        package var id: MeshFragment.ID
        package var received: Int
        package var total: Int
        /// When the last piece came.
        package var changed: MonotonicInstant
    }

    private struct Key: Hashable {
        var sender: PeerID
        var id: MeshFragment.ID
    }

    private struct Assembly {
        var pieces: [Int: [UInt8]] = [:]
        var byteCount = 0
        var total: Int
        var type: MeshPacketType
        let link: MeshLinkID?
        let isExpected: Bool
        let started: MonotonicInstant
        var changed: MonotonicInstant

        /// With what the table of pieces takes.
        var cost: Int { byteCount + pieces.count * 96 }
    }

    /// What the sets take that come from one place, or from all.
    private struct Share {
        var sets = 0
        var bytes = 0
    }

    private var assemblies: [Key: Assembly] = [:]
    /// Of sets that nobody here has asked for.
    private var unasked = Share()
    private var unaskedBySender: [PeerID: Share] = [:]
    private var expectedByteCount = 0
    /// No set expires before.
    private var nextExpiry: MonotonicInstant?
    private let limits: Limits

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Bytes held in all, with what the bookkeeping takes.
    package var byteCount: Int { unasked.bytes + expectedByteCount }
    package var count: Int { assemblies.count }

    /// - Parameters:
    ///   - sender: as the fragment's packet claims; sets of several senders are never mixed.
    ///   - link: where it came from. Who has most sets gives way first, so that a flood from one link costs no other.
    ///   - isExpected: somebody here has asked for it. Such a set gives way to none, so its owner bounds how many there are.
    package mutating func add(
        _ fragment: MeshFragment, from sender: PeerID, on link: MeshLinkID? = nil, isExpected: Bool = false,
        now: MonotonicInstant
    ) -> Outcome {
        expire(now: now)
        let key = Key(sender: sender, id: fragment.id)
        let isNew = assemblies[key] == nil
        // Taken out while it is changed, so that its table is not copied.
        var assembly =
            remove(key)
            ?? Assembly(
                total: fragment.total, type: fragment.originalType, link: link, isExpected: isExpected, started: now,
                changed: now)
        // The latest header counts, as on iOS.
        assembly.total = fragment.total
        assembly.changed = now
        assembly.byteCount += fragment.slice.count - (assembly.pieces[fragment.index]?.count ?? 0)
        guard assembly.byteCount <= limits.byteLimit(for: assembly.type) else { return .oversized }
        assembly.pieces[fragment.index] = Array(fragment.slice)
        if assembly.pieces.count >= assembly.total, (0..<assembly.total).allSatisfy({ assembly.pieces[$0] != nil }) {
            var frame: [UInt8] = []
            frame.reserveCapacity(assembly.byteCount)
            // Each goes as soon as it is copied, so that nothing is held twice.
            for index in 0..<assembly.total { frame += assembly.pieces.removeValue(forKey: index)! }
            return .complete(frame)
        }
        insert(assembly, key)
        makeRoom(for: key)
        return isNew ? .started : .stored
    }

    package func progress(of id: MeshFragment.ID, from sender: PeerID) -> Progress? {
        assemblies[Key(sender: sender, id: id)].map {
            Progress(sender: sender, id: id, received: $0.pieces.count, total: $0.total, changed: $0.changed)
        }
    }

    /// The first of the pieces that are not there, at most `limit`; nil for a set that is not known.
    package func missing(of id: MeshFragment.ID, from sender: PeerID, limit: Int) -> [Int]? {
        assemblies[Key(sender: sender, id: id)].map { assembly in
            Array((0..<assembly.total).lazy.filter { assembly.pieces[$0] == nil }.prefix(limit))
        }
    }

    package mutating func drop(_ id: MeshFragment.ID, from sender: PeerID) {
        remove(Key(sender: sender, id: id))
    }

    private mutating func insert(_ assembly: Assembly, _ key: Key) {
        let expiry = min(assembly.changed + limits.idle, assembly.started + limits.lifetime)
        nextExpiry = min(nextExpiry ?? expiry, expiry)
        if assembly.isExpected {
            expectedByteCount += assembly.cost
        } else {
            unasked.sets += 1
            unasked.bytes += assembly.cost
            unaskedBySender[key.sender, default: Share()].sets += 1
            unaskedBySender[key.sender]!.bytes += assembly.cost
        }
        assemblies[key] = assembly
    }

    @discardableResult
    private mutating func remove(_ key: Key) -> Assembly? {
        guard let assembly = assemblies.removeValue(forKey: key) else { return nil }
        if assembly.isExpected {
            expectedByteCount -= assembly.cost
        } else {
            unasked.sets -= 1
            unasked.bytes -= assembly.cost
            unaskedBySender[key.sender]!.sets -= 1
            unaskedBySender[key.sender]!.bytes -= assembly.cost
            if unaskedBySender[key.sender]!.sets == 0 { unaskedBySender[key.sender] = nil }
        }
        return assembly
    }

    /// Drops what has waited for too long.
    package mutating func expire(now: MonotonicInstant) {
        guard let nextExpiry, nextExpiry <= now else { return }
        self.nextExpiry = nil
        for (key, assembly) in assemblies {
            let expiry = min(assembly.changed + limits.idle, assembly.started + limits.lifetime)
            if expiry <= now { remove(key) } else { self.nextExpiry = min(self.nextExpiry ?? expiry, expiry) }
        }
    }

    /// Drops what has waited longest for its next piece: first of the sender's own, then of the link that has most.
    private mutating func makeRoom(for key: Key) {
        while let share = unaskedBySender[key.sender], share.sets > limits.setsPerSender || share.bytes > limits.bytesPerSender
        {
            guard dropOldest(besides: key, where: { $0.sender == key.sender }) else { break }
        }
        while unasked.sets > limits.sets || unasked.bytes > limits.bytes {
            guard dropOldest(besides: key, where: { _ in true }) else { break }
        }
    }

    /// - Returns: false when there is none.
    private mutating func dropOldest(besides key: Key, where isCandidate: (Key) -> Bool) -> Bool {
        let candidates = assemblies.filter { $0.key != key && !$0.value.isExpected && isCandidate($0.key) }
        var costs: [MeshLinkID?: Int] = [:]
        // A set costs something even before its bytes count.
        for assembly in candidates.values { costs[assembly.link, default: 0] += assembly.cost + 4096 }
        guard let most = costs.max(by: { $0.value < $1.value }) else { return false }
        let theirs = candidates.filter { $0.value.link == most.key }
        remove(theirs.min { $0.value.changed < $1.value.changed }!.key)
        return true
    }
}

extension MeshFrame {
    /// Decodes a frame that was put together, also where an Android sender has lost its tail: it takes bytes at the end for
    /// padding that are none, 1 to 16 of them, all with the value of their number (section 6.4). The signature decides.
    package init(decodingReassembled frame: [UInt8]) throws(MalformedInput) {
        do {
            self = try MeshFrame(decoding: frame[...])
        } catch {
            // Only where bytes are missing, and these are all: trying a damaged stream again and again would cost us much (R2).
            guard let missing = MeshFrame.missingByteCount(of: frame[...]), (1...16).contains(missing) else { throw error }
            let mended = frame + [UInt8](repeating: UInt8(missing), count: missing)
            self = try MeshFrame(decoding: mended[...])
        }
    }
}
