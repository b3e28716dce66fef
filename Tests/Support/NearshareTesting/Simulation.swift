package import NearshareBase

/// Machines on virtual time, in one thread: the counterpart of the engine's `MachineDriver`. One seed is one story.
///
/// A conforming type owns the machines and whatever lies between them. ``run(for:until:)`` jumps from one event or deadline to
/// the next.
package protocol Simulation {
    associatedtype Event

    var timeline: Timeline<Event> { get set }

    /// The earliest deadline of all machines; nil when none is scheduled.
    var deadline: MonotonicInstant? { get }

    /// Handles an event whose time has come.
    mutating func handle(_ event: Event)

    /// Advances the machines whose deadlines have passed.
    mutating func advanceMachines()
}

extension Simulation {
    /// The virtual monotonic clock's reading.
    package var now: MonotonicInstant { timeline.now }

    /// Runs until `isDone` holds, but for no longer than `limit`.
    /// - Returns: whether `isDone` holds.
    @discardableResult
    package mutating func run(for limit: Duration, until isDone: (Self) -> Bool = { _ in false }) -> Bool {
        let end = now + limit
        while !isDone(self) {
            guard let next = [timeline.nextEvent, deadline].compactMap(\.self).min(), next <= end else {
                timeline.advance(to: end)
                return false
            }
            timeline.advance(to: next)
            while let event = timeline.popDue() { handle(event) }
            advanceMachines()
        }
        return true
    }

    /// Advances a machine if its deadline has passed.
    /// - Returns: whether it was advanced.
    @discardableResult
    package func advance<Driven: Machine>(_ machine: inout Driven, to time: Driven.Time) -> Bool {
        guard let deadline = machine.deadline, deadline <= now else { return false }
        machine.advance(to: time)
        return true
    }
}

/// The virtual clocks of a ``Simulation``, its random numbers, and the events to come.
package struct Timeline<Event> {
    /// Names the story; printed by failing tests.
    package let seed: UInt64
    package var random: SeededRandom
    package private(set) var now = MonotonicInstant(nanoseconds: 1_000_000_000)
    private let startOfWallClock: WallTime
    /// Ordered by time; events of one time in the order in which they were scheduled.
    private var events: [(time: MonotonicInstant, event: Event)] = []

    package init(seed: UInt64, startOfWallClock: WallTime = WallTime(milliseconds: 1_800_000_000_000)) {
        self.seed = seed
        self.startOfWallClock = startOfWallClock
        random = SeededRandom(seed: seed)
    }

    package var moment: Moment { moment() }

    /// Both clocks' readings.
    /// - Parameter offset: the error of one node's wall clock.
    package func moment(offset: Duration = .zero) -> Moment {
        let milliseconds = startOfWallClock.milliseconds + (now.nanoseconds + offset.nanoseconds) / 1_000_000
        return Moment(monotonic: now, wall: WallTime(milliseconds: milliseconds))
    }

    /// The time of the next event; nil when there is none.
    package var nextEvent: MonotonicInstant? { events.first?.time }

    package mutating func schedule(_ event: Event, at time: MonotonicInstant) {
        var low = 0
        var high = events.count
        while low < high {
            let middle = (low + high) / 2
            if events[middle].time <= time { low = middle + 1 } else { high = middle }
        }
        events.insert((time, event), at: low)
    }

    package mutating func removeEvents(where isUnwanted: (Event) -> Bool) {
        events.removeAll { isUnwanted($0.event) }
    }

    mutating func advance(to time: MonotonicInstant) { now = max(now, time) }

    mutating func popDue() -> Event? {
        guard let first = events.first, first.time <= now else { return nil }
        return events.removeFirst().event
    }
}

/// One direction of a simulated link: delays by chance, loses by chance, and keeps the order.
package struct SimulatedLine {
    package struct Conditions: Sendable {
        package var delay = Duration.milliseconds(1)...Duration.milliseconds(5)
        /// One of this many frames is lost; 0 for none.
        package var lossOneIn = 0

        package init() {}
    }

    private var lastArrival = MonotonicInstant(nanoseconds: 0)

    package init() {}

    /// Sends what arrives as `event`, or loses it.
    package mutating func send<Event>(_ event: Event, _ conditions: Conditions, on timeline: inout Timeline<Event>) {
        if conditions.lossOneIn > 0, timeline.random.once(in: conditions.lossOneIn) { return }
        let range = conditions.delay.lowerBound.nanoseconds...conditions.delay.upperBound.nanoseconds
        let arrival = timeline.now + .nanoseconds(Int64.random(in: range, using: &timeline.random))
        lastArrival = max(lastArrival, arrival)
        timeline.schedule(event, at: lastArrival)
    }
}
