package import NearshareBase
package import NearshareBundles
package import NearshareCrypto

/// What a router tells those who use it.
package enum MeshEvent: Sendable {
    /// Somebody announced themselves, for the first time or in another way than before.
    case peerChanged(MeshPeer)
    case peerLost(PeerID)
    /// A neighbour's clock, or ours, is so far off that phones don't see us.
    case clockSkewDetected(from: PeerID, by: Duration)
    case publicMessage(from: MeshPeer, id: String, text: String, sent: WallTime)
    case sessionEstablished(AuthenticatedPeer)
    /// To be answered with ``MeshRouter/acknowledge(_:of:now:)`` once it is kept. It comes several times until then.
    case privateMessage(from: AuthenticatedPeer, id: String, text: String)
    case delivered(messageID: String, by: AuthenticatedPeer)
    case read(messageID: String, by: AuthenticatedPeer)
    /// A private message that nobody has acknowledged, and that is not sent again.
    case undelivered(messageID: String, to: PeerID)
    case pong(from: PeerID, nonce: [UInt8])
    case verificationResponse(MeshVerification.Response, by: AuthenticatedPeer)
    /// About carried messages, from somebody among ``MeshRouter/bundleNeighbours``.
    case bundlePacket(BundlePacket, from: PeerID)

    /// A nearshare peer asks whether it may send; to be answered with ``MeshRouter/accept(_:now:)`` or
    /// ``MeshRouter/refuse(_:because:now:)``.
    case fileOffered(MeshFileOffer, from: AuthenticatedPeer)
    /// Fragments of something large for us have come.
    case fragmentsReceived(MeshFragmentProgress)
    /// A whole file. Only from a nearshare peer has it been accepted before.
    case fileReceived(MeshReceivedFile)
    /// An offer or an accepted file will not come any more.
    case fileReceiveEnded(MeshFileKey, MeshFileOutcome)

    /// The peer is asked whether it takes our file.
    case fileOfferSent(MeshFileKey)
    /// Our file begins to be sent: so many fragments, and so long will they take at least.
    case fileSendStarted(MeshFileKey, fragments: Int, estimate: Duration)
    case fragmentsSent(MeshFileKey, sent: Int, total: Int)
    case fileSendEnded(MeshFileKey, MeshFileOutcome)
}

/// How far something that comes in fragments is.
package struct MeshFragmentProgress: Sendable, Hashable {
    package var sender: PeerID
    package var fragmentID: MeshFragment.ID
    /// The file that was accepted under this id, where it was offered.
    package var file: MeshFileControl.FileID?
    package var received: Int
    package var total: Int
}

package struct MeshReceivedFile: Sendable {
    package var id: MeshFileControl.FileID
    package var sender: PeerID
    package var senderName: DisplayName?
    /// The key behind it; nil for a public file, which is signed, but whose key was only announced.
    package var authenticatedSender: AuthenticatedPeer?
    package var file: MeshFile
    /// For everybody, or from old software that sends files unsealed.
    package var isPublic: Bool
    /// It was offered, and accepted.
    package var wasAccepted: Bool
    /// What its fragments were known by.
    package var fragmentID: MeshFragment.ID?
}

/// How a file ended.
package enum MeshFileOutcome: Sendable, Hashable {
    /// The receiver has it in its inbox.
    case stored
    /// All was sent, to a peer that confirms nothing, or to everybody.
    case sent
    case refused(MeshFileControl.Refusal)
    case cancelledLocally
    case cancelledByPeer
    /// No session came about: the peer does not answer.
    case noResponse
    /// The peer does not take private files.
    case unsupported
    /// Fragments kept getting lost.
    case lost
}

/// Why something can't be sent at all.
package enum MeshSendError: Error, Sendable, Hashable, CustomStringConvertible {
    case unknownPeer
    case emptyFile
    /// In bytes.
    case fileTooLarge(limit: Int)
    case textTooLong(limit: Int)
    /// More than may wait for one peer.
    case queueFull
    /// The same file, to the same peer.
    case alreadyInProgress
    case malformed(MalformedInput)

    package var description: String {
        switch self {
        case .unknownPeer: "nobody of that id has been heard of in the mesh"
        case .emptyFile: "phones refuse empty files on the mesh; send it directly, or put something into it"
        case .fileTooLarge(let limit):
            "it is too large for the mesh, which carries \(UInt64(limit).asByteCount) to this peer; send it directly"
        case .textTooLong(let limit): "a message has at most \(limit) bytes; split it"
        case .queueFull: "too much is waiting for this peer already; try again later"
        case .alreadyInProgress: "this very file is on its way to them already; wait for it to end"
        case .malformed(let error): error.description
        }
    }
}
