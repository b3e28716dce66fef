internal import NearshareBase

/// A file on its way to one peer, or to everybody.
///
///     waiting for session ──► offering ──accept──► sending ──► confirming ──stored──► (ended)
///             │                   ▲                 ▲  │           │
///             │                   └── asked again   └──┴─ missing ─┘
///             └── a phone: sending at once, and ended with the last fragment
struct OutgoingFile {
    enum Phase: Hashable {
        case waitingForSession
        case offering
        case sending
        case confirming
    }

    /// Without a session after this, the peer does not answer.
    static let sessionTimeout = Duration.seconds(30)
    /// How long a person may take to answer, besides what the way there takes.
    static let offerTimeout = Duration.seconds(60)
    static let firstRetry = Duration.seconds(2)
    /// Questions about a file that was sent whole which nobody answers.
    static let confirmationAttempts = 10
    /// Fragments that are sent again for each that there is; a receiver who lacks more loses it for good, or plays with us.
    static let repetitionsPerFragment = 16

    let id: MeshFileKey
    /// Until it is sealed.
    var encoded: [UInt8]
    let offer: MeshFileOffer
    let chunkByteCount: Int
    var phase = Phase.waitingForSession
    /// When the present phase gives up.
    var deadline: MonotonicInstant
    var nextTry: MonotonicInstant
    var attempts = 0
    var repetitions = 0
    /// The peer is asked before, and says how it ended.
    var isConfirmed = false
    /// As it was cut up, for sending again what got lost.
    var fragmentation: MeshFragmentation?
}

/// Fragments that go out one by one, at the pace of their links.
struct FragmentJob {
    let fragmentation: MeshFragmentation
    /// Of the packet that was cut up.
    var byteCount = 0
    /// It is somebody else's.
    var isRelayed = false
    /// The file that it belongs to, for telling how far it is.
    let file: MeshFileKey?
    /// nil for everybody; else where the recipient is, at that moment.
    let recipient: PeerID?
    /// Only on these links, where that is known in advance.
    let links: [MeshLinkID]?
    var next = 0
    var again: [Int] = []

    var isDone: Bool { next == fragmentation.count && again.isEmpty }

    /// - Returns: what goes next, and whether it went before.
    mutating func removeNext() -> (packet: MeshPacket, isRepeated: Bool) {
        if !again.isEmpty {
            let index = again.removeFirst()
            return (fragmentation[index], true)
        }
        defer { next += 1 }
        return (fragmentation[next], false)
    }
}
