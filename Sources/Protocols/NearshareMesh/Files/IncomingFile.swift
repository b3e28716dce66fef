internal import NearshareBase

/// A file that a nearshare peer has offered.
///
///     offered ──accept──► accepted ──complete──► delivering ──stored──► ended
///        └──decline, cancel, timeout──► ended ◄─┘
struct IncomingFile: Sendable {
    enum Phase: Sendable {
        case offered(deadline: MonotonicInstant)
        case accepted(Reassembly)
        /// All content was received, and the program stores it.
        case delivering
        /// Kept for a while, for a sender that missed the answer and asks again.
        case ended(Ending, removal: MonotonicInstant)
    }

    /// The reassembly of an accepted file from its fragments.
    struct Reassembly: Sendable {
        let deadline: MonotonicInstant
        /// When a fragment was last received or requested.
        var lastProgress: MonotonicInstant
        /// When a fragment was last received, or else when the file was accepted.
        var lastFragment: MonotonicInstant
        var receivedCount = 0
        /// Requests in a row without a new fragment.
        var requestCount = 0
    }

    /// The answer that a repeated offer gets.
    enum Ending: Sendable, Hashable {
        case stored
        case declined(MeshFileControl.DeclineReason)
    }

    /// How much a file has to keep its place when another needs room, the least first.
    enum Retention: Sendable, Comparable {
        /// Accepted, and nothing of it was received for a while.
        case idle
        case undecided
        case underWay
    }

    /// The latest offer: a sender that restarts the transfer names other fragments.
    var offer: MeshFileOffer
    let sender: PeerID
    /// The link over which it was offered, for which it counts: identities in the mesh are free, links to this node are not.
    /// nil where it is not known, and for a closed link to a host without a known address.
    var link: MeshLinkShare?
    /// Position in the order of all offers.
    let number: Int
    /// Whether the user trusts the sender.
    var isFromFriend = false
    var phase: Phase

    var key: MeshFileKey { MeshFileKey(offer.id, with: sender) }

    /// Memory that it may take, in bytes: that of small files is the questions about them, and their state.
    var cost: Int { max(Int(offer.size), IncomingFiles.minimumCost) }

    var isEnded: Bool { if case .ended = phase { true } else { false } }

    /// nil unless the file was accepted and is incomplete.
    var reassembly: Reassembly? {
        if case .accepted(let reassembly) = phase { reassembly } else { nil }
    }

    /// nil for a file that gives way to no other: complete, or of a friend and under way.
    func retention(now: MonotonicInstant) -> Retention? {
        switch phase {
        case .offered: return .undecided
        case .accepted(let reassembly):
            if now - reassembly.lastFragment >= Self.idleTimeout { return .idle }
            return isFromFriend ? nil : .underWay
        case .delivering, .ended: return nil
        }
    }

    /// Time without a fragment after which an accepted file is the first to give way.
    private static let idleTimeout = Duration.seconds(15)
}
