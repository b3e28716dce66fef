package import Nearshare

/// An event that an operation reports.
package enum OperationEvent: Sendable {
    // Looking for a peer.
    case searching(String)
    case found(PeerID, DisplayName, Transport)

    // Sending.
    case inviting(OutgoingInvitation)
    /// The code that both people compare.
    case authenticationDigits(PeerID, ShortAuthenticationDigits)
    /// The receiver has been asked and has not answered yet.
    case waitingForAnswer(TransferID)
    case acceptedByReceiver(TransferID)
    case progress(TransferProgress)
    /// The node of this machine sends.
    case nodeProgress(TransferID, done: UInt64, total: UInt64?)
    /// The link broke, and the peer is looked for on all media.
    case searchingAgain(PeerID)
    case sent(SendResult)
    /// A text that the node of this machine sent.
    case textDelivered(to: DisplayName)

    // Receiving.
    case invited(Invitation, freeSpace: UInt64?)
    case accepted(TransferID, from: PeerID)
    /// - Parameters:
    ///   - sender: nil for an item that an earlier run received.
    case delivered(DeliveredItem, from: Peer?, TransferID?)
    case receiveEnded(ReceiveResult)

    /// A transfer in either direction continues where an earlier one broke off.
    case resumed(TransferID, offset: UInt64)

    /// An event of the node in this process.
    case node(ControlEvent)

    /// A result that is more than a notice.
    case result(String)
    /// A sentence for the user.
    case notice(String)
    /// A sentence for the user about a problem.
    case warning(String)
}

/// A transfer that a peer is asked to accept.
package struct OutgoingInvitation: Sendable {
    /// The path that the transfer takes.
    package enum Path: Sendable {
        case direct(LinkAddress)
        /// - Parameter estimate: the shortest time that it takes.
        case mesh(isNeighbour: Bool, estimate: Duration)
        /// The node that runs on this machine sends it in the mesh.
        case node
    }

    package var transfer: TransferID
    package var peer: PeerID
    /// Escaped.
    package var name: String
    package var trustStatus: TrustStatus
    package var path: Path

    package var transport: Transport {
        switch path {
        case .direct(let address): Transport(address.medium)
        case .mesh, .node: .mesh
        }
    }
}

/// The end of a transfer to one peer.
package struct SendResult: Sendable {
    package var transfer: TransferID
    package var peer: PeerID
    package var outcome: TransferOutcome
    package var detail: String?
    /// What was sent, and to whom; fit for a terminal.
    package var label: String
    package var byteCount: UInt64
    /// Bytes that an earlier try had sent.
    package var resumedByteCount: UInt64 = 0
}

/// The end of a transfer from a peer.
package struct ReceiveResult: Sendable {
    package var offer: Offer
    package var peer: PeerID
    /// Escaped.
    package var name: String
    package var outcome: TransferOutcome
    package var detail: String?
    /// nil for an invitation that was not accepted.
    package var transfer: TransferID?
}
