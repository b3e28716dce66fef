public import NearshareBase
public import NearshareSecurity
public import NearshareWire

/// What a router tells those who use it.
public enum MeshEvent: Sendable {
    /// Somebody announced themselves, for the first time or in another way than before.
    case peerChanged(MeshPeer)
    case peerLost(PeerID)
    /// A neighbour's clock, or ours, is so far off that phones don't see us.
    case clockDiffers(from: PeerID, by: Duration)
    case publicMessage(from: MeshPeer, id: String, text: String, sent: WallTime)
    case sessionEstablished(ProvenPeer)
    /// To be answered with ``MeshRouter/acknowledge(_:of:now:)`` once it is kept. It comes several times until then.
    case privateMessage(from: ProvenPeer, id: String, text: String)
    case delivered(messageID: String, by: ProvenPeer)
    case read(messageID: String, by: ProvenPeer)
    /// A private message that nobody has acknowledged, and that is not sent again.
    case undelivered(messageID: String, to: PeerID)
    case pong(from: PeerID, nonce: [UInt8])
    case verificationAnswered(MeshVerification.Response, by: ProvenPeer)
    /// About carried messages, from somebody among ``MeshRouter/carryNeighbours``.
    case carry(CarryPacket, from: PeerID)

    /// A nearshare peer asks whether it may send; to be answered with ``MeshRouter/accept(_:now:)`` or
    /// ``MeshRouter/refuse(_:because:now:)``.
    case fileOffered(MeshFileControl.Offer, from: ProvenPeer)
    /// Fragments of something large for us have come.
    case fragmentsReceived(MeshFragmentProgress)
    /// A whole file. Only from a nearshare peer has it been accepted before.
    case fileReceived(MeshReceivedFile)
    /// An offer or an accepted file will not come any more.
    case incomingEnded(MeshFileKey, MeshFileOutcome)

    /// The peer is asked whether it takes our file.
    case sendingOffered(MeshFileKey)
    /// Our file begins to be sent: so many fragments, and so long will they take at least.
    case sendingStarted(MeshFileKey, fragments: Int, estimate: Duration)
    case fragmentsSent(MeshFileKey, sent: Int, total: Int)
    case sendingEnded(MeshFileKey, MeshFileOutcome)
}

/// How far something that comes in fragments is.
public struct MeshFragmentProgress: Sendable, Hashable {
    public var sender: PeerID
    public var fragmentID: MeshFragment.ID
    /// The file that was accepted under this id, where it was offered.
    public var file: MeshFileControl.FileID?
    public var received: Int
    public var total: Int
}

public struct MeshReceivedFile: Sendable {
    public var id: MeshFileControl.FileID
    public var sender: PeerID
    public var senderName: DisplayName?
    /// The key behind it; nil for a public file, which is signed, but whose key was only announced.
    public var provenSender: ProvenPeer?
    public var file: MeshFile
    /// For everybody, or from old software that sends files unsealed.
    public var isPublic: Bool
    /// It was offered, and accepted.
    public var wasAccepted: Bool
    /// What its fragments were known by.
    public var fragmentID: MeshFragment.ID?
}

/// How a file ended.
public enum MeshFileOutcome: Sendable, Hashable {
    /// The receiver has it in its inbox.
    case stored
    /// All was sent, to a peer that confirms nothing, or to everybody.
    case sent
    case refused(MeshFileControl.Refusal)
    case cancelledHere
    case cancelledByPeer
    /// No session came about: the peer does not answer.
    case peerSilent
    /// The peer does not take private files.
    case unsupported
    /// Fragments kept getting lost.
    case lost
}

/// Why something can't be sent at all.
public enum MeshSendError: Error, Sendable, Hashable, CustomStringConvertible {
    case unknownPeer
    case emptyFile
    /// In bytes.
    case fileTooLarge(limit: Int)
    case textTooLong(limit: Int)
    /// More than may wait for one peer.
    case tooMuchWaiting
    /// The same file, to the same peer.
    case onItsWay
    case malformed(MalformedInput)

    public var description: String {
        switch self {
        case .unknownPeer: "nobody of that id has been heard of in the mesh"
        case .emptyFile: "phones refuse empty files on the mesh; send it directly, or put something into it"
        case .fileTooLarge(let limit):
            "it is too large for the mesh, which carries \(UInt64(limit).asByteCount) to this peer; send it directly"
        case .textTooLong(let limit): "a message has at most \(limit) bytes; split it"
        case .tooMuchWaiting: "too much is waiting for this peer already; try again later"
        case .onItsWay: "this very file is on its way to them already; wait for it to end"
        case .malformed(let error): error.description
        }
    }
}
