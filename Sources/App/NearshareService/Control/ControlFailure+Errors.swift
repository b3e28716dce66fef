internal import Nearshare
internal import NearshareBundles
internal import NearshareMesh

extension ControlFailure {
    /// Converts an error of any module below.
    init(_ error: any Error) {
        switch error {
        case let failure as ControlFailure: self = failure
        case let error as MessengerError:
            switch error {
            case .storage: self.init(.storage, error.description)
            case .rule(let rule): self.init(rule)
            case .file: self.init(.unavailable, error.description)
            case .tooLong: self.init(.tooLarge, error.description)
            case .nothingToSay, .reservedText: self.init(.refused, error.description)
            }
        case let rule as MessageError:
            switch rule {
            // The request itself is valid.
            case .receiverNotInRange, .receiverKeyUnknown, .receiverTakesNone:
                self.init(.peerNotFound, ErrorMessage.text(for: rule))
            case .fileTooLarge, .contentTooLarge, .textTooLarge: self.init(.tooLarge, ErrorMessage.text(for: rule))
            default: self.init(.refused, ErrorMessage.text(for: rule))
            }
        case NodeError.notFound, NodeError.unreachable: self.init(.peerNotFound, ErrorMessage.text(for: error))
        case NodeError.ambiguous: self.init(.ambiguous, ErrorMessage.text(for: error))
        case let error as StorageError: self.init(.storage, error.description)
        case is NodeError: self.init(.unavailable, ErrorMessage.text(for: error))
        case is CancellationError: self.init(.gone, "the node ended before it replied; try again")
        default: self.init(.unavailable, "\(error)")
        }
    }
}
