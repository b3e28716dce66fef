internal import NearshareBase
internal import NearshareBundles

/// A decision of this node about a bundle, for diagnosis.
enum BundleDecision: Sendable, Hashable {
    /// - Parameter previousNode: nil for a bundle of this node.
    case stored(previousNode: EndpointID?, hopCount: Int)
    case deleted
    /// The bundle was delivered to this node.
    case delivered
    /// The content is malformed; for diagnosis only, because any key can sign such a bundle.
    case unreadable(MalformedInput)
    case forwarded(to: EndpointID, hopCount: Int, BundleCopy.ForwardingMode)
}

extension BundleDecision: CustomStringConvertible {
    var description: String {
        switch self {
        case .stored(let previousNode, let hopCount): "stored, from \(previousNode?.hex ?? "here"), hop \(hopCount)"
        case .deleted: "deleted"
        case .delivered: "delivered here"
        case .unreadable(let error): "not readable: \(error)"
        case .forwarded(let neighbour, let hopCount, let mode): "forwarded to \(neighbour) as hop \(hopCount), \(mode)"
        }
    }
}
