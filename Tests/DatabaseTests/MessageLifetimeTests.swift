import FoundationEssentials
import NearshareBase
import NearshareInterfaces
import Testing

@Suite("lifetimes of lines") struct MessageLifetimeTests {
    @Test(
        "a lifetime is read in minutes, hours and days, and written in the largest unit that fits",
        arguments: [
            ("1m", 60, "1m", "1 minute"), ("10m", 600, "10m", "10 minutes"), ("60m", 3_600, "1h", "1 hour"),
            ("90m", 5_400, "90m", "90 minutes"), ("24h", 86_400, "1d", "1 day"), ("7d", 604_800, "7d", "7 days"),
            ("365d", 31_536_000, "365d", "365 days"), ("007h", 25_200, "7h", "7 hours"),
        ])
    func valid(_ written: String, _ seconds: Int, _ text: String, _ words: String) throws {
        let lifetime = try #require(MessageLifetime(written))
        #expect(lifetime.seconds == seconds && lifetime.text == text && lifetime.words == words)
        #expect(LifetimeSetting(written) == .limited(lifetime))
        let encoded = try JSONEncoder().encode(lifetime)
        #expect(try JSONDecoder().decode(MessageLifetime.self, from: encoded) == lifetime)
    }

    @Test(
        "another text is no lifetime",
        arguments: [
            "", "m", "10", "0m", "-1m", "+1m", "1 m", "1.5h", "1w", "1M", "10min", "366d", "525601m", "99999999999999999999d",
            "9223372036854775807d", "１h", "1h\u{301}",
        ])
    func invalid(_ text: String) {
        #expect(MessageLifetime(text) == nil && LifetimeSetting(text) == nil)
    }

    @Test(
        "seconds outside of the bounds are no lifetime, from another program either",
        arguments: [Int.min, -60, 0, 59, 90, 31_536_060, Int.max])
    func bounds(_ seconds: Int) {
        #expect(MessageLifetime(rawValue: seconds) == nil)
        let encoded = Data("\(seconds)".utf8)
        #expect(throws: DecodingError.self) { try JSONDecoder().decode(MessageLifetime.self, from: encoded) }
    }

    @Test("the setting of a conversation precedes that of the configuration")
    func settings() throws {
        let (hour, day) = (try #require(MessageLifetime("1h")), try #require(MessageLifetime("1d")))
        #expect(ConversationLifetime(.standard, standard: hour).current == hour)
        #expect(ConversationLifetime(.standard, standard: nil).current == nil)
        #expect(ConversationLifetime(.unlimited, standard: hour).current == nil)
        #expect(ConversationLifetime(.limited(day), standard: hour).current == day)
        #expect(LifetimeSetting("off") == .unlimited && LifetimeSetting("default") == .standard)
    }

    @Test("times at the bounds of the clock do not overflow")
    func clamped() throws {
        let lifetime = try #require(MessageLifetime("1m"))
        #expect(lifetime.end(from: WallTime(milliseconds: .max)) == WallTime(milliseconds: .max))
        #expect(lifetime.latestExpired(at: WallTime(milliseconds: .min)) == WallTime(milliseconds: .min))
        #expect(lifetime.end(from: WallTime(milliseconds: 5)) == WallTime(milliseconds: 60_005))
        #expect(lifetime.latestExpired(at: WallTime(milliseconds: 60_005)) == WallTime(milliseconds: 5))
    }
}
