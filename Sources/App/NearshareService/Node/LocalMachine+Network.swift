package import Nearshare
internal import NearshareDiscovery

extension LocalMachine {
    /// Whether an interface leads to other machines.
    /// - Parameter name: the only interface to use; nil for all.
    package static func hasNetwork(on name: String?) -> Bool {
        NetworkInterface.all().contains { $0.leadsToOthers && (name == nil || $0.name == name) }
    }
}
