package import NearshareBase

/// Reassembles packets from fragments, within bounds of count, bytes and age, for each sender and in total (bitchat
/// specification, section 6.3; M4).
///
/// Any peer can write another's id and header on a fragment, so each link has a set of its own. The packet is put together from all
/// of them; when it turns out to be forged, from one link's alone, and from those of all links but one:
///
///     every index present ─► all sets ──forged──► contested ─► one link's set, or all sets but one link's ──genuine──► removed
///                                                    ▲──────────────── forged ───────────────┘
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
        /// The fragment is the first of its packet.
        case started
        case stored
        /// The link has brought another fragment with the same header and index: one of the two is forged.
        case conflicting
        /// The frame that was cut: all of its fragments are present.
        case complete([UInt8])
        /// The set was larger than a packet of its type may be, and was dropped.
        case oversized
    }

    /// The progress of a packet.
    package struct Progress: Sendable, Hashable {
        package var sender: PeerID
        package var id: MeshFragment.ID
        package var received: Int
        package var total: Int
        /// When a missing fragment was last received.
        package var changed: MonotonicInstant
    }

    /// The common header of a packet's fragments: another total or type belongs to another packet, or is forged.
    private struct Header: Hashable, Sendable {
        var sender: PeerID
        var id: MeshFragment.ID
        var total: Int
        var type: MeshPacketType

        init(_ fragment: MeshFragment, from sender: PeerID) {
            self.sender = sender
            (id, total, type) = (fragment.id, fragment.total, fragment.originalType)
        }
    }

    private struct Key: Hashable, Sendable {
        var header: Header
        var link: MeshLinkID?

        var flow: Flow { Flow(sender: header.sender, link: link) }
    }

    /// The sets of one sender that came over one link.
    private struct Flow: Hashable, Sendable {
        var sender: PeerID
        var link: MeshLinkID?
    }

    /// The fragments of a packet that came over one link.
    private struct Assembly: Sendable {
        var slices: [Int: [UInt8]] = [:]
        var byteCount = 0
        let isExpected: Bool
        let started: MonotonicInstant
        var changed: MonotonicInstant

        /// Memory with the tables of fragments.
        var cost: Int { byteCount + slices.count * 112 }
    }

    private enum Selection: Hashable, Sendable {
        case all
        case only(MeshLinkID?)
        case without(MeshLinkID?)
    }

    /// The sets of one packet.
    private struct Contributions: Sendable {
        /// The links that have a set, in the order of their first fragments.
        var links: [MeshLinkID?] = []
        /// The number of sets that have each index.
        var counts: [Int: UInt16] = [:]
        /// The number of indices that only this link has.
        var exclusiveCounts: [MeshLinkID?: Int] = [:]
        /// When any fragment was received.
        var touched: MonotonicInstant
        /// When a missing fragment was received.
        var changed: MonotonicInstant
        /// Whether the packet was forged that all sets made together.
        var isContested = false
        /// The link on which the sender's latest authentic message was received, where the sets are contested.
        var trustedLink: MeshLinkID?
        /// Selections that have made a forged packet.
        var attempted: Set<Selection> = []
    }

    /// The sets of one sender, or of all.
    private struct Share: Sendable {
        var sets = 0
        var bytes = 0

        mutating func add(_ assembly: Assembly) {
            sets += 1
            bytes += assembly.cost
        }

        mutating func subtract(_ assembly: Assembly) {
            sets -= 1
            bytes -= assembly.cost
        }
    }

    private var assemblies: [Key: Assembly] = [:]
    private var contributions: [Header: Contributions] = [:]
    /// Sets that this node has not accepted.
    private var unsolicited = Share()
    private var unsolicitedByFlow: [Flow: Share] = [:]
    private var expectedByteCount = 0
    /// The closed links that have sets.
    private var closedLinks: Set<MeshLinkID> = []
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
    ///   - isExpected: whether this node has accepted it. The first of these sets are never evicted, so the caller bounds the
    ///     number of packets.
    package mutating func add(
        _ fragment: MeshFragment, from sender: PeerID, on link: MeshLinkID? = nil, isExpected: Bool = false,
        now: MonotonicInstant
    ) -> Outcome {
        expire(now: now)
        let key = Key(header: Header(fragment, from: sender), link: link)
        let isNew = contributions[key.header] == nil
        // Removed while it is changed, so that its table is not copied.
        var assembly = detach(key) ?? makeAssembly(key, isExpected: isExpected, now: now)
        if let present = assembly.slices[fragment.index] {
            insert(assembly, key)
            return present.elementsEqual(fragment.slice) ? .stored : .conflicting
        }
        assembly.changed = now
        assembly.byteCount += fragment.slice.count
        guard assembly.byteCount <= limits.byteLimit(for: fragment.originalType) else {
            removeContribution(assembly, key)
            return .oversized
        }
        assembly.slices[fragment.index] = Array(fragment.slice)
        insert(assembly, key)
        recordFragment(fragment.index, key, now: now)
        if let frame = nextFrame(of: key.header) { return .complete(frame) }
        makeRoom(for: key)
        return isNew ? .started : .stored
    }

    private func makeAssembly(_ key: Key, isExpected: Bool, now: MonotonicInstant) -> Assembly {
        let links = contributions[key.header]?.links ?? []
        let expectedCount = links.count { assemblies[Key(header: key.header, link: $0)]?.isExpected == true }
        return Assembly(isExpected: isExpected && expectedCount < Self.maximumExpectedLinkCount, started: now, changed: now)
    }

    private mutating func recordFragment(_ index: Int, _ key: Key, now: MonotonicInstant) {
        let link = key.link
        var record = contributions.removeValue(forKey: key.header) ?? Contributions(touched: now, changed: now)
        if !record.links.contains(link) { record.links.append(link) }
        record.touched = now
        switch record.counts[index, default: 0] {
        case 0:
            record.changed = now
            record.exclusiveCounts[link, default: 0] += 1
        case 1:
            let other = record.links.first { $0 != link && hasFragment(index, Key(header: key.header, link: $0)) }
            if let other { record.exclusiveCounts[other, default: 1] -= 1 }
        default: break
        }
        record.counts[index, default: 0] += 1
        contributions[key.header] = record
    }

    private func hasFragment(_ index: Int, _ key: Key) -> Bool { assemblies[key]?.slices[index] != nil }

    /// Ends a complete packet. Where it was forged, the sets of the links are tried one by one (M4).
    /// - Parameter link: the one on which the sender's latest authentic message was received.
    /// - Returns: the next frame that the sets make, if any.
    mutating func finish(
        _ fragment: MeshFragment, from sender: PeerID, isGenuine: Bool, trusting link: MeshLinkID?
    ) -> [UInt8]? {
        let header = Header(fragment, from: sender)
        guard contributions[header] != nil else { return nil }
        guard !isGenuine else {
            discard(header)
            return nil
        }
        contributions[header]?.isContested = true
        contributions[header]?.trustedLink = link
        return nextFrame(of: header)
    }

    /// Whether sets contradict each other, so that a copy of a fragment that another link has brought counts too.
    func isContested(_ fragment: MeshFragment, from sender: PeerID) -> Bool {
        contributions[Header(fragment, from: sender)]?.isContested ?? false
    }

    /// The frame of the next selection of sets that is complete, and has not made a forged one. A set that is used alone is
    /// removed: its packet is genuine, or it is forged itself.
    private mutating func nextFrame(of header: Header) -> [UInt8]? {
        while let record = contributions[header], let selection = nextSelection(record, header) {
            contributions[header]?.attempted.insert(selection)
            switch selection {
            case .all where record.links.count == 1: return removeFrame(Key(header: header, link: record.links[0]))
            case .only(let link): return removeFrame(Key(header: header, link: link))
            case .all, .without:
                if let frame = frame(of: header, record.links.filter { selection != .without($0) }) { return frame }
                contributions[header]?.isContested = true
            }
        }
        return nil
    }

    private func nextSelection(_ record: Contributions, _ header: Header) -> Selection? {
        guard record.counts.count == header.total else { return nil }
        guard record.isContested else { return .all }
        let links = ([record.trustedLink] + record.links).filter { record.links.contains($0) }
        let alone = links.filter { assemblies[Key(header: header, link: $0)]?.slices.count == header.total }
        // Two links: the selections of one set alone are the same.
        let dispensable = record.links.count > 2 ? links.filter { record.exclusiveCounts[$0, default: 0] == 0 } : []
        return (alone.map { .only($0) } + dispensable.map { .without($0) } + [.all]).first { !record.attempted.contains($0) }
    }

    /// Removes a complete set. Each slice is freed as soon as it is copied, so that memory is not needed twice.
    private mutating func removeFrame(_ key: Key) -> [UInt8]? {
        guard var assembly = remove(key) else { return nil }
        var frame: [UInt8] = []
        frame.reserveCapacity(assembly.byteCount)
        for index in 0..<key.header.total { frame += assembly.slices.removeValue(forKey: index) ?? [] }
        return frame
    }

    /// - Returns: nil when the slices are more than a packet of this type may have.
    private func frame(of header: Header, _ links: [MeshLinkID?]) -> [UInt8]? {
        let sets = links.compactMap { assemblies[Key(header: header, link: $0)] }
        var frame: [UInt8] = []
        for index in 0..<header.total {
            guard let slice = sets.lazy.compactMap({ $0.slices[index] }).first,
                frame.count + slice.count <= limits.byteLimit(for: header.type)
            else { return nil }
            frame += slice
        }
        return frame
    }

    /// The accepted packet under an id, or the one with most fragments: one with another header is forged.
    private func header(of id: MeshFragment.ID, from sender: PeerID) -> Header? {
        contributions.filter { $0.key.id == id && $0.key.sender == sender }
            .max { order($0.key, $0.value) < order($1.key, $1.value) }?.key
    }

    private func order(_ header: Header, _ record: Contributions) -> (Int, Int) {
        let isExpected = record.links.contains { assemblies[Key(header: header, link: $0)]?.isExpected == true }
        return (isExpected ? 1 : 0, record.counts.count)
    }

    package func progress(of id: MeshFragment.ID, from sender: PeerID) -> Progress? {
        guard let header = header(of: id, from: sender), let record = contributions[header] else { return nil }
        let trusted = record.isContested ? assemblies[Key(header: header, link: record.trustedLink)] : nil
        return Progress(
            sender: sender, id: id, received: trusted?.slices.count ?? record.counts.count, total: header.total,
            changed: trusted?.changed ?? record.changed)
    }

    /// The indices of the first missing fragments, at most `limit`; nil for an unknown packet. Where sets contradict each other, they
    /// are those that the trusted link has not brought.
    package func missing(of id: MeshFragment.ID, from sender: PeerID, limit: Int) -> [Int]? {
        guard let header = header(of: id, from: sender), let record = contributions[header] else { return nil }
        guard record.isContested else {
            return Array((0..<header.total).lazy.filter { record.counts[$0] == nil }.prefix(limit))
        }
        let trusted = assemblies[Key(header: header, link: record.trustedLink)]
        return Array((0..<header.total).lazy.filter { trusted?.slices[$0] == nil }.prefix(limit))
    }

    package mutating func discard(_ id: MeshFragment.ID, from sender: PeerID) {
        for header in contributions.keys where header.id == id && header.sender == sender { discard(header) }
    }

    private mutating func discard(_ header: Header) {
        for link in contributions[header]?.links ?? [] { detach(Key(header: header, link: link)) }
        contributions[header] = nil
    }

    /// Removes a set, and what it has contributed to its packet.
    @discardableResult
    private mutating func remove(_ key: Key) -> Assembly? {
        guard let assembly = detach(key) else { return nil }
        removeContribution(assembly, key)
        return assembly
    }

    /// Removes from its packet what a set has contributed that is detached.
    private mutating func removeContribution(_ assembly: Assembly, _ key: Key) {
        guard var record = contributions.removeValue(forKey: key.header) else { return }
        record.links.removeAll { $0 == key.link }
        guard !record.links.isEmpty else { return }
        record.exclusiveCounts[key.link] = nil
        // The others can make another packet without it.
        record.attempted = []
        for index in assembly.slices.keys {
            let count = record.counts[index, default: 1] - 1
            record.counts[index] = count == 0 ? nil : count
            guard count == 1 else { continue }
            let other = record.links.first { hasFragment(index, Key(header: key.header, link: $0)) }
            if let other { record.exclusiveCounts[other, default: 0] += 1 }
        }
        contributions[key.header] = record
    }

    private mutating func insert(_ assembly: Assembly, _ key: Key) {
        let expiry = expiry(of: assembly, key)
        nextExpiry = min(nextExpiry ?? expiry, expiry)
        if assembly.isExpected {
            expectedByteCount += assembly.cost
        } else {
            unsolicited.add(assembly)
            unsolicitedByFlow[key.flow, default: Share()].add(assembly)
        }
        assemblies[key] = assembly
    }

    /// Removes a set alone, so that it can be changed.
    @discardableResult
    private mutating func detach(_ key: Key) -> Assembly? {
        guard let assembly = assemblies.removeValue(forKey: key) else { return nil }
        if assembly.isExpected {
            expectedByteCount -= assembly.cost
        } else {
            unsolicited.subtract(assembly)
            unsolicitedByFlow[key.flow]?.subtract(assembly)
            if unsolicitedByFlow[key.flow]?.sets == 0 { unsolicitedByFlow[key.flow] = nil }
        }
        return assembly
    }

    /// A set stays while any link brings fragments of its packet.
    private func expiry(of assembly: Assembly, _ key: Key) -> MonotonicInstant {
        let touched = contributions[key.header]?.touched ?? assembly.changed
        return min(max(touched, assembly.changed) + limits.idle, assembly.started + limits.lifetime)
    }

    /// Drops sets that have waited for too long.
    package mutating func expire(now: MonotonicInstant) {
        guard let nextExpiry, nextExpiry <= now else { return }
        self.nextExpiry = nil
        for (key, assembly) in assemblies {
            let expiry = expiry(of: assembly, key)
            if expiry <= now { remove(key) } else { self.nextExpiry = min(self.nextExpiry ?? expiry, expiry) }
        }
    }

    /// Counts the sets of a closed link with those of all other closed ones: links that come and go have one share together. The sets
    /// stay, because a phone that has lost its link goes on over another.
    mutating func removeLink(_ link: MeshLinkID) {
        // Most links that come and go have brought none.
        guard assemblies.keys.contains(where: { $0.link == link }) else { return }
        closedLinks.insert(link)
        closedLinks.formIntersection(assemblies.keys.compactMap(\.link))
    }

    /// Drops sets until all limits hold: first of the same sender on the same link, then of the link that holds most.
    private mutating func makeRoom(for key: Key) {
        guard let assembly = assemblies[key], !assembly.isExpected else { return }
        while let share = unsolicitedByFlow[key.flow],
            share.sets > limits.setsPerSender || share.bytes > limits.bytesPerSender
        {
            guard dropLeast(excluding: key, where: { $0.flow == key.flow }) else { break }
        }
        let closed = closedLinks
        func holder(of key: Key) -> MeshLinkID? { key.link.flatMap { closed.contains($0) ? nil : $0 } }
        while unsolicited.sets > limits.sets || unsolicited.bytes > limits.bytes {
            // The link that holds most of what is over the limit.
            let isOverCount = unsolicited.sets > limits.sets
            var costs: [MeshLinkID?: Int] = [:]
            for (other, assembly) in assemblies where !assembly.isExpected {
                costs[holder(of: other), default: 0] += isOverCount ? 1 : assembly.cost
            }
            let largest = costs.max { $0.value < $1.value }?.key
            guard
                dropLeast(excluding: key, where: { holder(of: $0) == largest })
                    || dropLeast(excluding: key, where: { $0.link == key.link })
            else {
                remove(key)
                break
            }
        }
    }

    /// Drops the set with the fewest fragments, and among these the one that has waited longest: a flood of new sets does not end one
    /// that is being received.
    /// - Returns: false when there is none.
    private mutating func dropLeast(excluding key: Key, where isCandidate: (Key) -> Bool) -> Bool {
        var least: (key: Key, order: (Int, MonotonicInstant))?
        for (other, assembly) in assemblies
        where other != key && !assembly.isExpected && isCandidate(other) {
            let order = (assembly.slices.count, assembly.changed)
            if least.map({ order < $0.order }) ?? true { least = (other, order) }
        }
        guard let least else { return false }
        remove(least.key)
        return true
    }

    /// Links whose sets of one accepted packet are never evicted: others can be a forger's.
    private static let maximumExpectedLinkCount = 3
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
