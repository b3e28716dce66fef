package import NearshareBase
internal import NearshareBundles
internal import NearshareMesh
internal import Synchronization

/// One decision of a node about a packet or a bundle.
package struct TraceEntry: Sendable, Hashable, Codable {
    package var time: WallTime
    /// In hexadecimal digits.
    package var id: String
    /// The type of the packet in hexadecimal digits, or "bundle".
    package var kind: String
    /// The sender of a packet; nil for a bundle, whose previous node is named in the decision.
    package var sender: PeerID?
    package var decision: String

    package init(time: WallTime, id: String, kind: String, sender: PeerID?, decision: String) {
        self.time = time
        self.id = id
        self.kind = kind
        self.sender = sender
        self.decision = decision
    }
}

/// The latest decisions about bundles. The oldest give way.
final class BundleTrace: Sendable {
    private let entries = Mutex<[TraceEntry]>([])
    private let wallClock: @Sendable () -> WallTime

    private static let capacity = 1_024

    init(wallClock: @escaping @Sendable () -> WallTime) {
        self.wallClock = wallClock
    }

    func record(_ id: BundleID, _ decision: String) {
        let entry = TraceEntry(time: wallClock(), id: id.hex, kind: "bundle", sender: nil, decision: decision)
        entries.withLock { entries in
            // In blocks, so that not every entry moves all others.
            if entries.count >= 2 * Self.capacity { entries.removeFirst(Self.capacity) }
            entries.append(entry)
        }
    }

    var all: [TraceEntry] { entries.withLock { Array($0.suffix(Self.capacity)) } }
}

extension MeshDriver {
    /// The latest decisions about packets and bundles, the oldest first.
    /// - Parameter prefix: the beginning of the ids; empty for all.
    func trace(_ prefix: String, limit: Int) -> [TraceEntry] {
        let packets = read { $0.trace.ordered }.map { entry in
            TraceEntry(
                time: entry.time, id: Hex.encode(entry.id.bytes), kind: Hex.encode([entry.type.rawValue]), sender: entry.sender,
                decision: entry.decision.description)
        }
        let wanted = (packets + bundleTrace.all).filter { $0.id.hasPrefix(prefix.lowercased()) }
        // Stable: entries of one moment keep their order.
        return wanted.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
            .suffix(limit)
    }
}
