internal import ArgumentParser
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Runs a ``NotificationOperation``.
struct NotifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notify", abstract: "Show offers, arrivals and messages as notifications of the desktop.",
        discussion: """
            It asks for the node that runs on this machine, whichever command runs it, until Ctrl-C. The systemd unit of the node \
            starts it as well.
            """)

    @OptionGroup var global: GlobalOptions

    func run() async throws {
        try await runCommand {
            let machine = try LocalMachine()
            guard machine.configuration.notifications else {
                return Console.notice("notifications are turned off in the configuration")
            }
            guard let lock = try machine.state.acquireNotificationLock() else {
                let process = try machine.state.notificationProcessID() ?? 0
                let holder = process > 0 ? "process \(process)" : "another process"
                throw CommandFailure(
                    .failure,
                    "notifications are shown already, by \(holder): a second one would show each of them twice; "
                        + "`systemctl --user stop nearshare-notify` ends the one that the systemd unit has started")
            }
            defer { withExtendedLifetime(lock) {} }
            // Until a node starts, the operation watches this directory.
            _ = try machine.makeControlSocketDirectory()
            let operation = NotificationOperation(machine: machine, log: global.logger)
            try await SignalHandling.run(onSignal: { operation.stop() }) {
                try await operation.run {
                    Console.notice("showing offers, arrivals and messages as notifications; Ctrl-C ends this")
                }
            }
        }
    }
}
