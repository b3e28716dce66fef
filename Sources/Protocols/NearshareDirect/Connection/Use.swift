internal import NearshareBase

/// The use of a link, apart from signs of life: transfers, offers, comparisons and sessions. A link that is not used costs its
/// place, which untrusted peers can't keep (Q6).
struct Use: Sendable {
    private let timeout: Duration?
    /// The latest time at which the link was seen in use.
    private var last: MonotonicInstant
    /// The latest time at which more than questions to the user made that use.
    private var lastTransfer: MonotonicInstant
    /// The time from which, and until which, the link counts as used, whatever happens on it.
    private var reserved: (from: MonotonicInstant, until: MonotonicInstant)

    init(timeout: Duration?, now: MonotonicInstant) {
        self.timeout = timeout
        (last, lastTransfer, reserved) = (now, now, (now, now))
    }

    /// - Parameter isQuestion: the only use is a question that waits for the user.
    mutating func record(isQuestion: Bool, now: MonotonicInstant) {
        last = max(last, now)
        if !isQuestion { lastTransfer = last }
    }

    /// Counts the link as used until a time, such as the expiry of a question to the user. A reservation without end stays.
    mutating func reserve(until time: MonotonicInstant, now: MonotonicInstant) {
        if !isReservedForever { reserved = (now, time) }
    }

    private var isReservedForever: Bool { reserved.until.nanoseconds == .max }

    /// The start of the time without use; in the future while the link is reserved.
    var start: MonotonicInstant { max(last, reserved.until) }

    /// The time from which the link may lose its place to another, if there is a question since `question` or none.
    func placeEnd(question: MonotonicInstant?) -> MonotonicInstant {
        if isReservedForever { return reserved.until }
        let asked = question.map { $0 + Self.questionTime } ?? lastTransfer
        return max(lastTransfer, asked, min(reserved.until, reserved.from + Self.questionTime))
    }

    /// The time for which a question to the user keeps a link its place. Fewer can be asked in this time than there are places.
    private static let questionTime = Duration.seconds(60)

    /// The time at which the link is to be closed.
    var deadline: MonotonicInstant? { timeout.map { start + $0 } }
}
