package import NearshareBase

/// Reassembles packets from fragments, within bounds of count, bytes and age, for each sender and in total (bitchat
/// specification, section 6.3; M4).
package struct FragmentAssembler: Sendable {
    package struct Limits: Sendable, Hashable {
        package var sets = 128
        /// Limit for one sender on one link: any node can write another's id on its fragments.
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
        /// The total in the headers: fragments with another one belong to another set, or are forged.
        var total: Int
        var type: MeshPacketType

        init(_ fragment: MeshFragment, from sender: PeerID) {
            self.sender = sender
            (id, total, type) = (fragment.id, fragment.total, fragment.originalType)
        }
    }

    /// The sets of one sender that came over one link.
    private struct Flow: Hashable, Sendable {
        var sender: PeerID
        var link: MeshLinkID?
    }

    private struct Piece: Sendable {
        var bytes: [UInt8]
        var link: MeshLinkID?
    }

    private struct Assembly: Sendable {
        var pieces: [Int: Piece] = [:]
        var byteCount = 0
        let link: MeshLinkID?
        /// The only link whose pieces are taken, after some of another one turned out to be forged.
        var trustedLink: MeshLinkID??
        let isExpected: Bool
        let started: MonotonicInstant
        var changed: MonotonicInstant

        /// Memory with the table of pieces.
        var cost: Int { byteCount + pieces.count * 112 }

        /// Whether the pieces came over several links, so that some of them may be forged.
        var isMixed: Bool {
            let first = pieces.first?.value.link
            return pieces.contains { $0.value.link != first }
        }

        /// Returns the reassembled frame, and removes its pieces; nil while one is missing.
        mutating func removeFrame(total: Int) -> [UInt8]? {
            guard pieces.count >= total else { return nil }
            var frame: [UInt8] = []
            frame.reserveCapacity(byteCount)
            // Each piece is freed as soon as it is copied, so that memory is not needed twice. Only those of several links are
            // kept, until the frame has turned out to be genuine.
            let isKept = isMixed
            for index in 0..<total { frame += (isKept ? pieces[index] : pieces.removeValue(forKey: index))?.bytes ?? [] }
            return frame
        }

        /// Removes the pieces that did not come over one link, and takes no others any more.
        mutating func trust(_ link: MeshLinkID?) {
            trustedLink = .some(link)
            pieces = pieces.filter { $0.value.link == link }
            byteCount = pieces.values.reduce(0) { $0 + $1.bytes.count }
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
    private var unsolicitedByFlow: [Flow: Share] = [:]
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
    ///   - link: the link on which it was received. A set of another link is never dropped for one that is over its link's share.
    ///   - isExpected: whether this node has accepted it. Such a set is never evicted, so the caller bounds their number.
    package mutating func add(
        _ fragment: MeshFragment, from sender: PeerID, on link: MeshLinkID? = nil, isExpected: Bool = false,
        now: MonotonicInstant
    ) -> Outcome {
        expire(now: now)
        let key = Key(fragment, from: sender)
        let isNew = assemblies[key] == nil
        // Removed while it is changed, so that its table is not copied.
        var assembly = remove(key) ?? Assembly(link: link, isExpected: isExpected, started: now, changed: now)
        // The first of two pieces stays: a later one with other bytes is forged, or the same again.
        if assembly.pieces[fragment.index] == nil, assembly.trustedLink.map({ $0 == link }) ?? true {
            assembly.changed = now
            assembly.byteCount += fragment.slice.count
            guard assembly.byteCount <= limits.byteLimit(for: fragment.originalType) else { return .oversized }
            assembly.pieces[fragment.index] = Piece(bytes: Array(fragment.slice), link: link)
        }
        if let frame = assembly.removeFrame(total: fragment.total) {
            if !assembly.pieces.isEmpty { insert(assembly, key) }
            return .complete(frame)
        }
        insert(assembly, key)
        makeRoom(for: key)
        return isNew ? .started : .stored
    }

    /// Ends a complete set. Where it was not genuine and came over several links, the pieces of the trusted link stay, so that only
    /// the others need to be sent again (M4).
    /// - Parameter link: the one on which the sender's latest authentic message was received.
    mutating func finish(_ fragment: MeshFragment, from sender: PeerID, isGenuine: Bool, trusting link: MeshLinkID?) {
        let key = Key(fragment, from: sender)
        guard var assembly = remove(key), !isGenuine else { return }
        assembly.trust(link)
        insert(assembly, key)
    }

    /// The accepted set under an id, or the one with most pieces: one with another header is forged.
    private func key(of id: MeshFragment.ID, from sender: PeerID) -> Key? {
        assemblies.filter { $0.key.id == id && $0.key.sender == sender }
            .max {
                ($0.value.isExpected ? 1 : 0, $0.value.pieces.count) < ($1.value.isExpected ? 1 : 0, $1.value.pieces.count)
            }?.key
    }

    package func progress(of id: MeshFragment.ID, from sender: PeerID) -> Progress? {
        guard let key = key(of: id, from: sender), let assembly = assemblies[key] else { return nil }
        return Progress(sender: sender, id: id, received: assembly.pieces.count, total: key.total, changed: assembly.changed)
    }

    /// The indices of the first missing pieces, at most `limit`; nil for an unknown set.
    package func missing(of id: MeshFragment.ID, from sender: PeerID, limit: Int) -> [Int]? {
        guard let key = key(of: id, from: sender), let assembly = assemblies[key] else { return nil }
        return Array((0..<key.total).lazy.filter { assembly.pieces[$0] == nil }.prefix(limit))
    }

    package mutating func discard(_ id: MeshFragment.ID, from sender: PeerID) {
        for key in assemblies.keys where key.id == id && key.sender == sender { remove(key) }
    }

    private mutating func insert(_ assembly: Assembly, _ key: Key) {
        let expiry = min(assembly.changed + limits.idle, assembly.started + limits.lifetime)
        nextExpiry = min(nextExpiry ?? expiry, expiry)
        if assembly.isExpected {
            expectedByteCount += assembly.cost
        } else {
            unsolicited.sets += 1
            unsolicited.bytes += assembly.cost
            let flow = Flow(sender: key.sender, link: assembly.link)
            var share = unsolicitedByFlow[flow] ?? Share()
            share.sets += 1
            share.bytes += assembly.cost
            unsolicitedByFlow[flow] = share
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
            let flow = Flow(sender: key.sender, link: assembly.link)
            var share = unsolicitedByFlow[flow] ?? Share()
            share.sets -= 1
            share.bytes -= assembly.cost
            unsolicitedByFlow[flow] = share.sets == 0 ? nil : share
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

    /// Drops sets until all limits hold: first of the same sender on the same link, then of the link that holds most.
    private mutating func makeRoom(for key: Key) {
        guard let assembly = assemblies[key], !assembly.isExpected else { return }
        let link = assembly.link
        let flow = Flow(sender: key.sender, link: link)
        while let share = unsolicitedByFlow[flow],
            share.sets > limits.setsPerSender || share.bytes > limits.bytesPerSender
        {
            guard dropLeast(excluding: key, where: { $0.sender == key.sender && $1 == link }) else { break }
        }
        while unsolicited.sets > limits.sets || unsolicited.bytes > limits.bytes {
            // The link that holds most of what is too much.
            let isOverCount = unsolicited.sets > limits.sets
            var costs: [MeshLinkID?: Int] = [:]
            for assembly in assemblies.values where !assembly.isExpected {
                costs[assembly.link, default: 0] += isOverCount ? 1 : assembly.cost
            }
            let largest = costs.max { $0.value < $1.value }?.key
            guard dropLeast(excluding: key, where: { $1 == largest }) || dropLeast(excluding: key, where: { $1 == link }) else {
                remove(key)
                break
            }
        }
    }

    /// Drops the set with the fewest pieces, and among these the one that has waited longest: a flood of new sets does not end one
    /// that is being received.
    /// - Returns: false when there is none.
    private mutating func dropLeast(excluding key: Key, where isCandidate: (Key, MeshLinkID?) -> Bool) -> Bool {
        var least: (key: Key, order: (Int, MonotonicInstant))?
        for (other, assembly) in assemblies
        where other != key && !assembly.isExpected && isCandidate(other, assembly.link) {
            let order = (assembly.pieces.count, assembly.changed)
            if least.map({ order < $0.order }) ?? true { least = (other, order) }
        }
        guard let least else { return false }
        remove(least.key)
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
            let repaired = frame + [UInt8](repeating: UInt8(clamping: missing), count: missing)
            self = try MeshFrame(decoding: repaired[...])
        }
    }
}
