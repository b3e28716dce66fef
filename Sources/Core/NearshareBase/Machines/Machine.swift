/// A state machine without clock, randomness, files, sockets or tasks of its own.
///
/// A machine has one method for each input, of its own signature: a request may return a value or throw. After each input its driver
/// asks for the consequences: ``drainReactions()``, and ``deadline`` for the next call of ``advance(to:)``. The same machine
/// runs behind a lock and a thread in a node, and in one thread on virtual time in tests.
package protocol Machine: Sendable {
    /// An action that the driver performs for the machine.
    associatedtype Reaction: Sendable
    /// The clocks that the machine reads: a ``MonotonicInstant``, or a ``Moment`` where it needs the wall clock, too.
    associatedtype Time: ClockReading

    /// When ``advance(to:)`` is to be called if there is no input before; nil when nothing is scheduled.
    var deadline: MonotonicInstant? { get }

    /// Whether reactions wait to be drained.
    var hasReactions: Bool { get }

    /// Whether the machine has stopped for good, so that its driver ends once the remaining reactions are performed.
    var isFinished: Bool { get }

    /// Handles what has become due.
    mutating func advance(to now: Time)

    /// Removes and returns the reactions since the last call, in the order in which they are to be performed.
    mutating func drainReactions() -> [Reaction]
}

/// A reading of one or several clocks, among them the monotonic one.
package protocol ClockReading: Sendable {
    /// The monotonic clock's reading.
    var monotonic: MonotonicInstant { get }
}

extension MonotonicInstant: ClockReading {
    package var monotonic: MonotonicInstant { self }
}

extension Moment: ClockReading {}
