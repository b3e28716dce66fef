internal import NearshareBase

/// The clock, the loggers and the executor that all parts of ``AdapterController`` share.
struct AdapterDependencies: Sendable {
    let clock: @Sendable () -> MonotonicInstant
    /// Logs events for troubleshooting; called on the adapter's thread.
    let log: @Sendable (String) -> Void
    /// Logs conditions that the user has to resolve, with advice; called on the adapter's thread.
    let warn: @Sendable (String) -> Void
    /// Runs a job on the adapter's thread later. The job is dropped when the adapter is closed.
    let post: @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void
}
