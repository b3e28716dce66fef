internal import Logging
internal import NearshareBase
internal import NearshareDirect
internal import NearshareInterfaces

// The addresses of this machine, for sessions and for the links that use them.
extension Node {
    /// The addresses of this machine's interfaces; none without a monitor.
    var interfaceAddresses: [String] {
        state.withLock { $0.networkMonitor }?.addresses(of: settings.interface) ?? []
    }

    /// Whether no interface that the node uses has an address for peers at present.
    package var hasNoNetwork: Bool {
        guard let monitor = settings.openNetworkMonitor() else { return false }
        defer { monitor.close() }
        return monitor.addresses(of: settings.interface).isEmpty
    }

    /// The interfaces of this machine that have link-local IPv6 addresses.
    var linkLocalZones: [String] {
        let zones = interfaceAddresses.compactMap { address in
            address.split(separator: "%", maxSplits: 1).dropFirst().first.map(String.init)
        }
        return Set(zones).sorted()
    }

    /// Follows changes of this machine's network, from the first session or link to another machine until the node shuts down.
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
                    endStrandedLinks(monitor)
                }
            }
            start { await thread.join() }
        } catch {
            // Then new networks are used when the back-off of connection attempts has passed.
            settings.log.info("changes of the network go unnoticed: \(error)")
        }
    }

    /// Ends links whose local address this machine has lost, unless it is soon back: nothing that the peer sends arrives any
    /// more. Without this, the loss is noticed when the link has been silent for the keepalive's time.
    private func endStrandedLinks(_ monitor: any NetworkMonitor) {
        let stranded = { @Sendable [self] in
            state.withLock { $0.links.running }.filter { link in
                link.localNetworkHost.map { !monitor.hasAddress($0) } ?? false
            }
        }
        guard !stranded().isEmpty else { return }
        start { [stopping] in
            guard await !stopping.isFulfilled(within: Self.strandedLinkGrace) else { return }
            for link in stranded() { link.cut() }
        }
    }

    /// Time in which an address may return, as at the renewal of a lease.
    private static let strandedLinkGrace = Duration.seconds(2)
}
