package import Nearshare

/// Runs `body` with a client of the node that runs on this machine, or else with a node that this process runs meanwhile and
/// that other commands can use as well.
/// - Parameter continues: whether `body` can continue through another node. When the node of another process ends, so that
///   `body` throws a ``ControlFailure`` of kind `gone`, it is called again.
package func withNodeClient(
    on machine: LocalMachine, options: NodeOptions, environment: NodeEnvironment, continues: Bool = false,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws {
    let isInterrupted = Monitor(false)
    // Around all of it: a signal may arrive between the end of one node and the start of the next.
    let stop: @Sendable (Interruption) -> Void = { _ in isInterrupted.update { $0 = true } }
    try await environment.interruption.run(onInterrupt: stop) {
        while !isInterrupted.withLock({ $0 }) {
            let isDone = try await withOneNodeClient(
                on: machine, options: options, environment: environment, continues: continues, body)
            if isDone { return }
        }
    }
}

/// - Returns: false when another node is to be used.
private func withOneNodeClient(
    on machine: LocalMachine, options: NodeOptions, environment: NodeEnvironment, continues: Bool,
    _ body: @escaping @Sendable (any NodeClient) async throws -> Void
) async throws -> Bool {
    do {
        let hasNode = try await withRunningNode(of: machine) { client in
            try await environment.interruption.run(onInterrupt: { _ in client.close() }) { try await body(client) }
        }
        if hasNode { return true }
    } catch let failure as ControlFailure where failure.kind == .gone && continues {
        return false
    }
    do {
        try await runNode(on: machine, options: options, environment: environment) { service, _ in try await body(service) }
        return true
    } catch is NodeRunsAlready {
        // Another command has started one in the meantime.
        return false
    } catch let failure as ControlFailure where failure.kind == .gone && continues {
        // The node of this process has handed its role over.
        try await PrimaryRole.awaitSuccessor(on: machine)
        return false
    }
}

/// Runs `body` with a client of the node that runs on this machine, without starting one.
/// - Returns: nil when no node runs.
package func withRunningNode<Result: Sendable>(
    of machine: LocalMachine, _ body: (ControlClient) async throws -> Result
) async throws -> Result? {
    guard let client = try ControlClient(path: machine.controlSocketPath) else { return nil }
    return try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { await client.run() }
        defer { group.cancelAll() }
        return try await body(client)
    }
}

/// Runs `body`, which has no result, with a client of the node that runs on this machine, without starting one.
/// - Returns: whether a node runs.
package func withRunningNode(of machine: LocalMachine, _ body: (ControlClient) async throws -> Void) async throws -> Bool {
    let done: Void? = try await withRunningNode(of: machine, body)
    return done != nil
}

/// Whether a node runs on this machine.
func isNodeRunning(on machine: LocalMachine) async throws -> Bool {
    try await withRunningNode(of: machine, { _ in true }) == true
}
