/// Receives the events of an operation, for a user or a program. The command line has one that writes text and one that writes
/// JSON.
package protocol Reporter: Sendable {
    func report(_ event: OperationEvent)

    /// Shows the progress of running transfers until the task is cancelled.
    func showProgress(of transfers: RunningTransfers) async
}

extension Reporter {
    package func showProgress(of transfers: RunningTransfers) async {}
}

/// A reporter that reports nothing.
package struct SilentReporter: Reporter {
    package init() {}

    package func report(_ event: OperationEvent) {}
}
