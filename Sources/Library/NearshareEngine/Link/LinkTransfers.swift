internal import NearshareBase
internal import Synchronization

/// The transfers of one link, each with a thread of its own for its file.
final class LinkTransfers: Sendable {
    private struct State {
        var sources: [TransferID: SourcePump] = [:]
        var sinks: [TransferID: SinkPump] = [:]
    }

    private let state = Mutex(State())

    func insert(_ source: SourcePump) { state.withLock { $0.sources[source.wireID] = source } }
    func insert(_ sink: SinkPump) { state.withLock { $0.sinks[sink.wireID] = sink } }

    func source(_ id: TransferID) -> SourcePump? { state.withLock { $0.sources[id] } }
    func sink(_ id: TransferID) -> SinkPump? { state.withLock { $0.sinks[id] } }
    /// The pump of a transfer; nil also where others are received at the same time.
    func onlySink(_ id: TransferID) -> SinkPump? { state.withLock { $0.sinks.count == 1 ? $0.sinks[id] : nil } }

    func removeSource(_ id: TransferID) -> SourcePump? { state.withLock { $0.sources.removeValue(forKey: id) } }
    func removeSink(_ id: TransferID) -> SinkPump? { state.withLock { $0.sinks.removeValue(forKey: id) } }
}
