internal import Glibc
internal import NearshareBase

/// The progress of a connection to a remote device in the central role.
///
///     idle → connecting → resolvingServices → listingServices → readingRecord → ready
///     ready → acquiringNotifications → acquiringWrites → linked
///     every state → idle on failure, with a delay before the next attempt (``RetryBackoff``)
enum ConnectionState {
    case idle
    /// `Device1.Connect` is under way; the device may have been connected before, by another program or by itself.
    case connecting(ConnectionAttempt, wasConnected: Bool)
    /// Connected; BlueZ discovers the device's GATT services.
    case resolvingServices(ConnectionAttempt)
    /// The services are resolved; their objects are being requested.
    case listingServices(ConnectionAttempt)
    /// The ``ServiceRecord`` is being read.
    case readingRecord(ConnectionAttempt)
    /// Connected, with known services and no frame link.
    case ready
    /// `AcquireNotify` is under way.
    case acquiringNotifications(ConnectionAttempt)
    /// `AcquireWrite` is under way.
    case acquiringWrites(ConnectionAttempt, notifications: OwnedDescriptor)
    /// A ``GATTClientLink`` carries frames.
    case linked(attempt: Int, since: MonotonicInstant)

    /// The attempt that is under way; nil in the states that wait for nothing.
    var attempt: ConnectionAttempt? {
        switch self {
        case .connecting(let attempt, _), .resolvingServices(let attempt), .listingServices(let attempt),
            .readingRecord(let attempt), .acquiringNotifications(let attempt), .acquiringWrites(let attempt, _):
            attempt
        case .idle, .ready, .linked: nil
        }
    }

    var deadline: MonotonicInstant? { attempt?.deadline }
    var isInProgress: Bool { attempt != nil }
    var isIdle: Bool { if case .idle = self { true } else { false } }
    var isReady: Bool { if case .ready = self { true } else { false } }
    var isLinked: Bool { if case .linked = self { true } else { false } }
}

/// One try to reach a state that needs replies of BlueZ. Replies to an earlier attempt are recognised by their number.
struct ConnectionAttempt: Equatable {
    let number: Int
    let deadline: MonotonicInstant

    func with(deadline: MonotonicInstant) -> ConnectionAttempt { ConnectionAttempt(number: number, deadline: deadline) }
}

/// A descriptor that came over the bus; closed unless a link takes it over.
final class OwnedDescriptor {
    private var descriptor: Int32?

    init(_ descriptor: Int32) {
        self.descriptor = descriptor
    }

    /// Hands the descriptor over to the caller, once.
    func release() -> Int32? {
        defer { descriptor = nil }
        return descriptor
    }

    deinit {
        if let descriptor { close(descriptor) }
    }
}
