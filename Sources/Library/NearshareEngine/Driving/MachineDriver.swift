internal import NearshareBase
internal import NearshareInterfaces

/// Runs a ``Machine`` for several threads: owns the lock around it, its clock, its deadline, and the hand-out of its reactions.
///
///     update ──► lock ─► input ─► reactions ─┬─► performed at once, in order, under the lock
///                                            └─► performed by the thread of run(_:), in order, without the lock
///     next ────► waits for work, or advances the machine at its deadline
///
/// An input is a call of the machine's own method, so it costs one acquisition of the lock and no allocation. Bulk content does
/// not pass through here: a machine only decides whether it is welcome.
final class MachineDriver<Driven: Machine>: Sendable {
    private let state: Monitor<Driven>
    private let clock: @Sendable () -> Driven.Time
    private let perform: (@Sendable (Driven.Reaction) -> Void)?

    /// Creates a driver whose reactions wait for the thread of ``run(_:)``, which may block.
    init(_ machine: Driven, clock: @escaping @Sendable () -> Driven.Time) {
        state = Monitor(machine)
        self.clock = clock
        perform = nil
    }

    /// Creates a driver that performs reactions in the call that caused them.
    /// - Parameter perform: called under the lock, so it must neither block nor call the driver.
    init(
        _ machine: Driven, clock: @escaping @Sendable () -> Driven.Time,
        performing perform: @escaping @Sendable (Driven.Reaction) -> Void
    ) {
        state = Monitor(machine)
        self.clock = clock
        self.perform = perform
    }

    // MARK: Inputs

    /// Gives the machine an input, and wakes the threads that wait for its consequences.
    func update<Result, Failure: Error>(
        _ input: (inout Driven, Driven.Time) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        let now = clock()
        return try state.update { (machine) throws(Failure) -> Result in
            defer { handOut(of: &machine) }
            return try input(&machine, now)
        }
    }

    /// Gives the machine an input that seldom leaves work for a waiting thread.
    /// - Parameter input: returns whether to wake the waiting threads; nil for an input that the machine could not accept.
    /// - Returns: the result of `input`.
    func updateQuietly(_ input: (inout Driven, Driven.Time) -> Bool?) -> Bool? {
        let now = clock()
        return state.updateQuietly { machine in
            defer { handOut(of: &machine) }
            return input(&machine, now)
        }
    }

    /// Reads the machine's state.
    func read<Result>(_ body: (Driven) -> Result) -> Result { state.withLock { body($0) } }

    /// Removes output that no thread waits for and that is no reaction, such as frames to write.
    func withMachine<Result>(_ body: (inout Driven) -> Result) -> Result { state.withLock { body(&$0) } }

    // MARK: Threads

    /// Wakes all waiting threads, which look for work again.
    func wake() { state.update { _ in } }

    /// Waits for work of one kind, such as frames to write, without regard to the deadline.
    /// - Parameter work: called at once and after each update, until it returns something.
    func wait<Work>(for work: (inout Driven) -> Work?) -> Work { state.wait(work) }

    /// Waits for work, and advances the machine whenever its deadline passes. For the one thread that keeps the machine's time.
    /// - Parameter work: called at once, after each update and after each deadline, until it returns something.
    func next<Work>(_ work: (inout Driven) -> Work?) -> Work {
        let start = clock()
        var isFirst = true
        return state.waitWithDeadlines { machine, hasTimedOut in
            // Also when a thread with much work never gets to wait.
            let isOverdue = isFirst && machine.deadline.map { $0 <= start.monotonic } ?? false
            isFirst = false
            if hasTimedOut || isOverdue {
                machine.advance(to: hasTimedOut ? clock() : start)
            }
            handOut(of: &machine)
            if let work = work(&machine) { return .ready(work) }
            return .waiting(untilNanoseconds: machine.deadline?.nanoseconds)
        }
    }

    /// Runs the machine until it is finished: keeps its time, and performs the reactions that wait for this thread. All reactions
    /// that wait at a time are passed in one call.
    func run(_ perform: ([Driven.Reaction]) -> Void = { _ in }) {
        while let reactions = next({ machine -> [Driven.Reaction]?? in
            if machine.hasReactions { return .some(machine.drainReactions()) }
            return machine.isFinished ? .some(nil) : nil
        }) {
            perform(reactions)
        }
    }

    private func handOut(of machine: inout Driven) {
        guard let perform, machine.hasReactions else { return }
        for reaction in machine.drainReactions() { perform(reaction) }
    }
}
