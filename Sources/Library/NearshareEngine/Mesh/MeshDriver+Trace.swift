internal import NearshareBase
internal import NearshareMesh

extension MeshDriver {
    /// The latest decisions about packets and bundles, the oldest first.
    /// - Parameter prefix: the beginning of the ids; empty for all.
    func trace(_ prefix: String, limit: Int) -> [TraceEntry] {
        let packets = read { $0.trace.ordered }.map { entry in
            TraceEntry(
                time: entry.time, id: Hex.encode(entry.id.bytes), subject: .packet(type: entry.type.rawValue),
                sender: entry.sender, decision: .init(rawValue: entry.decision.description))
        }
        let wanted = (packets + (bundles.withLock { $0 }?.trace.all ?? [])).filter { $0.id.hasPrefix(prefix.lowercased()) }
        // Stable: entries of one moment keep their order.
        return wanted.enumerated().sorted { ($0.element.time, $0.offset) < ($1.element.time, $1.offset) }.map(\.element)
            .suffix(limit)
    }
}
