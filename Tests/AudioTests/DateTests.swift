import NearshareBase
import NearshareInterfaces
import Testing

@testable import NearshareAudio

@Suite struct DateTests {
    @Test(arguments: [
        (Int64(0), "1970-01-01T00:00:00Z"), (951_782_399_000, "2000-02-28T23:59:59Z"),
        (951_782_400_000, "2000-02-29T00:00:00Z"),
        (1_795_259_533_000, "2026-11-21T11:12:13Z"), (-1000, "1969-12-31T23:59:59Z"),
    ])
    func `a time is written and read as ISO 8601`(_ milliseconds: Int64, _ text: String) {
        let time = WallTime(milliseconds: milliseconds)
        #expect(time.iso8601 == text)
        #expect(WallTime(iso8601: text) == time)
    }

    @Test(arguments: [
        "2026-02-29", "2026-04-31", "2026-11-21T24:00:00Z", "2026-11-21T10:12:60Z", "2026-11-21T10:12:13+", " 2026-11-2",
        "+026-11-21", "2026-1-021", "2026-11-21T10:12:13z", "", "now", "2026-13-01", "2026-11-21T25:00:00Z",
        "2026-11-21 11:12:13Z", "2026-11-2１", "99999-01-01",
    ])
    func `texts that are no valid time of ISO 8601 are rejected`(_ text: String) {
        #expect(WallTime(iso8601: text) == nil)
    }

    @Test("times at the ends of 64 bits are written without overflow", arguments: [Int64.min, .max])
    func extremes(_ milliseconds: Int64) {
        #expect(WallTime(iso8601: WallTime(milliseconds: milliseconds).iso8601) == nil)
    }

    @Test("every day of a century survives")
    func days() {
        for day in Int64(-10_957)..<Int64(25_568) {
            let time = WallTime(milliseconds: day * 86_400_000)
            #expect(WallTime(iso8601: time.iso8601) == time)
            #expect(WallTime(iso8601: String(time.iso8601.prefix(10))) == time)
        }
    }
}
