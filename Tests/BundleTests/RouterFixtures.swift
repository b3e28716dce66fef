import NearshareBase
import NearshareCrypto
import NearshareTesting

@testable import NearshareBundles

/// Values for tests of the router's parts.
enum RouterFixtures {
    static let local = EndpointID(rawValue: 100 << 40)

    static func endpoint(_ number: UInt64) -> EndpointID { EndpointID(rawValue: number << 40) }

    static func moment(_ seconds: Double) -> Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: 1_000_000_000) + .milliseconds(Int(seconds * 1_000)),
            wall: WallTime(milliseconds: 1_800_000_000_000 + Int64(seconds * 1_000)))
    }

    /// A bundle that is stored, of a source with its own number.
    /// - Parameter host: nil for that of the previous node, of which nothing else is known.
    static func stored(
        _ number: UInt8, from source: UInt8 = 1, to destination: Bundle.Destination, previousNode: EndpointID? = nil,
        host: BundleHost? = nil, created: Double = 0, bodyByteCount: Int = 100, profile: PropagationProfile = .standard,
        visitedTags: [UInt32] = [], hopCount: Int = 1
    ) -> StoredBundle {
        let bundle = Bundle(
            kind: .clear, destination: destination, profile: profile, creationTime: moment(created).wall,
            senderKey: [UInt8](repeating: source, count: 32), hashLock: nil,
            body: [number] + [UInt8](repeating: 0, count: bodyByteCount - 1))
        let copy = BundleCopy(
            hopCount: previousNode == nil ? 0 : hopCount, forwarding: .routed, visitedTags: visitedTags, bundle: bundle,
            signature: [UInt8](repeating: 0, count: 64))
        return StoredBundle(
            id: bundle.id, copy: copy, previousNode: previousNode,
            host: host ?? previousNode.map { BundleHost($0) } ?? .unknown)
    }
}

extension [RouterEffect] {
    /// Neighbours to which copies are sent, in order.
    var forwardedTo: [EndpointID] {
        compactMap { if case .react(.forward(_, to: let neighbour, _, _, _)) = $0 { neighbour } else { nil } }
    }

    /// Bundles of which copies are sent, in order.
    var forwardedIDs: [BundleID] {
        compactMap { if case .react(.forward(let id, to: _, _, _, _)) = $0 { id } else { nil } }
    }

    /// Modes of the copies that are sent, in order.
    var modes: [BundleCopy.ForwardingMode] {
        compactMap { if case .react(.forward(_, _, _, let mode, _)) = $0 { mode } else { nil } }
    }

    var timers: [RouterTimer] { compactMap { if case .start(let timer, _) = $0 { timer } else { nil } } }

    var events: [BundleEvent] { compactMap { if case .react(.emit(let event)) = $0 { event } else { nil } } }

    var packets: [BundlePacket] { compactMap { if case .react(.send(let packet, _)) = $0 { packet } else { nil } } }
}
