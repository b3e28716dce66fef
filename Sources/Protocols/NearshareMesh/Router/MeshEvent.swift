package import NearshareBase
package import NearshareCrypto

/// An event of a router, for the program that drives it.
package enum MeshEvent: Sendable {
    /// A peer announced itself for the first time, or with other details.
    case peerChanged(MeshPeer)
    case peerLost(PeerID)
    /// An announcement of a neighbour has a timestamp outside the window: its clock or this node's is wrong, or the announcement is
    /// replayed (M14).
    case clockSkewDetected(from: PeerID, by: Duration)
    /// - Parameter source: what the link is counted towards over which the author became known; nil without a link.
    case publicMessage(from: MeshPeer, id: String, text: String, source: MeshLinkSource?)
    case sessionEstablished(AuthenticatedPeer)
    /// The program answers with ``MeshRouter/acknowledge(_:of:now:)`` once the message is stored. The event is repeated until
    /// then.
    case privateMessage(from: AuthenticatedPeer, id: String, text: String)
    case delivered(messageID: String, by: AuthenticatedPeer)
    case read(messageID: String, by: AuthenticatedPeer)
    /// No receipt was received for a private message, and it is not sent again.
    case undelivered(messageID: String, to: PeerID)
    /// - Parameter hops: links that the answer has taken; a peer that sends with a lower ttl seems to be further away.
    case pong(from: PeerID, nonce: [UInt8], hops: Int)
    case verificationResponse(MeshVerification.Response, by: AuthenticatedPeer)
    /// A packet of the bundle protocol, not decoded, of at most ``MeshRouter/maximumBundlePacketByteCount`` bytes. Its sender
    /// is among ``MeshRouter/bundleNeighbours``.
    case bundlePacket([UInt8], from: PeerID)

    /// A nearshare peer offers a file; the program answers with ``MeshRouter/accept(_:now:)`` or
    /// ``MeshRouter/decline(_:because:now:)``.
    case fileOffered(MeshFileOffer, from: AuthenticatedPeer)
    /// Fragments of a large packet for this node were received.
    case fragmentsReceived(MeshFragmentProgress)
    /// A complete file. Only one of a nearshare peer was accepted before.
    case fileReceived(MeshReceivedFile)
    /// An offered or accepted file will not be received.
    case fileReceiveEnded(MeshFileKey, MeshFileOutcome)

    /// The receiver was asked to accept a file of this node.
    case fileOfferSent(MeshFileKey)
    /// The transmission of a file of this node has started, with the number of its fragments and their shortest possible
    /// duration.
    case fileSendStarted(MeshFileKey, fragments: Int, estimate: Duration)
    case fragmentsSent(MeshFileKey, sent: Int, total: Int)
    case fileSendEnded(MeshFileKey, MeshFileOutcome)
}

/// The progress of a packet that is received in fragments.
package struct MeshFragmentProgress: Sendable, Hashable {
    package var sender: PeerID
    package var fragmentID: MeshFragment.ID
    /// The file that was offered with this id; nil for other packets.
    package var file: MeshFileControl.FileID?
    package var received: Int
    package var total: Int
}

/// A complete received file.
package struct MeshReceivedFile: Sendable {
    package var id: MeshFileControl.FileID
    package var sender: PeerID
    package var senderName: DisplayName?
    /// The key that sealed it; nil for a public file, which is signed only.
    package var authenticatedSender: AuthenticatedPeer?
    /// The key that a public file is signed with: any peer can have announced it under the sender's id. nil for a sealed file.
    package var signingKey: SigningPublicKey?
    package var file: MeshFile
    /// Whether it is for everyone; false also for one from an older app that does not seal files.
    package var isForEveryone: Bool
    /// Whether it was offered and accepted.
    package var wasAccepted: Bool
    /// The id of its fragments.
    package var fragmentID: MeshFragment.ID?
}

/// The outcome of a file.
package enum MeshFileOutcome: Sendable, Hashable {
    /// The receiver has it in its inbox.
    case stored
    /// All of it was sent, to a peer that does not confirm, or to everyone.
    case sent
    case declined(MeshFileControl.DeclineReason)
    case cancelledLocally
    case cancelledByPeer
    /// No session was established: the peer does not answer.
    case noResponse
    /// The peer does not accept private files.
    case unsupported
    /// The peer has stated a lower limit since the file was queued, in bytes.
    case tooLarge(limit: Int)
    /// Too many fragments were lost.
    case lost
    /// The receiver went out of reach before all of it was sent, and does not confirm; or it was restarted, and does not accept it
    /// any more.
    case receiverLost
}

/// The reason why a message or a file cannot be sent at all.
package enum MeshSendError: Error, Sendable, Hashable, CustomStringConvertible {
    case unknownPeer
    case emptyFile
    /// The limit in bytes.
    case fileTooLarge(limit: Int)
    case textTooLong(limit: Int)
    /// Too many messages wait for the peer.
    case queueFull
    /// The peer takes sealed files, so none is sent to it unsealed.
    case sealedFilesSupported
    /// An equal file is being sent to the same peer.
    case alreadyInProgress
    case malformed(MalformedInput)

    package var description: String {
        switch self {
        case .unknownPeer: "peer not found in the mesh"
        case .emptyFile: "the mesh carries no empty files, which phones refuse; add content"
        case .fileTooLarge(let limit):
            "too large for the mesh, which carries at most \(UInt64(limit).formattedByteCount) to this peer"
        case .textTooLong(let limit): "a message has at most \(limit) bytes; split it"
        case .sealedFilesSupported: "the app of the peer takes encrypted files; send it encrypted"
        case .queueFull: "too many messages are waiting for this peer; try again later"
        case .alreadyInProgress: "this file is already being sent to this peer; wait until it has ended"
        case .malformed(let error): error.description
        }
    }
}
