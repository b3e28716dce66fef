package import Nearshare
internal import NearshareDiscovery

/// The hosts that a search for LocalSend devices asks one by one.
package enum ScanHosts {
    /// - Parameter interface: the only interface to use; nil for all that are up and lead to others.
    package static func all(on interface: String?) -> [IPAddress] {
        let usable = NetworkInterface.all().filter {
            $0.isUp && $0.isRunning && !$0.isLoopback && (interface == nil || $0.name == interface)
        }
        return ScanRange.hosts(around: usable.flatMap(\.addresses))
    }
}
