internal import NearshareBase

/// The creation times of this node's bundles. Each is after the one before, also within one millisecond, because receivers order
/// the lines of a conversation by them. Not so where the clock was set back.
struct CreationClock {
    private var last = WallTime(milliseconds: 0)
    /// The reading of the clock for `last`.
    private var lastReading = WallTime(milliseconds: 0)

    /// Limit on the lead over the clock: receivers reject a bundle that is ten minutes ahead of theirs. A burst of more bundles
    /// than milliseconds in it ends with equal times.
    static let maximumLead = 60_000
    /// A clock that is adjusted by less was not set back, in milliseconds.
    private static let adjustment = 1_000

    /// - Parameter now: the reading of the clock.
    mutating func next(at now: WallTime) -> WallTime {
        let wasSetBack = now < lastReading.advanced(by: -Self.adjustment)
        let bound = now.advanced(by: Self.maximumLead)
        last = wasSetBack ? now : max(now, last, min(last.advanced(by: 1), bound))
        lastReading = now
        return last
    }
}

extension WallTime {
    /// The time some milliseconds later, or the last one or first one of the type.
    fileprivate func advanced(by count: Int) -> WallTime {
        let (sum, overflow) = milliseconds.addingReportingOverflow(Int64(count))
        return WallTime(milliseconds: overflow ? (count < 0 ? .min : .max) : sum)
    }
}
