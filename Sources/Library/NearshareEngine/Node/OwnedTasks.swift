internal import NearshareInterfaces

/// The tasks of a node or of its mesh: they run as children of the task that runs ``run()``, which waits for all of them.
final class OwnedTasks: Sendable {
    typealias Job = @Sendable () async -> Void

    /// The owner of the current task.
    @TaskLocal private static var owner: ObjectIdentifier?

    /// Fulfilled by ``finish()``: tasks that would run on for long end then.
    let stopping = Promise<Void>()
    private let jobs: AsyncStream<Job>
    private let continuation: AsyncStream<Job>.Continuation

    init() {
        (jobs, continuation) = AsyncStream.makeStream()
    }

    /// Starts a task.
    /// - Returns: false after ``finish()``; then the task is not run, and whatever waits for its outcome must be told by the caller.
    @discardableResult
    func start(_ job: @escaping Job) -> Bool {
        if case .terminated = continuation.yield(job) { false } else { true }
    }

    /// Accepts no more tasks. ``run()`` returns when those that were started have ended.
    func finish() {
        stopping.fulfil()
        continuation.finish()
    }

    /// Whether the current task is one of them, so that it must not wait for their end.
    var isCurrent: Bool { Self.owner == ObjectIdentifier(self) }

    /// Runs the tasks, until ``finish()`` is called and all of them have ended.
    func run() async {
        await Self.$owner.withValue(ObjectIdentifier(self)) {
            await withDiscardingTaskGroup { group in
                for await job in jobs { group.addTask { await job() } }
            }
        }
    }
}
