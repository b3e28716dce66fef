internal import NearshareBase
internal import NearshareDirect
internal import Synchronization

/// The rule by which a room admits peers that no member has admitted before; see ``Node/join(_:for:admission:settings:)``.
public enum RoomAdmission: Sendable, Hashable {
    /// Admits all peers that join the room. Keys are not compared.
    case open
    /// Admits the peers that the trust policy of the settings trusts: by default, both users compare short codes within a minute,
    /// and the peer is a member once both have agreed. Then neither is asked about the other again while both programs are in the
    /// room; when one has restarted, both are asked again, with the same code. After a question that was not answered in time, the
    /// next one about the same peer comes a minute later at the earliest. A user's no holds as long as the session, but not against
    /// another member that admits the peer: each member admits for all, except where the user knows the peer's name with another
    /// key.
    case ask
    /// Admits the peers that prove to know the secret, such as a word said in the room. Neither an eavesdropper nor a peer
    /// that does not know it can test guesses on its own: each needs an attempt to join, of which a member answers about ten a
    /// minute. A secret has at least one byte, and no upper bound; two are equal when their bytes of UTF-8 are.
    case secret(String)
}

/// The room of a session, and the rate at which untrusted peers may guess its secret (S19).
final class Room: Sendable {
    /// The identifier of the session, and the secret.
    let credentials: SessionRoom
    let admission: RoomAdmission
    private let guesses: Mutex<TokenBucket>

    init(_ credentials: SessionRoom, _ admission: RoomAdmission, now: MonotonicInstant) {
        self.credentials = credentials
        self.admission = admission
        guesses = Mutex(TokenBucket(capacity: Self.guessCapacity, perSecond: Self.guessesPerSecond, now: now))
    }

    /// Counts a proof that is about to be checked, by this node or by the peer.
    /// - Returns: false when too many have failed, or are being checked.
    func consumeGuess(now: MonotonicInstant) -> Bool { guesses.withLock { $0.consume(now: now) } }

    /// Stops counting a proof that was right.
    func refundGuess() { guesses.withLock { $0.refund(1) } }

    /// The time that an invitation waits for its answer: longer where the other user has to compare a short code.
    var timeout: Duration { admission == .ask ? SessionQuestions.timeout : .seconds(10) }

    /// The members that may join at once; then ten a minute, so that a word of a dictionary takes days to guess (S19).
    private static let guessCapacity = 16.0
    private static let guessesPerSecond = 1.0 / 6
}
