internal import Dispatch
internal import Glibc
internal import Synchronization

/// Termination by SIGINT, SIGTERM and SIGHUP: the first signal asks for an orderly end, and a second one other than SIGHUP ends
/// the process at once.
package enum SignalHandling {
    /// Thrown by ``run(onSignal:_:)`` when a signal ended its body.
    package struct Interrupted: Error, Hashable {
        package init() {}
    }

    /// The exit status of a process that a signal ended, by the shells' convention for SIGINT.
    package static let exitStatus: Int32 = 130

    /// Time for an orderly end: transfers are cancelled at both ends, received bytes are made durable.
    private static let timeout: DispatchTimeInterval = .seconds(5)

    private static let isSuspended = Atomic(false)

    /// The number of each termination signal that arrives.
    package static func signals() -> AsyncStream<Int32> { Signals.stream([SIGINT, SIGTERM, SIGHUP]) }

    /// The termination signals, without the SIGINTs that ``withoutInterrupt(_:)`` gives another meaning.
    package static func terminations() -> AsyncFilterSequence<AsyncStream<Int32>> {
        signals().filter { $0 != SIGINT || !isSuspended.load(ordering: .acquiring) }
    }

    /// Runs `body` while SIGINT has another meaning, such as the end of a recording inside a conversation.
    package static func withoutInterrupt<Result>(_ body: () async throws -> Result) async rethrows -> Result {
        isSuspended.store(true, ordering: .releasing)
        defer { isSuspended.store(false, ordering: .releasing) }
        return try await body()
    }

    /// Restores the terminal and ends the process at once.
    package static func exitNow() {
        RawMode.end()
        exit(exitStatus)
    }

    /// Runs `body` to its end, or until signals end it, whichever signals they are.
    package static func run<Result: Sendable>(
        onSignal stop: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await run(onSignal: { _ in stop() }, body)
    }

    /// Runs `body` to its end, or until signals end it.
    /// - Parameters:
    ///   - stop: called with the number of the first signal; makes `body` end soon. At the second signal, or when `body` takes
    ///     too long after the first, the process exits.
    ///   - body: the work.
    /// - Throws: what `body` throws; ``Interrupted`` when a signal came, since the failure then follows from the request to
    /// stop.
    package static func run<Result: Sendable>(
        onSignal stop: @escaping @Sendable (Int32) -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            let isInterrupted = OnceFlag()
            group.addTask {
                for await number in terminations() {
                    guard isInterrupted.raise() else {
                        // A terminal that closes hangs up, and so does its shell.
                        if number == SIGHUP { continue }
                        return exitNow()
                    }
                    stop(number)
                    DispatchQueue.global().asyncAfter(deadline: .now() + timeout) { exitNow() }
                }
            }
            do {
                let result = try await body()
                if isInterrupted.isRaised { throw Interrupted() }
                return result
            } catch {
                if isInterrupted.isRaised { throw Interrupted() }
                throw error
            }
        }
    }
}
