/// The cause of an interruption.
package enum Interruption: Sendable {
    /// The user has cancelled with Ctrl-C.
    case cancelled
    /// The process has to end, as when its terminal is closed or a service is started again.
    case terminated
}

/// Lets the user interrupt an operation. The command line handles signals with it.
package protocol InterruptionHandler: Sendable {
    /// Runs `body`. At an interruption, `onInterrupt` is called, which makes `body` end soon.
    func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable (Interruption) -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result
}

/// A handler that never interrupts.
package struct NoInterruption: InterruptionHandler {
    package init() {}

    package func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable (Interruption) -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await body()
    }
}
