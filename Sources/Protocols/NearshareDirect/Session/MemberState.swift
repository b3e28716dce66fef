public import NearshareBase

/// The connectivity of a session's member, as this member sees it.
public enum MemberState: Sendable, Hashable {
    /// Unreachable. Connection attempts continue until the session's timeout.
    case notConnected
    /// A connection attempt is in progress.
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
