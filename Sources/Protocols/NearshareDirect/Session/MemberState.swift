public import NearshareBase

/// The connectivity of a session's member, as this member sees it.
public enum MemberState: Sendable, Hashable {
    /// Not reached so far, and no connection attempt has begun. After the member has joined, its user may be about to decide.
    case notConnected
    /// Out of reach: attempts to connect continue until one succeeds, or the session's timeout has passed. A member that another one
    /// has announced may be in this state while its user decides.
    case connecting
    /// Connected by a direct link, or through a relay.
    case connected(via: PeerID?)

    /// Whether messages reach the member: over a link, or through a relay that announces it.
    public var isConnected: Bool { if case .connected = self { true } else { false } }
}

extension MemberState: CustomStringConvertible {
    public var description: String {
        switch self {
        case .notConnected: "not connected"
        case .connecting: "connecting"
        case .connected(via: nil): "connected"
        case .connected(via: let relay?): "connected through \(relay.hex)"
        }
    }
}
