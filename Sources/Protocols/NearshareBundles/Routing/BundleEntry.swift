internal import NearshareBase

/// The index's in-memory record of a stored bundle; the bundle itself is in the store.
struct BundleEntry: Sendable {
    /// The forwarding state of a bundle.
    enum State: Sendable, Hashable {
        /// No neighbour can take it yet.
        case waiting
        /// Forwarded to a neighbour that is nearer to the destination.
        case routed(to: EndpointID)
        /// Offered to every neighbour.
        case epidemic
        /// For a neighbour alone, and never forwarded by it.
        case direct(to: EndpointID)
        /// An acknowledgement of this node that has been forwarded, retained in case that it is needed again.
        case retained
    }

    /// A hash lock (16 bytes) that is compared, or hashed.
    struct HashLock: Sendable, Hashable {
        private let high: UInt64
        private let low: UInt64

        init?(_ bytes: [UInt8]?) {
            guard let bytes, bytes.count == Bundle.hashLockByteCount else { return nil }
            high = UInt64(truncatingBigEndian: bytes[..<8])
            low = UInt64(truncatingBigEndian: bytes[8...])
        }

        private init(high: UInt64, low: UInt64) {
            (self.high, self.low) = (high, low)
        }

        /// The absence of a lock.
        static let none = Self(high: 0, low: 0)
    }

    /// The immutable fields. They are on the heap, because the table of entries has many unused slots. Flags rather than
    /// optionals, each of which would take eight bytes more.
    private final class Facts: Sendable {
        let source: EndpointID
        let destination: EndpointID
        let previousNode: EndpointID
        let host: BundleHost
        let hashLock: HashLock
        let acknowledgedID: BundleID
        let creationTime: WallTime
        let timeToLive: UInt32
        let sharingTime: UInt16
        let hopLimit: UInt16
        let maximumPropagation: UInt16
        let byteCount: UInt16
        let fitsRadio: Bool
        let hasDestination: Bool
        let isForEveryone: Bool
        let hasPreviousNode: Bool
        let hasHashLock: Bool
        let isAcknowledgement: Bool
        let requiresSession: Bool
        let visitedTags: [UInt32]

        init(_ stored: StoredBundle, ownTag: UInt32) {
            let bundle = stored.copy.bundle
            let acknowledgement =
                bundle.kind == .acknowledgement ? try? BundleAcknowledgement(decoding: bundle.body) : nil
            source = bundle.source
            if case .endpoint(let id) = bundle.destination {
                (destination, hasDestination) = (id, true)
            } else {
                (destination, hasDestination) = (source, false)
            }
            isForEveryone = bundle.destination == .everyone
            (previousNode, hasPreviousNode) = (stored.previousNode ?? source, stored.previousNode != nil)
            host = stored.host
            let lock = HashLock(
                acknowledgement.map { BundleAcknowledgement.hashLock(for: $0.secret) } ?? bundle.hashLock)
            (hashLock, hasHashLock) = (lock ?? HashLock.none, lock != nil)
            (acknowledgedID, isAcknowledgement) = (acknowledgement?.id ?? stored.id, acknowledgement != nil)
            requiresSession = bundle.requiresSession
            creationTime = bundle.creationTime
            timeToLive = UInt32(clamping: bundle.profile.timeToLiveSeconds)
            sharingTime = UInt16(clamping: bundle.profile.sharingTimeMilliseconds)
            hopLimit = UInt16(clamping: bundle.profile.hopLimit)
            maximumPropagation = UInt16(clamping: bundle.profile.maximumPropagation)
            byteCount = UInt16(clamping: bundle.quotaByteCount)
            fitsRadio = bundle.body.count <= Bundle.maximumRadioBodyByteCount
            visitedTags = Array((stored.copy.visitedTags + [ownTag]).suffix(bundle.profile.tracklistLimit))
        }
    }

    private let facts: Facts
    /// Number of times that this node has forwarded it.
    var forwardCount: UInt16
    /// Whether it is this node's own, and a neighbour has confirmed it.
    var isSent = false
    /// Whether the bundle has been routed a second time.
    var isSecondAttempt = false
    /// Whether it is this node's own, and was created while the clock was ahead: receivers refuse it until that time, so it is not
    /// forwarded.
    var isAhead = false
    /// The lowest hop count with which it has arrived: it is not signed, and a higher one must not end a copy (B4).
    private var lowestHopCount: UInt16
    var state = State.waiting

    /// - Parameter ownTag: this node's visit tag in the bundle.
    init(_ stored: StoredBundle, ownTag: UInt32) {
        facts = Facts(stored, ownTag: ownTag)
        forwardCount = UInt16(clamping: stored.forwardCount)
        lowestHopCount = UInt16(clamping: stored.copy.hopCount)
    }

    var source: EndpointID { facts.source }
    /// Nil for everyone, and for an unnamed destination.
    var destination: EndpointID? { facts.hasDestination ? facts.destination : nil }
    /// Whether every node delivers it to its user.
    var isForEveryone: Bool { facts.isForEveryone }
    /// The neighbour that sent it; nil for this node's own.
    var previousNode: EndpointID? { facts.hasPreviousNode ? facts.previousNode : nil }
    /// The host of that neighbour; for an acknowledgement of this node, the one that handed over the acknowledged bundle.
    var host: BundleHost { facts.host }
    var isOwn: Bool { !facts.hasPreviousNode }
    /// For an acknowledgement the lock that its secret opens.
    var hashLock: HashLock? { facts.hasHashLock ? facts.hashLock : nil }
    /// The bundle that this one acknowledges.
    var acknowledgedID: BundleID? { facts.isAcknowledgement ? facts.acknowledgedID : nil }
    var isAcknowledgement: Bool { facts.isAcknowledgement }
    var creationTime: WallTime { facts.creationTime }
    var expiry: WallTime { WallTime(milliseconds: creationTime.milliseconds + Int64(facts.timeToLive) * 1_000) }
    /// Milliseconds.
    var sharingTime: Int { Int(facts.sharingTime) }
    var hopLimit: Int { Int(facts.hopLimit) }
    /// Whether it is sent to its destination alone, in the session with it, see ``Bundle/requiresSession``.
    var requiresSession: Bool { facts.requiresSession }
    var hopCount: Int { Int(lowestHopCount) }
    var maximumPropagation: Int { Int(facts.maximumPropagation) }
    /// Size that counts towards quotas.
    var byteCount: Int { Int(facts.byteCount) }
    var fitsRadio: Bool { facts.fitsRadio }
    /// Tags of the nodes that have stored it, this one included.
    var visitedTags: [UInt32] { facts.visitedTags }

    var isEpidemic: Bool { state == .epidemic }

    /// Whether it has almost reached its hop limit, as far as its copies say. Then it is not listed as seen, because a neighbour may
    /// have made that up to end its path here: others offer it again, over fewer hops. Only where a neighbour could not forward it:
    /// long paths reach the limit in large networks, and their bundles are offered at every encounter.
    var isNearHopLimit: Bool { hopCount > 0 && hopCount + 1 >= hopLimit }

    /// Records that another copy has arrived.
    /// - Returns: whether it came over fewer hops than the others.
    mutating func lowerHopCount(to hopCount: Int) -> Bool {
        guard hopCount > 0, hopCount < lowestHopCount else { return false }
        lowestHopCount = UInt16(clamping: hopCount)
        return true
    }

    /// Bytes of the immutable fields and their list, with the overhead of runtime and allocator.
    var heapByteCount: Int { 128 + 32 + visitedTags.count * 4 }
}
