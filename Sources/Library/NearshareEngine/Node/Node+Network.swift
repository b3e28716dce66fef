internal import Logging
internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

// The addresses of this machine, for sessions.
extension Node {
    /// The addresses of this machine's interfaces; none without a monitor.
    var interfaceAddresses: [String] {
        state.withLock { $0.networkMonitor }?.addresses(of: settings.interface) ?? []
    }

    /// The interfaces of this machine that have link-local IPv6 addresses.
    var linkLocalZones: [String] {
        let zones = interfaceAddresses.compactMap { address in
            address.split(separator: "%", maxSplits: 1).dropFirst().first.map(String.init)
        }
        return Set(zones).sorted()
    }

    /// Tells sessions about changes of this machine's network, from the first session until the node shuts down.
    func startNetworkMonitor() {
        guard state.withLock({ $0.networkMonitor == nil && !$0.isShuttingDown }), let monitor = settings.networkMonitor?()
        else { return }
        let isKept = state.withLock { state in
            guard state.networkMonitor == nil, !state.isShuttingDown else { return false }
            state.networkMonitor = monitor
            return true
        }
        guard isKept else { return monitor.close() }
        do throws(ThreadError) {
            let thread = try BlockingThread.start { [self] in
                while monitor.waitForChange() {
                    let hosts = monitor.addresses(of: settings.interface)
                    for session in state.withLock({ Array($0.sessions.values) }) { session.networkChanged(hosts) }
                }
            }
            start { await thread.join() }
        } catch {
            // Then new networks are used when the back-off of connection attempts has passed.
            settings.log.info("changes of the network go unnoticed: \(error)")
        }
    }
}
