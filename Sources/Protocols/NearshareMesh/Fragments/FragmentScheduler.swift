internal import NearshareBase

/// A packet that is being sent in fragments.
struct FragmentJob: Sendable {
    enum Destination: Sendable, Hashable {
        case everyone
        /// The links that lead to the peer when a fragment is sent.
        case peer(PeerID)
        /// This link, whose frames hold less than the packet.
        case link(MeshLinkID)
    }

    enum Origin: Sendable, Hashable {
        /// A file of this node; the key names its progress.
        case file(MeshFileKey)
        /// Another packet of this node.
        case own
        /// Another node's packet, which was received on this link.
        case relayed(from: MeshLinkID, isAuthentic: Bool)

        var outbox: LinkOutbox.Origin {
            switch self {
            case .file, .own: .own
            case .relayed(let link, let isAuthentic): .relayed(from: link, isAuthentic: isAuthentic)
            }
        }

        /// The link whose share of the scheduler the job counts towards; nil for this node's own.
        var arrival: MeshLinkID? {
            if case .relayed(let link, _) = self { link } else { nil }
        }
    }

    let fragmentation: MeshFragmentation
    /// Size of the packet that was cut.
    let byteCount: Int
    let origin: Origin
    let destination: Destination
    /// Index of the next fragment that was not sent yet.
    private(set) var next = 0
    /// Indices of fragments to send again, in order.
    private(set) var retransmissions: [Int] = []

    init(_ fragmentation: MeshFragmentation, byteCount: Int = 0, origin: Origin, to destination: Destination) {
        self.fragmentation = fragmentation
        self.byteCount = byteCount
        self.origin = origin
        self.destination = destination
    }

    /// A job that only sends fragments again, after all were sent once.
    init(
        repeating indices: [Int], of fragmentation: MeshFragmentation, origin: Origin, to destination: Destination
    ) {
        self.init(fragmentation, origin: origin, to: destination)
        next = fragmentation.count
        retransmissions = indices
    }

    var isDone: Bool { next == fragmentation.count && retransmissions.isEmpty }
    var isRetransmitting: Bool { !retransmissions.isEmpty }

    /// Requests those fragments among `indices` again that were sent before; the others will be sent anyway.
    /// - Returns: their number.
    mutating func `repeat`(_ indices: [Int]) -> Int {
        retransmissions = indices.filter { $0 < next }
        return retransmissions.count
    }

    /// - Returns: the next fragment, and whether it was sent before.
    mutating func removeNext() -> (packet: MeshPacket, isRetransmission: Bool) {
        if !retransmissions.isEmpty { return (fragmentation[retransmissions.removeFirst()], true) }
        defer { next += 1 }
        return (fragmentation[next], false)
    }
}

/// The order and pace of outgoing fragments: one at a time on each link, at the link's pacing, the jobs in turn
/// (bitchat specification, section 6.2).
struct FragmentScheduler: Sendable {
    /// A fragment that is due.
    struct Emission: Sendable {
        var packet: MeshPacket
        /// Whether the fragment was sent before, so that it needs a fresh timestamp.
        let isRetransmission: Bool
        let links: [MeshLinkID]
        let destination: FragmentJob.Destination
        let origin: FragmentJob.Origin
        /// Fragments sent so far, and in all.
        let sent: Int
        let total: Int
        /// Whether the fragment was the last of its job.
        let isLast: Bool
    }

    private(set) var jobs: [FragmentJob] = []
    /// The share of the job that was served last.
    private var lastArrival: MeshLinkID?
    /// When each open link may carry the next fragment.
    private var nextSlots: [MeshLinkID: MonotonicInstant] = [:]
    /// The links on which a fragment is being written.
    private var writing: Set<MeshLinkID> = []

    var isEmpty: Bool { jobs.isEmpty }

    // MARK: Jobs

    mutating func insert(_ job: FragmentJob) { jobs.append(job) }

    /// Whether a packet of this size may be cut for a link. The packets relayed from each link have a share of their own, so they
    /// cannot take the place of this node's, or of another link's.
    func hasRoom(for byteCount: Int, origin: FragmentJob.Origin) -> Bool {
        let isRelayed = origin.arrival != nil
        let alike = jobs.filter { isRelayed ? $0.origin.arrival == origin.arrival : $0.origin == origin }
        return alike.count < (isRelayed ? Self.relayedCapacity : Self.capacity)
            && alike.reduce(byteCount, { $0 + $1.byteCount }) <= (isRelayed ? Self.relayedByteCapacity : Self.byteCapacity)
    }

    mutating func remove(_ file: MeshFileKey) { jobs.removeAll { $0.origin == .file(file) } }

    mutating func addLink(_ link: MeshLinkID, now: MonotonicInstant) { nextSlots[link] = now }

    mutating func removeLink(_ link: MeshLinkID) {
        nextSlots[link] = nil
        writing.remove(link)
    }

    /// Removes the jobs of closed links.
    mutating func removeJobs(exceptForLinks links: LinkTable) {
        jobs.removeAll { job in
            if case .link(let link) = job.destination { !links.contains(link) } else { false }
        }
    }

    /// Schedules the retransmission of fragments of a file that is being sent.
    /// - Returns: their number; nil when no job sends that file, 0 also while an earlier request is being served.
    mutating func `repeat`(_ indices: [Int], of file: MeshFileKey) -> Int? {
        guard let index = jobs.firstIndex(where: { $0.origin == .file(file) }) else { return nil }
        guard !jobs[index].isRetransmitting else { return 0 }
        return jobs[index].repeat(indices)
    }

    // MARK: Time

    /// Records that a fragment was removed from a link's outbox, and is being written.
    mutating func startWriting(to link: MeshLinkID) { writing.insert(link) }

    /// Records that a fragment was written: the next one follows at the pacing of the link, however late this one was.
    mutating func finishWriting(to link: MeshLinkID, pacing: Duration, now: MonotonicInstant) {
        guard writing.remove(link) != nil, nextSlots[link] != nil else { return }
        nextSlots[link] = now + pacing
    }

    /// When the next fragment may be sent; nil when none waits, or only for congested links.
    func deadline(_ routing: MeshRouting) -> MonotonicInstant? {
        jobs.compactMap { job in
            readyLinks(for: job, routing)?.compactMap { nextSlots[$0] }.max()
        }.min()
    }

    /// Removes the next fragment that is due; its job moves to the end of the queue.
    mutating func popDue(now: MonotonicInstant, _ routing: MeshRouting) -> Emission? {
        // The origins take turns, so that many jobs of one link delay this node's file no more than one does.
        let order =
            jobs.indices.filter { jobs[$0].origin.arrival != lastArrival }
            + jobs.indices.filter { jobs[$0].origin.arrival == lastArrival }
        for index in order {
            var job = jobs[index]
            guard let links = readyLinks(for: job, routing), links.allSatisfy({ nextSlots[$0].map { $0 <= now } ?? true })
            else { continue }
            let late = links.filter { writing.contains($0) || routing.links.hasWaitingFragments($0) }
            guard late.isEmpty else {
                // The one before is not written yet.
                for link in late { nextSlots[link] = now + Self.writeCheckInterval }
                continue
            }
            jobs.remove(at: index)
            lastArrival = job.origin.arrival
            let (packet, isRetransmission) = job.removeNext()
            for link in links {
                nextSlots[link] = now + (routing.links.profile(of: link)?.pacing ?? .zero)
            }
            if !job.isDone { jobs.append(job) }
            return Emission(
                packet: packet, isRetransmission: isRetransmission, links: links, destination: job.destination,
                origin: job.origin, sent: job.next, total: job.fragmentation.count, isLast: job.isDone)
        }
        return nil
    }

    /// The links for a job's next fragment; nil when there is none, or one of them is slower than its pacing.
    private func readyLinks(for job: FragmentJob, _ routing: MeshRouting) -> [MeshLinkID]? {
        let links = routing.links(for: job.destination)
        guard !links.isEmpty, !links.contains(where: routing.links.isCongested) else { return nil }
        if case .link = job.destination { return links }
        // Fragments of this node that are being cut once more for a link hold back new ones. Other nodes' do not: they come at will.
        let isRecutting = links.contains { link in
            jobs.count { $0.destination == .link(link) && $0.origin.arrival == nil } >= Self.maximumRecutCountPerLink
        }
        return isRecutting ? nil : links
    }

    /// Interval after which a link is looked at again whose last fragment is not written yet.
    private static let writeCheckInterval = MeshLinkProfile.radioPacing
    /// Each is a set that the receiver holds besides that of the packet itself; it holds eight of one sender.
    private static let maximumRecutCountPerLink = 2
    /// Packets of this node cut for links, besides its files.
    private static let capacity = 64
    private static let byteCapacity = 8 << 20
    /// Packets relayed from one link.
    private static let relayedCapacity = 8
    private static let relayedByteCapacity = 1 << 20
}
