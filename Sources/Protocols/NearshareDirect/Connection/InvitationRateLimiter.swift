package import NearshareBase

/// Keeps people from being asked again and again (R11): so many invitations from one place in a while, and no more.
///
/// Counted are those that were not accepted. A key costs nothing to make, so the place is what counts: the address.
package struct InvitationRateLimiter: Sendable {
    /// Invitations that may go unaccepted in ``memory``.
    package static let timeout = 5
    /// So long a refusal counts.
    package static let memory = Duration.seconds(60)
    /// More places than this are not told apart from the oldest of them any more.
    private static let maximumPlaces = 256

    private var refusals: [String: [MonotonicInstant]] = [:]

    /// Nobody has been refused yet.
    package init() {}

    /// Whether somebody may be asked about an invitation from there.
    package mutating func allows(_ place: String, now: MonotonicInstant) -> Bool {
        guard let times = refusals[place] else { return true }
        let recent = times.filter { now - $0 < Self.memory }
        refusals[place] = recent.isEmpty ? nil : recent
        return recent.count < Self.timeout
    }

    /// An invitation from there was declined or not answered.
    package mutating func refused(_ place: String, now: MonotonicInstant) {
        if refusals[place] == nil, refusals.count >= Self.maximumPlaces,
            let oldest = refusals.min(by: { ($0.value.last ?? now) < ($1.value.last ?? now) })
        {
            refusals[oldest.key] = nil
        }
        // Older ones than the limit asks for can't matter.
        refusals[place, default: []].append(now)
        if refusals[place]!.count > Self.timeout { refusals[place]!.removeFirst() }
    }
}
