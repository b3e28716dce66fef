public import NearshareBase

/// The connectivity of a session's member, as this member sees it.
public enum MemberState: Sendable, Hashable {
    /// Unreachable. Connection attempts continue until ``SessionRoster/Limits/timeout``.
    case notConnected
    /// A connection attempt is in progress.
    case connecting
    /// Connected by a direct link, or through a relay.
    case connected(via: PeerID?)

    /// Whether there is a link to the member, direct or relayed.
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
