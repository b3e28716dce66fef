package import Nearshare

extension TransferOutcome {
    /// The outcome's name in JSON events.
    package var word: String {
        switch self {
        case .completed: "completed"
        case .declined: "declined"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .failed: "failed"
        case .interrupted: "interrupted"
        }
    }

    /// A sentence about the other end.
    /// - Parameter name: of the peer, escaped.
    package func sentence(_ name: String) -> String {
        switch self {
        case .completed: "done"
        case .declined(.declined): "\(name) declined"
        case .declined(.expired), .expired: "\(name) did not answer in time; ask them to look at their screen, and send again"
        case .declined(.notAllowed): "\(name) accepts files from friends only; ask to be added as a friend there"
        case .declined(.takesNothing): "\(name) accepts nothing at the moment"
        case .declined(.tooLarge): "\(name) does not accept that much; see --max-size and --max-per-peer there"
        case .declined(.noSpace): "\(name) has not enough room on the disk"
        case .declined(.busy): "\(name) has been asked too often or is busy; try again in a minute"
        case .declined(.identityChanged):
            "\(name) knows your name with another key; compare the short code (`nearshare peers verify`)"
        case .cancelled(by: .local): "cancelled; the same send goes on where it stopped"
        case .cancelled(by: .remote): "\(name) cancelled it"
        case .failed(.noSpace, _): "the disk at the receiver is full; make room, and the same send goes on where it stopped"
        case .failed(.sourceChanged, _): "what was being sent has changed; send it again"
        case .failed(.sourceUnreadable, _): "what was being sent could not be read to its end"
        case .failed(.refused, _): "more or something else came than was offered, and was refused"
        case .failed(.storageFailed, _): "the receiver could not store it"
        case .failed: "it could not go on"
        case .interrupted: "the connection to \(name) was lost; the same send goes on where it stopped"
        }
    }
}
