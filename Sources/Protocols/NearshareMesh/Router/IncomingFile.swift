internal import NearshareBase

/// A file that a nearshare peer has offered.
///
///     offered ──accept──► accepted ──whole──► delivering ──stored──► stored
///        └──refuse, cancel, time──► refused
struct IncomingFile {
    enum Phase: Hashable {
        case offered
        case accepted
        /// It is here; whoever accepted it puts it away.
        case delivering
        case stored
        case refused(MeshFileControl.Refusal)
    }

    /// The latest: a sender who began anew names other fragments.
    var offer: MeshFileOffer
    let sender: PeerID
    var phase = Phase.offered
    /// When the phase gives up; for an ended one, when it is forgotten.
    var deadline: MonotonicInstant
    /// When something came last, or was asked for.
    var lastProgress: MonotonicInstant
    var received = 0
    var questions = 0

    var isEnded: Bool {
        switch phase {
        case .stored, .refused: true
        case .offered, .accepted, .delivering: false
        }
    }
}
