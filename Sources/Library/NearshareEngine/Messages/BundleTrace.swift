internal import NearshareBase
internal import NearshareBundles
internal import Synchronization

/// The latest decisions about bundles. The oldest give way.
final class BundleTrace: Sendable {
    private let entries = Mutex<[TraceEntry]>([])
    private let wallClock: @Sendable () -> WallTime

    private static let capacity = 1_024

    init(wallClock: @escaping @Sendable () -> WallTime) {
        self.wallClock = wallClock
    }

    func record(_ id: BundleID, _ decision: BundleDecision) {
        let entry = TraceEntry(
            time: wallClock(), id: id.hex, subject: .bundle, sender: nil, decision: .init(rawValue: decision.description))
        entries.withLock { entries in
            // In blocks, so that not every entry moves all others.
            if entries.count >= 2 * Self.capacity { entries.removeFirst(Self.capacity) }
            entries.append(entry)
        }
    }

    var all: [TraceEntry] { entries.withLock { Array($0.suffix(Self.capacity)) } }
}
