/// The devices that are remembered, by their object paths: in a crowd not all, but those that are near, and all that something is
/// going on with.
struct DeviceTable {
    /// bitchat's own bound is smaller; this is what one radio hears in a full hall.
    static let capacity = 256

    private(set) var all: [String: Neighbour] = [:]

    subscript(path: String) -> Neighbour? {
        get { all[path] }
        set { all[path] = newValue }
    }

    var values: Dictionary<String, Neighbour>.Values { all.values }
    var paths: [String] { Array(all.keys) }

    /// What has to be forgotten before one that is heard so strongly can be remembered: nothing, or somebody who is worth less.
    /// - Returns: nil where it is not worth that.
    func room(forStrength strength: Int) -> Room? {
        guard all.count >= Self.capacity else { return .free }
        let idle = all.values.filter { $0.phase.isIdle && !$0.isConnected }
        guard let least = idle.min(by: { $0.worth < $1.worth }), least.worth < (0, strength) else { return nil }
        return .taken(by: least.path)
    }

    enum Room: Equatable {
        case free
        case taken(by: String)
    }
}

extension Neighbour {
    /// Who failed most, then who is weakest, is worth least.
    fileprivate var worth: (Int, Int) { (-failures, strength) }
}
