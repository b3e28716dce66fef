internal import NearshareBase
internal import NearshareDirect

/// The name of a relay stream: its receiver on the way to the relay, its sender on the way from it.
enum RelayName {
    case to(PeerID)
    case from(PeerID)

    init?(_ name: StreamName) {
        let parts = name.text.split(separator: " ")
        guard parts.count == 2, let id = PeerID(hex: String(parts[1])) else { return nil }
        switch parts[0] {
        case "to": self = .to(id)
        case "from": self = .from(id)
        default: return nil
        }
    }

    var streamName: StreamName {
        // Safe: a direction and 16 hexadecimal digits are within the limit.
        switch self {
        case .to(let id): StreamName("to \(id.hex)")!  // Safe: see above.
        case .from(let id): StreamName("from \(id.hex)")!  // Safe: see above.
        }
    }
}
