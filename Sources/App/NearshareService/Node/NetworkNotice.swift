package import Nearshare

/// Reports that this machine has no network, and when it has one again.
package struct NetworkNotice: Sendable {
    package enum State: Sendable, Hashable {
        case absent, available

        package var text: String {
            switch self {
            case .absent:
                "no network: no interface of this machine is up with an address, so that peers do not see each other there; "
                    + "`nearshare doctor` says more"
            case .available: "the network is available"
            }
        }
    }

    private let monitor: any NetworkMonitor
    private let interface: String?
    private let report: @Sendable (State) -> Void

    /// - Parameter interface: the only one that is used; nil for all.
    init(_ monitor: any NetworkMonitor, interface: String?, _ report: @escaping @Sendable (State) -> Void) {
        (self.monitor, self.interface, self.report) = (monitor, interface, report)
    }

    /// - Returns: nil for a node that does not use the network, or one that is bound to loopback.
    package init?(_ settings: NodeSettings, _ report: @escaping @Sendable (State) -> Void) {
        guard settings.discovery != nil, settings.interface != "lo", let monitor = settings.networkMonitor?() else {
            return nil
        }
        self.init(monitor, interface: settings.interface, report)
    }

    /// Reports the absence of a network, and each change after it, until the task is cancelled.
    package func run() async {
        await withTaskCancellationHandler {
            // Without a thread only the lines are missing.
            let thread = try? BlockingThread.start { follow() }
            await thread?.join()
        } onCancel: {
            monitor.close()
        }
    }

    private func follow() {
        var last = State.available
        repeat {
            let state: State = monitor.addresses(of: interface).isEmpty ? .absent : .available
            if state != last { report(state) }
            last = state
        } while monitor.waitForChange()
    }
}

/// Runs `body`, and reports meanwhile that this machine has no network.
/// - Parameter report: nil for no reports.
package func withNetworkNotice<Result: Sendable>(
    _ settings: NodeSettings, report: (@Sendable (NetworkNotice.State) -> Void)?, _ body: () async throws -> Result
) async throws -> Result {
    guard let report, let notice = NetworkNotice(settings, report) else { return try await body() }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        defer { group.cancelAll() }
        group.addTask { await notice.run() }
        return try await body()
    }
}
