internal import NearshareBase

/// The times for which sources of direct links have held slots lately. They grow while a source has a link with a proven key, also
/// one after the other, and shrink as fast while it has none: where all slots are in use, sources take turns (R5). Links that are
/// renewed without end give no source a new turn, and one that had to wait gets its turn within ``turn``.
struct SlotTimes: Sendable {
    /// The longest time that is counted.
    static let maximumTime = Duration.seconds(20)
    /// Time after which a source gives way to another one: that of the measurement of its progress.
    static let minimumTime = ProgressMeter.period
    /// The difference from which a source comes before another one.
    static let turn = Duration.seconds(5)

    private var times: [LinkSource: Duration] = [:]
    private var updated: MonotonicInstant?

    /// The time of a source at the last ``record(_:now:)``.
    func time(of source: LinkSource) -> Duration { times[source] ?? .zero }

    /// Accounts for the time since the last call.
    /// - Parameter holders: the sources with slots until now. Only these, and those of the last ``maximumTime``, are stored.
    mutating func record(_ holders: Set<LinkSource>, now: MonotonicInstant) {
        let elapsed = min(now - (updated ?? now), Self.maximumTime)
        updated = now
        for source in holders { times[source] = min(time(of: source) + elapsed, Self.maximumTime) }
        times = times.filter { holders.contains($0.key) || $0.value > elapsed }
        for source in times.keys where !holders.contains(source) { times[source] = time(of: source) - elapsed }
    }

    /// Whether a slot of one source is another one's turn.
    func isBefore(_ first: LinkSource, _ second: LinkSource) -> Bool {
        time(of: second) >= Self.minimumTime && time(of: second) >= time(of: first) + Self.turn
    }
}
