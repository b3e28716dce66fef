internal import Glibc
internal import Nearshare
internal import Synchronization

/// Ctrl-C and its like. The first asks to end in order; the second ends at once.
enum SignalHandling {
    /// The signals that ask the process to end, each time one comes: their numbers.
    static func signals() -> AsyncStream<Int32> { Signals.stream([SIGINT, SIGTERM, SIGHUP]) }

    /// Seconds that an orderly end may take: transfers are cancelled at both ends, what has arrived is made durable.
    private static let timeout: UInt32 = 5

    /// Ctrl-C means something else meanwhile, such as the end of a recording inside a conversation.
    static let isLentOut = Atomic(false)

    /// Ends the process at once, with the terminal as it was.
    static func leave() {
        RawMode.end()
        exit(ExitStatus.interrupted.rawValue)
    }

    /// Runs `body`; at the first signal `ask` is called, which makes `body` end soon, and after a second one or when that
    /// takes too long the process exits.
    static func handled<Result: Sendable>(
        asking ask: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        try await withThrowingTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            let interrupted = OnceFlag()
            group.addTask {
                for await number in signals() {
                    if number == SIGINT, isLentOut.load(ordering: .acquiring) { continue }
                    if interrupted.raise() {
                        ask()
                        BlockingThread.start {
                            sleep(timeout)
                            leave()
                        }
                    } else {
                        leave()
                    }
                }
            }
            do {
                let result = try await body()
                if interrupted.isRaised { throw CommandFailure(.interrupted, "") }
                return result
            } catch {
                let failure = CommandFailure(error)
                // What the person's own stop has broken off is nothing to complain about.
                if interrupted.isRaised, failure.status != .interrupted { throw CommandFailure(.interrupted, "") }
                throw error
            }
        }
    }
}
