package import NearshareBase
package import NearshareInterfaces

/// An event loop around a C library whose objects must be used on one thread. All functions, from `init` to ``close()``, are
/// called on the thread of its ``EventLoopThread``.
package protocol EventLoop: AnyObject, SendableMetatype {
    /// The time at which ``tick(at:)`` is due next; nil when the loop only waits for events.
    func nextDeadline(after now: MonotonicInstant) -> MonotonicInstant?

    /// Handles deadlines that have passed.
    func tick(at now: MonotonicInstant)

    /// Blocks until an event arrives, the wake-up descriptor that `init` was given becomes readable, or time is over; handles
    /// the events.
    /// - Parameter timeout: nil for none.
    func wait(timeout: Duration?)

    /// Frees what C has allocated. Nothing is called afterwards.
    func close()
}

/// The functions of the thread that are available to its ``EventLoop``.
package struct EventLoopHandle<Loop: EventLoop>: Sendable {
    /// Readable when a job is queued; the loop polls it, and never reads it.
    package let wakeup: EventFD
    let enqueue: @Sendable (@escaping @Sendable (Loop) -> Void) -> Void

    /// Runs `job` on the thread later. The job is dropped when the thread has ended; the handle does not keep the thread alive.
    package func post(_ job: @escaping @Sendable (Loop) -> Void) { enqueue(job) }
}
