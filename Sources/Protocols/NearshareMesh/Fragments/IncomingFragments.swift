internal import NearshareBase
internal import NearshareCrypto

/// The packets that this node receives in fragments, and the offered files among them.
struct IncomingFragments: Sendable {
    /// The result of adding a fragment.
    enum Outcome: Sendable {
        /// The fragment contradicts the set of its link, or makes it too large. A copy of it that comes over another link may still be
        /// stored.
        case rejected
        /// - Parameter progress: what to show of it, if anything.
        case stored(progress: MeshFragmentProgress?)
        /// - Parameter packet: a packet of which all fragments are there; ``finish(_:from:isGenuine:trusting:)`` follows.
        case complete(packet: [UInt8], progress: MeshFragmentProgress?)
    }

    private(set) var assembler: FragmentAssembler
    var files = IncomingFiles()

    init(limits: FragmentAssembler.Limits) { assembler = FragmentAssembler(limits: limits) }

    // MARK: Fragments

    mutating func add(
        _ fragment: MeshFragment, from sender: PeerID, on link: MeshLinkID, now: MonotonicInstant
    ) -> Outcome {
        // Any peer can write the sender and the id of another's fragments; what contradicts the offer belongs to another set (M4).
        let isExpected = files.acceptsFragment(fragment, from: sender)
        let isForged = !isExpected && files.acceptedFile(fragment.id, from: sender) != nil
        switch assembler.add(fragment, from: sender, on: link, isExpected: isExpected, now: now) {
        case .started, .stored:
            guard !isForged else { return .stored(progress: nil) }
            let count = assembler.progress(of: fragment.id, from: sender)?.received ?? 0
            return .stored(progress: files.recordFragment(fragment, from: sender, receivedCount: count))
        case .conflicting, .oversized: return .rejected
        case .complete(let packet):
            let progress =
                isForged ? nil : files.recordFragment(fragment, from: sender, receivedCount: fragment.total)
            return .complete(packet: packet, progress: progress)
        }
    }

    /// Records whether a complete packet is genuine.
    /// - Returns: the next packet to try, of fragments of other links; nil for none. See
    ///   ``FragmentAssembler/finish(_:from:isGenuine:trusting:)``.
    mutating func finish(
        _ fragment: MeshFragment, from sender: PeerID, isGenuine: Bool, trusting link: MeshLinkID
    ) -> [UInt8]? {
        assembler.finish(fragment, from: sender, isGenuine: isGenuine, trusting: link)
    }

    /// Whether the links have brought fragments of the same packet that contradict each other.
    func isContested(_ fragment: MeshFragment, from sender: PeerID) -> Bool {
        assembler.isContested(fragment, from: sender)
    }

    /// Removes all received fragments with an id of a sender.
    mutating func discard(_ id: MeshFragment.ID, from sender: PeerID) { assembler.discard(id, from: sender) }

    // MARK: Files

    /// Handles an offer, see ``IncomingFiles/receive(_:from:over:_:now:)``.
    mutating func receive(
        _ offer: MeshFileOffer, from peer: AuthenticatedPeer, over link: MeshLinkShare? = nil, now: MonotonicInstant
    ) -> [FileTransferReaction] {
        files.receive(offer, from: peer, over: link, assembler, now: now)
    }

    // MARK: Links

    mutating func removeLink(_ link: MeshLinkID) {
        assembler.removeLink(link)
        files.removeLink(link)
    }

    // MARK: Time

    /// Requests missing fragments of files, and gives up those without progress.
    mutating func advanceFiles(to now: MonotonicInstant) -> [FileTransferReaction] { files.advance(to: now, assembler) }

    /// Removes the fragments of packets that stay incomplete.
    mutating func expire(now: MonotonicInstant) { assembler.expire(now: now) }
}
