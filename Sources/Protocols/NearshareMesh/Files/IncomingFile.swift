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
        var receivedCount = 0
        /// Requests in a row without a new fragment.
        var requestCount = 0
    }

    /// The answer that a repeated offer gets.
    enum Ending: Sendable, Hashable {
        case stored
        case declined(MeshFileControl.DeclineReason)
    }

    /// The latest offer: a sender that restarts the transfer names other fragments.
    var offer: MeshFileOffer
    let sender: PeerID
    var phase: Phase

    var isEnded: Bool { if case .ended = phase { true } else { false } }

    /// nil unless the file was accepted and is incomplete.
    var reassembly: Reassembly? {
        if case .accepted(let reassembly) = phase { reassembly } else { nil }
    }
}
