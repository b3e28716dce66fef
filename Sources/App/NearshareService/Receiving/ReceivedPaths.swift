internal import Nearshare
internal import Synchronization

/// The paths of the items that each peer has sent earlier: about others' it must not learn anything (X5). The history is read when it
/// has changed, not for each offer (R11).
final class ReceivedPaths: Sendable {
    private struct State {
        var version: FileVersion?
        var paths: [Fingerprint: Set<String>] = [:]
    }

    private let history: ReceiveHistory
    private let state = Mutex(State())

    init(in directory: StateDirectory) { history = ReceiveHistory(in: directory) }

    func contains(_ path: String, from peer: Fingerprint) -> Bool {
        state.withLock { state in
            let version = history.version
            if version == nil || version != state.version {
                var paths: [Fingerprint: Set<String>] = [:]
                for entry in (try? history.entries()) ?? [] where entry.isMerged == false {
                    paths[entry.peer, default: []].insert(entry.path)
                }
                state = State(version: version, paths: paths)
            }
            return state.paths[peer]?.contains(path) ?? false
        }
    }
}
