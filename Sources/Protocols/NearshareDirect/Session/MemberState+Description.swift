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
