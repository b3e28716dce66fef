internal import NearshareDirect
internal import NearshareInterfaces

extension TransferFailure {
    /// The reason that the peer learns of a failure to read or to store content.
    init(_ failure: StorageError) {
        switch failure.code {
        case .noSpace: self = .noSpace
        case .overLimit: self = .tooLarge
        case .rejected: self = .refused
        case .changed: self = .sourceChanged
        case .notFound, .noPermission, .outputClosed, .unsuitable, .failed: self = .storageFailed
        }
    }
}
