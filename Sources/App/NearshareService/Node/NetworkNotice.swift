internal import Glibc
package import Nearshare

/// Reports that this machine has no network, and when it has one again.
package struct NetworkNotice: Sendable {
    package enum State: Sendable, Hashable {
        case absent, available

        package var text: String {
            switch self {
            case .absent: "\(NetworkNotice.absence); \(NetworkNotice.advice); `nearshare doctor` says more"
            case .available: "the network is available"
            }
        }
    }

    /// The failure of a search that has found no peer, on a machine without a network.
    struct SearchFailure: Error, CustomStringConvertible {
        /// The name of the peer, as the user typed it.
        let text: String

        var description: String { NetworkNotice.notFound(text) }
    }

    private static let absence = "no network: no interface of this machine is up with an address"
    private static let advice =
        "join a Wi-Fi network or plug in a cable; until then, peers can be reached over Bluetooth at most"

    /// The sentence about a search that has found no peer.
    /// - Parameter name: as the user typed it.
    static func notFound(_ name: String) -> String {
        "\(TerminalText.escaped(name)) was not found: this machine has no network; \(advice)"
    }

    /// The kernel counts an interface as running up to a second after its carrier is there.
    private static let carrierDelay = Duration.milliseconds(1_500)

    private let monitor: any NetworkMonitor
    private let interface: String?
    private let known: State
    private let report: @Sendable (State) -> Void

    /// - Parameters:
    ///   - interface: the only one that is used; nil for all.
    ///   - known: the state that needs no report.
    init(
        _ monitor: any NetworkMonitor, interface: String?, known: State = .available,
        _ report: @escaping @Sendable (State) -> Void
    ) {
        (self.monitor, self.interface, self.known, self.report) = (monitor, interface, known, report)
    }

    /// The notice of a command that uses the node of this user, in this process or in another one.
    /// - Parameters:
    ///   - interface: the only one that the command uses; nil for the configured one, or all.
    ///   - known: the state that needs no report.
    /// - Returns: nil for loopback, and for an interface that does not exist, which the command itself names.
    package init?(
        on machine: LocalMachine, interface: String?, known: State = .available,
        _ report: @escaping @Sendable (State) -> Void
    ) {
        let interface = interface ?? machine.configuration.interface
        guard interface != "lo", interface.map({ if_nametoindex($0) != 0 }) ?? true,
            let monitor = LocalMachine.openNetworkMonitor()
        else { return nil }
        self.init(monitor, interface: interface, known: known, report)
    }

    /// - Returns: nil for a node that does not use the network, or one that is bound to loopback.
    package init?(_ settings: NodeSettings, _ report: @escaping @Sendable (State) -> Void) {
        guard let monitor = settings.openNetworkMonitor() else { return nil }
        self.init(monitor, interface: settings.interface, report)
    }

    /// Whether a node has no network at the moment.
    package static func isAbsent(_ settings: NodeSettings) -> Bool {
        guard let notice = NetworkNotice(settings, { _ in }) else { return false }
        defer { notice.monitor.close() }
        return notice.state == .absent
    }

    /// Reports the absence of a network, and each change after it, until the task is cancelled.
    package func run() async {
        await withTaskCancellationHandler {
            guard (try? await Task.sleep(for: Self.carrierDelay)) != nil else {
                // The command has ended before the network settled: reported now.
                if known == .available, state == .absent { report(.absent) }
                return
            }
            // Where no thread starts, only the notices are missing.
            let thread = try? BlockingThread.start { follow() }
            await thread?.join()
        } onCancel: {
            monitor.close()
        }
    }

    private var state: State { monitor.addresses(of: interface).isEmpty ? .absent : .available }

    private func follow() {
        var last = known
        repeat {
            let state = self.state
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
    try await withNetworkNotice(report.flatMap { NetworkNotice(settings, $0) }, body)
}

/// Runs `body`, and reports meanwhile that this machine has no network.
/// - Parameter notice: nil for no reports.
package func withNetworkNotice<Result: Sendable>(
    _ notice: NetworkNotice?, _ body: () async throws -> Result
) async throws -> Result {
    guard let notice else { return try await body() }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        defer { group.cancelAll() }
        group.addTask { await notice.run() }
        return try await body()
    }
}
