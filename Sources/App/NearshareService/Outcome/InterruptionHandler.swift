/// Lets the user interrupt an operation. The command line handles signals with it.
package protocol InterruptionHandler: Sendable {
    /// Runs `body`. When the user interrupts it, `onInterrupt` is called, which makes `body` end soon.
    func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result
}

/// A handler that never interrupts.
package struct NoInterruption: InterruptionHandler {
    package init() {}

    package func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await body()
    }
}
