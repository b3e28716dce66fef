internal import NearshareBase

/// A file of this node on its way to one peer, or to everyone.
///
///     waiting for session ──► offering ──accept──► sending ──► confirming ──stored──► (ended)
///             │                   ▲                 ▲  │           │
///             │                   └── asked again   └──┴─ missing ─┘ or accepted again, after a restart of the receiver
///             └── a phone, or everyone: sending at once, and ended with the last fragment
struct OutgoingFile: Sendable {
    enum Phase: Sendable {
        /// The peer has not stated in a session yet what it supports.
        case waitingForSession(deadline: MonotonicInstant)
        /// The receiver was asked, and its user may take a while to answer.
        case offering(deadline: MonotonicInstant, Retry)
        /// - Parameter isConfirmed: the receiver accepted and will confirm; phones and everyone do neither.
        case sending(MeshFragmentation, isConfirmed: Bool)
        /// All fragments went out; the receiver is asked for what it lacks.
        case confirming(MeshFragmentation, Retry)
    }

    /// A question that is repeated until it is answered.
    struct Retry: Sendable {
        private(set) var attempts = 0
        private(set) var next: MonotonicInstant

        /// - Parameter next: the time of the first attempt.
        init(next: MonotonicInstant) {
            self.next = next
        }

        mutating func recordAttempt(now: MonotonicInstant) {
            attempts += 1
            next = now + OutgoingFile.retryInterval
        }
    }

    let key: MeshFileKey
    let offer: MeshFileOffer
    let chunkByteCount: Int
    /// The encoded file, as long as it may be sealed again for a receiver that has lost its session; empty afterwards.
    var content: [UInt8]
    /// Whether the content is encrypted for its receiver; false for everyone, and for an old app.
    var isSealed = true
    var phase: Phase
    /// The end of the time in which a peer with a session states what it supports; nil before the session.
    var peerStateDeadline: MonotonicInstant?
    /// Fragments sent again so far.
    var retransmissionCount = 0

    /// Whether the receiver was asked, so that it must be told of a cancellation.
    var isNegotiated: Bool {
        switch phase {
        case .waitingForSession: false
        case .offering, .confirming: true
        case .sending(_, let isConfirmed): isConfirmed
        }
    }

    /// Whether the receiver has accepted it.
    var wasAccepted: Bool {
        switch phase {
        case .waitingForSession, .offering: false
        case .sending(_, let isConfirmed): isConfirmed
        case .confirming: true
        }
    }

    /// Whether so many fragments were sent again that the receiver either loses the rest for good or abuses the requests.
    var hasSpentRetransmissions: Bool { retransmissionCount > Int(offer.fragmentCount) * Self.retransmissionsPerFragment }

    /// A peer without a session after this time does not answer.
    static let sessionTimeout = Duration.seconds(30)
    /// A peer that has stated nothing in its session after this time takes no private files (bitchat specification, section 9.3).
    static let peerStateTimeout = Duration.seconds(5)
    /// The time for a peer that does not announce private files either.
    static let unannouncedPeerStateTimeout = Duration.seconds(1)
    /// Time in which the other user can answer, besides the transit time.
    static let offerTimeout = Duration.seconds(60)
    static let retryInterval = Duration.seconds(2)
    /// Unanswered questions about a file that was sent whole.
    static let maximumConfirmationAttempts = 10
    private static let retransmissionsPerFragment = 16
}
