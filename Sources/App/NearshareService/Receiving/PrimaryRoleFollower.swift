package import Nearshare

/// Serves the user's other commands while a `receive` is the primary node, and after that follows the process that is the primary
/// node. When that process ends without a successor, this one may claim its role.
package struct PrimaryRoleFollower: Sendable {
    private let machine: LocalMachine
    private let node: Node
    private let listener: Listener
    private let controller: ReceiveController
    private let reporter: any Reporter
    private let settings: Settings
    /// The role that this process has claimed; nil while it has claimed none.
    private let claimedRole = Monitor<PrimaryRole?>(nil)

    /// The properties of the command.
    package struct Settings: Sendable {
        /// Whether the user has chosen the port for this command, which keeps it then.
        package var isPortFixed: Bool
        /// Whether it is advertised apart from the node: by another name, or on one interface.
        package var hasOwnAdvertisement: Bool
        /// Whether it claims the role of a node that has ended. The node then shuts down, to start again with the role.
        package var claimsRole: Bool

        package init(isPortFixed: Bool, hasOwnAdvertisement: Bool, claimsRole: Bool) {
            self.isPortFixed = isPortFixed
            self.hasOwnAdvertisement = hasOwnAdvertisement
            self.claimsRole = claimsRole
        }
    }

    /// - Parameter controller: has to be idle before the role is claimed.
    package init(
        machine: LocalMachine, node: Node, listener: Listener, controller: ReceiveController, reporter: any Reporter,
        settings: Settings
    ) {
        self.machine = machine
        self.node = node
        self.listener = listener
        self.controller = controller
        self.reporter = reporter
        self.settings = settings
    }

    /// The role with which the next node goes on; nil where none was claimed.
    package var successor: PrimaryRole? { claimedRole.withLock { $0 } }

    /// Runs until the task is cancelled, or the node with the role shuts down.
    /// - Parameters:
    ///   - role: nil where another process has it from the start.
    ///   - service: that of the role.
    ///   - report: receives the first state of the port and each change.
    /// - Throws: the errors of a port that cannot be opened.
    package func run(
        as role: PrimaryRole?, _ service: NodeService?, _ report: @Sendable (ReceiverPort.State) -> Void
    ) async throws {
        if let role, let service {
            guard await serve(role, service) else { return }
        }
        let port = ReceiverPort(
            machine, node, listener, isFixed: settings.isPortFixed, hasOwnAdvertisement: settings.hasOwnAdvertisement)
        try await port.run(
            awaitsNode: role != nil,
            onNodeLoss: {
                guard settings.claimsRole else { return reporter.report(.warning(Self.nodeLoss)) }
                controller.whenIdle { claimRole() }
            }, report)
    }

    /// - Returns: whether another process has taken the role over.
    private func serve(_ role: PrimaryRole, _ service: NodeService) async -> Bool {
        do {
            return try await role.run(service, on: node, listener, closesPort: !settings.isPortFixed)
        } catch {
            reporter.report(.warning("other commands cannot use this node: \(error)"))
            return false
        }
    }

    private func claimRole() {
        do {
            guard let role = try PrimaryRole.claimIfFree(on: machine) else { return }
            claimedRole.withLock { $0 = role }
            reporter.report(.notice(Self.receivesMessages))
            node.beginShutdown()
        } catch {
            reporter.report(.warning("\(Self.nodeLoss): \(error)"))
        }
    }

    private static let receivesMessages =
        "no other node of this user runs any more: messages, and what peers send over Bluetooth and the mesh, arrive here now"

    /// Reported where this process does not take the place of the one that has received messages.
    private static let nodeLoss =
        "messages are not received, nor what peers send over Bluetooth and the mesh: no node of this user runs any more; "
        + "`nearshare mesh run` starts one, as does this command when it is started again"
}
