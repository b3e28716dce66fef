package import Nearshare

extension MissingFiles {
    /// The name of the outcome of a transfer without these files, in JSON events and the history.
    package static let word = "partial"
}

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

    /// A message for the sender about the other end.
    /// - Parameters:
    ///   - name: the peer's name, escaped.
    ///   - canResume: whether another attempt goes on where this one has ended.
    ///   - content: the content's label, escaped.
    ///   - entryCount: the offered files and folders.
    package func sentence(
        _ name: String, canResume: Bool = true, content: String = "it", entryCount: UInt64 = 1
    ) -> String {
        let again = canResume ? "repeat the send to resume" : "repeat the send"
        return switch self {
        case .completed: "done"
        case .declined(.declined): "\(name) declined the offer"
        case .expired:
            "\(name) did not answer in time; make sure that its user sees the screen, and send again"
        case .declined(.notAllowed): "\(name) accepts files from friends only; ask to be added as a friend there"
        case .declined(.acceptsNothing): "\(name) accepts nothing from this machine"
        case .declined(.singleFileOnly):
            "\(name) accepts a single file only, and no folder (`receive --stdout`); send one file, such as an archive"
        case .declined(.tooLarge) where entryCount > 1_000_000:
            "\(name) does not accept so many files and folders; send at most a million at once"
        case .declined(.tooLarge): "\(name) does not accept so much; see --max-size and --max-per-peer there"
        case .declined(.noSpace): "\(name) does not have enough disk space"
        case .declined(.busy): "\(name) has been asked too often or is busy; try again in a minute"
        case .declined(.identityChanged):
            "\(name) knows your name with another key; compare the short code (`nearshare peers verify`)"
        case .cancelled(by: .local): canResume ? "cancelled; \(again)" : "cancelled"
        case .cancelled(by: .remote):
            "\(name) cancelled the transfer" + (canResume ? "; what has arrived is kept: \(again)" : "")
        case .failed(.noSpace, _): "the receiver's disk is full; free some space there, and \(again)"
        case .failed(.sourceChanged, _): "the content has changed; send it again"
        case .failed(.sourceUnreadable, _): "the content could not be read completely"
        // Content that contradicts the offer has a detail that says so.
        case .failed(.refused, at: .local): "\(name) violated the protocol, and was disconnected"
        case .failed(.refused, at: .remote): "the content did not match the offer, and was refused"
        case .failed(.tooLarge, at: .local): "it is larger than the limit; see --max-size"
        case .failed(.tooLarge, at: .remote): "it is larger than \(name) accepts; see --max-size and --max-per-peer there"
        // The receiver may write to a program that has ended.
        case .failed(.storageFailed, _): "\(name) could not store \(content); the reason is shown there"
        case .failed: "the transfer could not continue"
        case .interrupted: "the connection to \(name) was lost; \(again)"
        }
    }

    /// A message for the receiver.
    /// - Parameters:
    ///   - name: the sender's name, escaped.
    ///   - isResumable: whether the stored content can be resumed.
    ///   - earlierByteCount: the bytes that an earlier transfer has stored, where this one has not started.
    package func receiverSentence(_ name: String, isResumable: Bool, earlierByteCount: UInt64 = 0) -> String {
        switch self {
        case .cancelled(by: .local): isResumable ? "cancelled; what has arrived is kept for another try" : "cancelled"
        case .cancelled(by: .remote):
            // Also before anything has arrived.
            "\(name) cancelled the transfer"
        case .interrupted where earlierByteCount > 0:
            "the connection to \(name) was lost; the part received earlier, \(earlierByteCount.formattedByteCount), is kept, and it "
                + "continues there when \(name) sends again"
        case .interrupted:
            isResumable
                ? "the connection to \(name) was lost; it continues where it stopped when \(name) is back"
                : "the connection to \(name) was lost; nothing is kept, and it starts again when \(name) sends again"
        case .failed(.storageFailed, _): "it could not be stored"
        default: sentence(name, canResume: isResumable)
        }
    }
}
