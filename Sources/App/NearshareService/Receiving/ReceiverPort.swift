package import Nearshare

/// The TCP port of a `receive` beside other nodes of the user. A node that has the usual port passes the direct links that
/// peers open to the `receive`, which has no port meanwhile; when that node ends, the `receive` opens the port, until another
/// node starts (docs/decisions/default-port.md).
package struct ReceiverPort: Sendable {
    /// Where peers reach the receiver.
    package struct State: Sendable, Hashable {
        package let port: UInt16
        /// The process of the running node that has the port; nil where the receiver has it.
        package let node: Int32?
        /// Another `receive` of this user that was running before this one; nil for none.
        package let other: OtherReceiver?

        package init(port: UInt16, node: Int32? = nil, other: OtherReceiver? = nil) {
            (self.port, self.node, self.other) = (port, node, other)
        }
    }

    /// Another `receive` of the user.
    package enum OtherReceiver: Sendable, Hashable {
        /// The one that is the node.
        case node(process: Int32)
        /// One that has got the links of the node until now.
        case besideNode
    }

    private let machine: LocalMachine
    private let node: Node
    private let listener: Listener
    private let isFixed: Bool
    private let hasOwnAdvertisement: Bool
    private let last = Monitor<State?>(nil)

    /// Timeout of the running node's first reply.
    private static let replyTimeout = Duration.seconds(3)
    /// The kernel may free the port of a process that was killed after it has closed its connections.
    private static let portTimeout = Duration.milliseconds(500)
    /// A node that has asked for the role, or starts as another one ends, listens within this time.
    private static let handOverTimeout = Duration.seconds(5)

    /// Changes of the directory wake the task earlier.
    private static let maximumWait = Duration.seconds(86_400)

    /// - Parameters:
    ///   - isFixed: whether the user has chosen the port for this command, which keeps it then.
    ///   - hasOwnAdvertisement: whether it is advertised apart from the node: by another name, or on one interface.
    package init(_ machine: LocalMachine, _ node: Node, _ listener: Listener, isFixed: Bool, hasOwnAdvertisement: Bool) {
        self.machine = machine
        self.node = node
        self.listener = listener
        self.isFixed = isFixed
        self.hasOwnAdvertisement = hasOwnAdvertisement
    }

    /// Runs until the task is cancelled.
    /// - Parameters:
    ///   - awaitsNode: whether another process has just taken the role of the node over.
    ///   - onNodeLoss: called when no other node has run for a while: once, and again after
    ///     each node that ends.
    ///   - report: receives the first state and each change.
    /// - Throws: the errors of a port that cannot be opened.
    package func run(
        awaitsNode: Bool = false, onNodeLoss: @Sendable () -> Void, _ report: @Sendable (State) -> Void
    ) async throws {
        let watch = DirectoryWatch(machine.directories.runtime)
        var deadline = SystemClock.monotonic() + (awaitsNode ? Self.handOverTimeout : .zero)
        var awaitsSuccessor = awaitsNode
        var (hasNode, lossTime) = (true, MonotonicInstant?.none)
        while !Task.isCancelled {
            let service = await serveLinks(report)
            if service.refusingProcess != nil {
                (hasNode, lossTime) = (true, nil)
            } else if hasNode || service == .ended {
                (hasNode, lossTime) = (false, SystemClock.monotonic() + Self.handOverTimeout)
            }
            if service == .ended {
                if !isFixed, listener.port != usualPort { node.closePort(of: listener) }
                (deadline, awaitsSuccessor) = (SystemClock.monotonic() + Self.portTimeout, false)
            }
            let remaining = deadline - SystemClock.monotonic()
            if listener.port == 0, !awaitsSuccessor || remaining <= .zero,
                try !node.openPort(usualPort, of: listener), watch == nil || remaining <= .zero
            {
                // A configured port is not replaced by another one; a running command goes on where it can.
                let isFirst = last.withLock { $0 == nil }
                try node.openPort(chosen: isFirst ? machine.configuration.port : 0, of: listener)
            }
            let port = listener.port
            if port != 0 {
                let other = service.refusingProcess.map { OtherReceiver.node(process: $0) }
                emitIfChanged(State(port: port, other: other), report)
            }
            if let time = lossTime, time <= SystemClock.monotonic() {
                // A node that answers nothing else is busy.
                (hasNode, lossTime) = (ControlClient.hasListener(at: machine.controlSocketPath), nil)
                if !hasNode { onNodeLoss() }
            }
            guard let watch else { return }
            let lossWait = lossTime.map { $0 - SystemClock.monotonic() } ?? Self.maximumWait
            try await watch.awaitChange(timeout: min(port == 0 ? remaining : Self.maximumWait, max(.zero, lossWait)))
        }
    }

    private var usualPort: UInt16 { machine.configuration.port ?? Node.defaultPort }

    /// Reports a state that differs from the last one.
    private func emitIfChanged(_ state: State, _ report: @Sendable (State) -> Void) {
        let isNew = last.withLock { last in
            defer { last = state }
            return last != state
        }
        if isNew { report(state) }
    }

    /// The links that the running node passes.
    private enum LinkService: Sendable, Hashable {
        /// No node passes links.
        case unavailable
        /// Another `receive`, in this process, is the node and serves its links itself.
        case refused(by: Int32)
        case ended

        var refusingProcess: Int32? { if case .refused(let process) = self { process } else { nil } }
    }

    /// Serves the links that the running node passes, until one of the two ends.
    private func serveLinks(_ report: @Sendable (State) -> Void) async -> LinkService {
        let service: LinkService? = try? await withRunningNode(of: machine) { client in
            if !isFixed, listener.port == usualPort {
                // A standing node that has just started waits for it.
                node.closePort(of: listener)
                DirectoryWatch.touch(machine.directories.runtime)
            }
            guard let status = try await status(of: client) else { return .unavailable }
            let hasUsualPort = status.isDaemon || status.port == usualPort
            let ownPort = hasUsualPort ? (hasOwnAdvertisement ? 0 : nil) : usualPort
            if listener.port == 0, let ownPort, try !node.openPort(ownPort, of: listener) {
                _ = try node.openPort(0, of: listener)
            }
            do throws(ControlFailure) {
                guard try await client.submit(.receiveLinks) == .done else { return .unavailable }
            } catch {
                return error.kind == .refused ? .refused(by: status.process) : .unavailable
            }
            let isNodePort = hasUsualPort && !isFixed
            emitIfChanged(
                State(
                    port: isNodePort ? status.port : listener.port, node: isNodePort ? status.process : nil,
                    other: status.linkReceiverCount ?? 0 > 0 ? .besideNode : nil), report)
            for await link in client.links {
                // A link that was not claimed in time, because this process was stopped, is served by the node.
                if (try? await client.submit(.claimLink(link.number))) == .done {
                    node.serve(link.take(), opening: link.opening, for: listener)
                }
            }
            return .ended
        }
        return service ?? .unavailable
    }

    /// - Returns: nil when the node does not answer; then the connection is closed.
    private func status(of client: ControlClient) async throws -> NodeStatus? {
        try await firstResult(
            of: { try await client.status() },
            {
                // Closing ends the wait for the status.
                if (try? await Task.sleep(for: Self.replyTimeout)) != nil { client.close() }
                return nil
            })
    }
}
