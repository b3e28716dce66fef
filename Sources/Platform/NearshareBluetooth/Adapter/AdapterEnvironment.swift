internal import NearshareBase

/// The functions of an adapter's owner that all parts of ``AdapterController`` use.
struct AdapterEnvironment: Sendable {
    let now: @Sendable () -> MonotonicInstant
    /// Receives events for troubleshooting; called on the adapter's thread.
    let log: @Sendable (String) -> Void
    /// Receives conditions that do not go away by themselves, with advice; called on the adapter's thread.
    let warn: @Sendable (String) -> Void
    /// Runs a job on the adapter's thread later. The job is dropped when the adapter is closed.
    let post: @Sendable (@escaping @Sendable (AdapterController) -> Void) -> Void
}
