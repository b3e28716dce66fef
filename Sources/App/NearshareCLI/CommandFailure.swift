internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// The exit codes, as `nearshare(1)` lists them.
enum ExitStatus: Int32, Sendable {
    case ok = 0
    case failure = 1
    case usage = 2
    case peerNotFound = 3
    case declined = 4
    case notTrusted = 5
    case partly = 6
    case noSpace = 7
    case damaged = 8
    case timedOut = 9
    case peerGone = 10
    case incompatible = 11
    case interrupted = 130
}

/// Why a command did not do what it was asked to: a sentence for the person and a code for the script.
struct CommandFailure: Error, Sendable {
    var status: ExitStatus
    var message: String

    init(_ status: ExitStatus, _ message: String) {
        self.status = status
        self.message = message
    }

    /// What any of the layers below has thrown.
    init(_ error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as NodeError:
            let status: ExitStatus =
                switch error {
                case .unreachable: .peerNotFound
                case .timedOut: .timedOut
                case .incompatible: .incompatible
                case .identityMismatch, .blocked: .notTrusted
                case .refused: .declined
                case .connectionLost: .peerGone
                case .unavailable: .failure
                }
            self.init(status, error.description)
        case let error as PeerLookupError: self.init(.peerNotFound, error.description)
        case let error as StorageError:
            self.init(error.code == .noSpace || error.code == .overLimit ? .noSpace : .failure, error.description)
        case let error as AudioError:
            let status: ExitStatus =
                switch error.code {
                case .noSpace, .overLimit: .noSpace
                case .damaged: .damaged
                case .unavailable, .deviceGone, .failed: .failure
                }
            self.init(status, error.description)
        case let error as ControlFailure:
            let status: ExitStatus =
                switch error.kind {
                case .peerNotFound: .peerNotFound
                case .refused: .usage
                case .tooLarge: .noSpace
                case .blocked: .notTrusted
                case .storage, .unavailable, .gone: .failure
                }
            self.init(status, error.description)
        case is SignalHandling.Interrupted: self.init(.interrupted, "")
        case is CancellationError: self.init(.interrupted, "interrupted")
        default: self.init(.failure, "\(error)")
        }
    }
}

extension TransferOutcome {
    var status: ExitStatus {
        switch self {
        case .completed: .ok
        case .declined(.noSpace), .declined(.tooLarge): .noSpace
        case .declined(.identityChanged): .notTrusted
        case .declined: .declined
        case .expired: .timedOut
        case .cancelled(by: .here): .interrupted
        case .cancelled(by: .there): .declined
        case .failed(.noSpace, _): .noSpace
        case .failed(.sourceChanged, _): .damaged
        case .failed: .failure
        case .interrupted: .peerGone
        }
    }

    /// One word for scripts.
    var word: String {
        switch self {
        case .completed: "completed"
        case .declined: "declined"
        case .expired: "expired"
        case .cancelled: "cancelled"
        case .failed: "failed"
        case .interrupted: "interrupted"
        }
    }

    /// A sentence about the other side, which goes by `name`.
    func sentence(_ name: String) -> String {
        switch self {
        case .completed: "done"
        case .declined(.declined): "\(name) declined"
        case .declined(.expired), .expired: "\(name) did not answer in time; ask them to look at their screen, and send again"
        case .declined(.notAllowed): "\(name) takes things from friends only; ask to be befriended there"
        case .declined(.takesNothing): "\(name) takes nothing from anybody at the moment"
        case .declined(.tooLarge): "\(name) does not take that much; see --max-size and --max-per-peer there"
        case .declined(.noSpace): "\(name) has not enough room on the disk"
        case .declined(.busy): "\(name) has been asked too often or is busy; try again in a minute"
        case .declined(.identityChanged):
            "\(name) knows your name with another key; compare the short code (`nearshare peers verify`)"
        case .cancelled(by: .here): "cancelled; the same send goes on where it stopped"
        case .cancelled(by: .there): "\(name) cancelled it"
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
