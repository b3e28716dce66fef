/// The steps of `nearshare setup` that run programs of the system, which have the terminal meanwhile. Each blocks until they have
/// ended.
package struct MachineSetup: Sendable {
    /// The state of `nearshare.service`, by which systemd runs a node while the user is logged in.
    package enum ServiceState: Sendable, Hashable {
        /// There is no such service, or no systemd.
        case missing
        case stopped
        case running
    }

    private static let service = "nearshare.service"

    private let runsSuccessfully: @Sendable (_ words: [String], _ isQuiet: Bool) -> Bool

    /// - Parameter runsSuccessfully: runs a program, see ``ChildProgram/runInTerminal(_:isQuiet:)``.
    package init(
        runsSuccessfully: @escaping @Sendable (_ words: [String], _ isQuiet: Bool) -> Bool = { words, isQuiet in
            ChildProgram.runInTerminal(words, isQuiet: isQuiet)
        }
    ) {
        self.runsSuccessfully = runsSuccessfully
    }

    package func serviceState() -> ServiceState {
        guard runsSuccessfully(["systemctl", "--user", "cat", Self.service], true) else { return .missing }
        return runsSuccessfully(["systemctl", "--user", "is-active", Self.service], true) ? .running : .stopped
    }

    /// Starts the service, now and whenever the user logs in.
    /// - Returns: whether the node has started.
    package func enableService() -> Bool {
        runsSuccessfully(["systemctl", "--user", "enable", "--now", Self.service], false)
    }

    /// Opens the firewall.
    /// - Parameter commands: of the firewall in use.
    /// - Returns: the command that failed, after which no other one runs; nil for success.
    package func openFirewall(with commands: [[String]]) -> [String]? {
        commands.first { !runsSuccessfully($0, false) }
    }
}
