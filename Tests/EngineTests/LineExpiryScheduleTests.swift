import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareEngine

@Suite("schedule of the removal of lines") struct LineExpiryScheduleTests {
    private let anna = Conversation.peer(PeerID(bytes: [1, 1, 1, 1, 1, 1, 1, 1])!)
    private let tenMinutes = MessageLifetime("10m")!

    /// One time by both clocks.
    /// - Parameter ahead: seconds by which the wall clock is ahead of its first reading.
    private func moment(_ seconds: Int64, ahead: Int64 = 0) -> Moment {
        Moment(
            monotonic: MonotonicInstant(nanoseconds: seconds * 1_000_000_000),
            wall: WallTime(milliseconds: (seconds + ahead) * 1_000))
    }

    /// A schedule after the first removal, which has removed nothing.
    private func makeSchedule(next: WallTime? = nil) -> LineExpirySchedule {
        var schedule = LineExpirySchedule(standard: tenMinutes, settings: [:])
        schedule.recordStart()
        schedule.recordEnd(expiry(next: next), at: moment(0).monotonic)
        return schedule
    }

    private func expiry(removed: [Conversation: WallTime] = [:], next: WallTime? = nil) -> MessageExpiry {
        var expiry = MessageExpiry()
        (expiry.removed, expiry.next) = (removed, next)
        return expiry
    }

    @Test("a removal is due at the start if lines of any conversation have a lifetime, and none is without one")
    func start() {
        let limited = LineExpirySchedule(standard: nil, settings: [anna: .limited(tenMinutes)])
        #expect(
            limited.isDue(at: moment(-1_000)) && LineExpirySchedule(standard: tenMinutes, settings: [:]).isDue(at: moment(0)))
        var unlimited = LineExpirySchedule(standard: nil, settings: [anna: .unlimited])
        unlimited.add(in: anna, at: moment(0).wall)
        unlimited.add(in: .publicRoom, at: moment(0).wall)
        #expect(!unlimited.isDue(at: moment(1_000_000)) && unlimited.deadline(at: moment(0)) == nil)
    }

    @Test("the deadline is the earliest end of a lifetime, of stored lines and of new ones")
    func earliest() {
        var schedule = makeSchedule(next: moment(900).wall)
        #expect(schedule.deadline(at: moment(0)) == moment(900).monotonic)
        schedule.add(in: .publicRoom, at: moment(100).wall)
        schedule.add(in: anna, at: moment(200).wall)
        #expect(schedule.deadline(at: moment(200)) == moment(700).monotonic)
        #expect(!schedule.isDue(at: moment(699)) && schedule.isDue(at: moment(700)))
        // A line that is stored during the removal counts for the next one.
        schedule.recordStart()
        #expect(!schedule.isDue(at: moment(700)))
        schedule.add(in: anna, at: moment(650).wall)
        schedule.recordEnd(expiry(next: moment(5_000).wall), at: moment(700).monotonic)
        #expect(schedule.deadline(at: moment(700)) == moment(1_250).monotonic)
    }

    @Test("a clock that is set back removes nothing early, one that is set forward is noticed within an hour")
    func jumps() {
        var schedule = makeSchedule()
        schedule.add(in: anna, at: moment(0).wall)
        #expect(!schedule.isDue(at: moment(600, ahead: -1)) && !schedule.isDue(at: moment(10_000, ahead: -50_000)))
        #expect(schedule.isDue(at: moment(1, ahead: 599)))
        // The wait is bounded, and never over at once: the thread does not spin.
        for ahead in [-1_000_000, -5_000, -600, -1] as [Int64] {
            let now = moment(600, ahead: ahead)
            let deadline = schedule.deadline(at: now)
            let latest = now.monotonic + LineExpirySchedule.maximumWait
            #expect(deadline.map { $0 > now.monotonic && $0 <= latest } == true, "\(ahead)")
        }
    }

    @Test("in a flood lines are removed together, and a store that fails is not asked again at once")
    func pause() {
        var schedule = makeSchedule()
        schedule.add(in: anna, at: moment(0).wall)
        schedule.recordStart()
        schedule.recordEnd(expiry(removed: [anna: moment(0).wall]), at: moment(600).monotonic)
        schedule.add(in: anna, at: moment(1).wall)
        #expect(!schedule.isDue(at: moment(601)) && schedule.deadline(at: moment(601)) == moment(610).monotonic)
        #expect(schedule.isDue(at: moment(610)))
        schedule.recordStart()
        schedule.recordFailure(at: moment(610).monotonic)
        schedule.add(in: anna, at: moment(0).wall)
        #expect(!schedule.isDue(at: moment(611)) && schedule.deadline(at: moment(611)) == moment(610 + 3_600).monotonic)
        #expect(schedule.isDue(at: moment(610 + 3_600)))
    }

    @Test("a changed setting is in force at once, also for lines that are stored")
    func changed() throws {
        var schedule = makeSchedule()
        #expect(schedule.lifetime(of: anna) == ConversationLifetime(.standard, standard: tenMinutes))
        schedule.set(.unlimited, of: anna)
        #expect(schedule.lifetime(of: anna).current == nil && schedule.isDue(at: moment(0)))
        schedule.recordStart()
        schedule.recordEnd(expiry(), at: moment(0).monotonic)
        schedule.add(in: anna, at: moment(0).wall)
        #expect(schedule.deadline(at: moment(0)) == nil)
        let day = try #require(MessageLifetime("1d"))
        schedule.set(.limited(day), of: anna)
        #expect(schedule.lifetime(of: anna).current == day && schedule.lifetime(of: .publicRoom).current == tenMinutes)
        schedule.set(.standard, of: anna)
        #expect(schedule.lifetime(of: anna) == ConversationLifetime(.standard, standard: tenMinutes))
    }
}
