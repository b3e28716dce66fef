package import Nearshare

/// An event that an operation reports.
package enum OperationEvent: Sendable {
    // Searching for a peer.
    case searching(String)
    case found(PeerID, DisplayName, Transport)

    // Sending.
    case inviting(OutgoingInvitation)
    /// The code that both users compare.
    /// - Parameter isKnown: whether the user knows the peer. A known peer may have verified this machine before, and shows no code
    ///   then.
    case authenticationDigits(PeerID, DisplayName, ShortAuthenticationDigits, isKnown: Bool = false)
    /// The receiver has been asked and has not answered yet.
    case waitingForAnswer(TransferID)
    case acceptedByReceiver(TransferID)
    /// A part of an offer was accepted, by the local user or by the receiver.
    /// - Parameter receiver: escaped; nil for the local user.
    case partAccepted(TransferID, OfferPart.Counts, by: String?)
    case progress(TransferProgress)
    /// The progress of a transfer that this machine's node performs.
    case nodeProgress(TransferID, done: UInt64, total: UInt64?)
    /// The link broke; the peer is searched for and connected to again.
    /// - Parameters:
    ///   - name: escaped.
    ///   - timeLeft: the time until the attempts end.
    ///   - isBusy: whether the peer has closed the link because it has too many, which a warning has said.
    case reconnecting(PeerID, name: String, timeLeft: Duration, isBusy: Bool)
    case sent(SendResult)
    /// Nothing, or not all, was sent to a receiver, whether or not a transfer had begun. The last event about this receiver.
    /// - Parameter receiver: as the user has named it, not escaped.
    case failed(receiver: String, CommandFailure)

    // Receiving.
    case invited(Invitation, freeSpace: UInt64?)
    /// The code that the peer should see as well, before the user is asked.
    case invitedCode(PeerID, ShortAuthenticationDigits)
    case accepted(TransferID, from: PeerID)
    /// - Parameters:
    ///   - sender: nil for an item that an earlier run received.
    ///   - conversation: to which it belongs; nil where it is not known.
    case delivered(DeliveredItem, DeliveredContent, from: ShownPeer?, TransferID?, in: Conversation? = nil)
    case receiveEnded(ReceiveResult)

    /// A transfer in either direction resumes an interrupted one.
    case resumed(TransferID, offset: UInt64)

    /// A sentence about a received transfer that resumes an interrupted one without a question to the user; escaped.
    case goesOn(String, from: PeerID)

    /// A step of a Wi-Fi network for phones or for a transfer.
    case hotspot(HotspotStep)

    /// An event of the node in this process.
    case node(ControlEvent)

    /// A line that is the result of a command, such as the id of a message.
    case result(String)
    /// A message for the user.
    case notice(String)
    /// A message for the user about a problem.
    case warning(String)
}

extension TransferProgress {
    /// Whether it is reported as progress: also the end of the content, where the values before it were too frequent to be told.
    /// - Parameter byteCount: bytes of the progress that was reported last.
    func isReported(after byteCount: UInt64) -> Bool {
        switch phase {
        case .moving: true
        case .finishing, .ended(.completed): done > byteCount
        case .connecting, .waiting, .comparing, .ended: false
        }
    }
}

/// A transfer that a peer is asked to accept.
package struct OutgoingInvitation: Sendable {
    /// The path that the transfer takes.
    package enum Path: Sendable {
        case direct(LinkAddress)
        /// - Parameter estimate: the shortest time that it takes.
        case mesh(isNeighbour: Bool, estimate: Duration)
        /// The node that runs on this machine sends it through the mesh.
        case node
        /// A browser fetches it from the page.
        case page(LinkAddress)
        /// - Parameter certificate: SHA-256 of the device's certificate.
        case localSend(LinkAddress, certificate: [UInt8])
    }

    package var transfer: TransferID
    package var peer: PeerID
    /// The receiver's name, or its address where it has none; not escaped.
    package var receiver: String
    /// ``receiver``, escaped and in quotation marks.
    package var name: String
    package var trustStatus: TrustStatus
    package var path: Path
    /// Whether only the receiver can read the content; false in the mesh for everyone, and for apps that take nothing else.
    package var isEncrypted = true
    /// The part of the content that is sent, escaped for a terminal, and its size; nil for all of it.
    package var part: (content: String, size: UInt64?)?

    package var transport: Transport {
        switch path {
        case .direct(let address): Transport(address.medium)
        case .mesh, .node: .mesh
        case .page, .localSend: .network
        }
    }
}

/// The end of a transfer to one peer.
package struct SendResult: Sendable {
    /// nil for a text that this machine's node sends as a chat message.
    package var transfer: TransferID?
    package var peer: PeerID
    package var outcome: TransferOutcome
    package var detail: String?
    /// The content and its receiver; escaped for a terminal.
    package var label: String
    /// The content alone, for the history.
    package var content = ""
    package var byteCount: UInt64
    /// Bytes that an earlier attempt has sent.
    package var resumedByteCount: UInt64 = 0
    /// Whether another attempt goes on where this one has ended.
    package var canResume = true
    /// Names that the receiver stored differently, with the receiver's name, escaped.
    package var changedNames = ChangedNames()
    /// The files that both ends have compared; nil where none were.
    package var compared: ComparedFiles?
    /// The part that the receiver has accepted; nil for all.
    package var part: OfferPart.Counts?
    /// Escaped.
    package var receiver = ""
    /// The receiver's name, not escaped; nil where ``OperationEvent/inviting(_:)`` has told it.
    package var receiverName: DisplayName?
    /// The id of the chat message as which this machine's node sends a text; nil for other content.
    package var message: String?
    /// The files that the receiver has not stored although it has others; nil where there are none.
    package var missing: MissingFiles?
    /// Whether the receiver has confirmed that it has the content.
    package var isConfirmed = true
    /// Whether the receiver is a LocalSend device.
    package var isDevice = false

    /// The words for content that the receiver had already; nil where something was transferred.
    package var unsentText: String? {
        guard let compared, compared.sentCount == 0 else { return nil }
        // Where the receiver has put known files under another name, a line about that follows.
        if changedNames.isEmpty { return "nothing new to send" }
        return compared.newerCount > 0 ? "done, nothing had to be sent" : "done, all files were there already"
    }

    /// The outcome as the history lists it.
    var recordedOutcome: RecordedOutcome {
        if missing != nil { return .partial }
        if transfer == nil, outcome == .expired { return .keptByNode }
        return RecordedOutcome(outcome)
    }

    /// A few words for the history: why a rule of the receiver has declined the transfer, that its machine has closed the link, or
    /// that it does not confirm what it receives. nil for other ends, and for the answer of a user.
    var recordedReason: String? {
        guard case .declined(let reason) = outcome else { return outcome == .completed && !isConfirmed ? "not confirmed" : nil }
        return switch reason {
        case .declined: detail
        // The only rule of LocalSend devices.
        case .notAllowed: isDevice ? "it requires its PIN" : "friends only"
        case .acceptsNothing: "accepts nothing from this machine"
        case .busy: "busy, or asked too often"
        case .tooLarge, .noSpace, .identityChanged, .singleFileOnly: reason.words
        }
    }
}

/// The end of a transfer from a peer.
package struct ReceiveResult: Sendable {
    package var offer: Offer
    package var peer: PeerID
    /// Escaped.
    package var name: String
    /// The conversation to which the offer belongs; nil for none.
    package var conversation: Conversation?
    package var outcome: TransferOutcome
    package var detail: String?
    /// nil for an invitation that was not accepted.
    package var transfer: TransferID?
    /// Names that were stored differently.
    package var changedNames = ChangedNames()
    /// The files that both ends have compared; nil where none were.
    package var compared: ComparedFiles?
    /// The files that were not stored although others were; nil where there are none.
    package var missing: MissingFiles?
    /// Whether the result is not shown: a rule has declined the offer, which was reported a moment ago, or the transfer goes on in a
    /// hotspot.
    package var isSilent = false
    /// Whether the content that a broken transfer has stored can be resumed.
    package var isResumable = false
}
