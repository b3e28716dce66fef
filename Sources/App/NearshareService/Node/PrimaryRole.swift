package import Nearshare
internal import NearshareBundles
internal import Synchronization

/// The part of a node that only one process of a user runs at a time: the participation in the mesh, the messages and the
/// control socket.
package final class PrimaryRole: Sendable {
    private let machine: LocalMachine
    private let stores: NodeStores
    private let server: ControlServer
    /// nil once released.
    private let lock: Mutex<ProcessLock?>
    private let events = Broadcast<ControlEvent>()

    /// Time in which another command that runs a node ends, or begins to listen.
    private static let claimTimeout = Duration.seconds(2)
    /// Time in which a process that hands the role over replies to its requests, leaves the mesh, and releases the lock.
    private static let handOverTimeout = Duration.seconds(5)

    private init(_ machine: LocalMachine, _ lock: ProcessLock) throws {
        self.machine = machine
        self.lock = Mutex(lock)
        stores = try NodeStores(directory: machine.state.path)
        server = try ControlServer(path: try machine.makeControlSocketDirectory())
    }

    deinit { release() }

    /// Releases the lock, and wakes a process that waits for it.
    private func release() {
        let isHeld = lock.withLock { lock in
            defer { lock = nil }
            return lock != nil
        }
        if isHeld { DirectoryWatch.touch(machine.directories.runtime) }
    }

    /// - Returns: nil when another process has the role.
    package static func claimIfFree(on machine: LocalMachine) throws -> PrimaryRole? {
        try machine.state.acquireNodeLock().map { try PrimaryRole(machine, $0) }
    }

    /// Claims the role.
    /// - Parameter takesOver: true to ask the process that has the role, such as a `receive`, to hand it over.
    /// - Throws: ``NodeRunsAlready`` when another node answers and keeps the role; `CancellationError`.
    static func claim(on machine: LocalMachine, takesOver: Bool) async throws -> PrimaryRole {
        let socketPath = try machine.makeControlSocketDirectory()
        // Created before the first attempt, so that no change is lost between the two.
        let watch = DirectoryWatch(machine.directories.runtime)
        let begin = SystemClock.monotonic()
        var end = begin + claimTimeout
        while true {
            try Task.checkCancellation()
            if let role = try claimIfFree(on: machine) { return role }
            // A command that used the last node may be faster to become the next one, and is asked as well.
            if ControlClient.hasListener(at: socketPath) {
                guard takesOver, try await requestHandOver(machine) else {
                    throw NodeRunsAlready(process: try machine.state.nodeProcessID())
                }
                end = begin + handOverTimeout
                // A process that is killed meanwhile wakes no watch.
                if let role = try claimIfFree(on: machine) { return role }
            }
            let remaining = end - SystemClock.monotonic()
            guard let watch, remaining > .zero else { break }
            try await watch.awaitChange(timeout: remaining)
        }
        let process = try machine.state.nodeProcessID().map { " (process \($0))" } ?? ""
        throw CommandFailure(
            .failure,
            "another nearshare\(process) runs this machine's node, but does not answer at \(socketPath); "
                + "stop it, or use the same XDG_RUNTIME_DIR")
    }

    /// Waits until the node to which a process has handed its role over answers, or until it has had enough time for that.
    static func awaitSuccessor(on machine: LocalMachine) async throws {
        let socketPath = try machine.makeControlSocketDirectory()
        let watch = DirectoryWatch(machine.directories.runtime)
        let end = SystemClock.monotonic() + handOverTimeout
        while !ControlClient.hasListener(at: socketPath) {
            let remaining = end - SystemClock.monotonic()
            guard let watch, remaining > .zero else { return }
            try await watch.awaitChange(timeout: remaining)
            try Task.checkCancellation()
        }
    }

    /// - Returns: false when the node refuses.
    private static func requestHandOver(_ machine: LocalMachine) async throws -> Bool {
        let isAccepted: Bool? = try await withRunningNode(of: machine) { client in
            do throws(ControlFailure) {
                return try await client.submit(.handOver) == .done
            } catch {
                // The node has just ended.
                return error.kind == .gone
            }
        }
        // No node answers: it is about to listen, or to end.
        return isAccepted ?? true
    }

    /// Starts the messenger, and returns the service that gives commands access to the node.
    /// - Parameters:
    ///   - feed: the questions and transfers that other processes can show; nil for none.
    ///   - observe: receives each event before the commands that use the node.
    package func start(
        on node: Node, _ properties: NodeService.Properties, profile: String? = nil, feed: ReceiveFeed? = nil,
        observe: @escaping @Sendable (ControlEvent) -> Void = { _ in }
    ) throws -> NodeService {
        var settings = MessengerSettings(bundles: stores.bundles, conversations: stores.conversations) { [machine] id in
            // Without the address book, messages can be sent to peers in range only.
            guard let entry = try? machine.contacts.read().entry(of: id) else { return nil }
            return ContactKeys(
                EndpointKeys(agreementKey: entry.agreementKey, signingKey: entry.signingKey), areProven: entry.areKeysProven)
        }
        settings.profile = try machine.propagationProfile(profile)
        settings.messageLifetime = machine.configuration.messageLifetime
        settings.usesBlueChat = true
        let latest = Monitor<ContactSnapshot?>(nil)
        settings.isBlocked = { [machine] sender in
            let snapshot = (try? ContactDirectory(machine).snapshot()) ?? latest.withLock(\.self)
            latest.withLock { $0 = snapshot }
            // Without the files it is not known who is blocked: no sender is let through.
            return snapshot?.isBlocked(sender) ?? true
        }
        // A text for a `receive` is offered like a file, unless a command follows the conversations.
        if properties.purpose == .receiver { settings.acceptsTexts = { [events] in events.hasSubscribers } }
        let (messenger, messengerEvents) = try node.startMessengerWithEvents(settings)
        return NodeService(
            machine: machine, node: node, messenger: messenger, messengerEvents: messengerEvents, properties: properties,
            feed: feed, events: events, observe: observe)
    }

    /// Serves other commands until the task is cancelled.
    func serve(_ node: any NodeClient) async throws(ThreadError) {
        try await server.run(node)
    }

    /// Serves other commands until the node shuts down, the role is handed over, or the task is cancelled.
    /// - Parameter closesPort: whether the process that takes the role over gets the TCP port as well.
    /// - Returns: whether the role is handed over.
    @discardableResult
    package func run(
        _ service: NodeService, on node: Node, _ listener: Listener, closesPort: Bool = false
    ) async throws -> Bool {
        let isHandedOver = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await self.serve(service) }
            group.addTask { await service.followRadio(of: listener) }
            defer { group.cancelAll() }
            async let ended: Void = service.run()
            var isRequested = false
            for await _ in service.handOverRequests {
                isRequested = true
                await service.finishRequests()
                try await node.leaveMesh(closing: listener)
                if closesPort { node.closePort(of: listener) }
            }
            await ended
            return isRequested
        }
        // Otherwise it is held until the whole node has ended.
        if isHandedOver { release() }
        return isHandedOver
    }
}
