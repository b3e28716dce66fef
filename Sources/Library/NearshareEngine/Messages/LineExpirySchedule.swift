internal import NearshareBase
internal import NearshareInterfaces

/// The lifetimes of lines, and when the next removal of lines is due. Lines have times of the wall clock, which may jump in either
/// direction; none is removed before that clock has reached the end of its lifetime.
struct LineExpirySchedule: Sendable {
    private let standard: MessageLifetime?
    /// The settings of the user; none that is ``LifetimeSetting/standard``.
    private var settings: [Conversation: LifetimeSetting]
    /// The earliest end of a lifetime; nil where no line has one.
    private var next: WallTime?
    /// The earliest time of the next removal; nil for any.
    private var earliest: MonotonicInstant?

    /// Pause after a removal that has changed the store: in a flood, lines are removed together, as each change is written to disk.
    static let pause = Duration.seconds(10)
    /// Limit on the wait for the end of a lifetime: the wall clock may be set meanwhile, and while the machine is suspended, only
    /// that clock goes on.
    static let maximumWait = Duration.seconds(3_600)

    /// Creates a schedule in which a removal is due at once, where any line has a lifetime: it may have ended while no node ran.
    /// - Parameters:
    ///   - standard: the lifetime in conversations without a setting; nil for no limit.
    ///   - settings: those of the user.
    init(standard: MessageLifetime?, settings: [Conversation: LifetimeSetting]) {
        (self.standard, self.settings) = (standard, settings)
        let isLimited = standard != nil || settings.values.contains { $0.lifetime(standard: standard) != nil }
        next = isLimited ? Self.atOnce : nil
    }

    private static let atOnce = WallTime(milliseconds: .min)

    func lifetime(of conversation: Conversation) -> ConversationLifetime {
        ConversationLifetime(settings[conversation] ?? .standard, standard: standard)
    }

    /// Changes the setting of a conversation. A removal is due at once: stored lines may be older.
    mutating func set(_ setting: LifetimeSetting, of conversation: Conversation) {
        settings[conversation] = setting == .standard ? nil : setting
        (next, earliest) = (Self.atOnce, nil)
    }

    /// Adds a line that is stored, or is no longer pending.
    /// - Parameter time: that of the line.
    mutating func add(in conversation: Conversation, at time: WallTime) {
        guard let lifetime = lifetime(of: conversation).current else { return }
        add(lifetime.end(from: time))
    }

    private mutating func add(_ end: WallTime) { next = min(next ?? end, end) }

    func isDue(at now: Moment) -> Bool {
        guard let next, next <= now.wall else { return false }
        return earliest.map { $0 <= now.monotonic } ?? true
    }

    /// The time at which ``isDue(at:)`` is to be asked again; nil for none.
    func deadline(at now: Moment) -> MonotonicInstant? {
        guard let next else { return nil }
        let deadline = now.monotonic + min(max(next.difference(from: now.wall), .zero), Self.maximumWait)
        return max(deadline, earliest ?? deadline)
    }

    /// Records that a removal starts. Lines that are added meanwhile count for the next one.
    mutating func recordStart() { next = nil }

    mutating func recordEnd(_ expiry: MessageExpiry, at now: MonotonicInstant) {
        if let end = expiry.next { add(end) }
        if !expiry.removed.isEmpty { earliest = now + Self.pause }
    }

    /// Records that the store could not be changed: it is tried again later.
    mutating func recordFailure(at now: MonotonicInstant) {
        next = Self.atOnce
        earliest = now + Self.maximumWait
    }
}
