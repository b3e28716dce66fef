import Nearshare
import NearshareAudio
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite struct DurationArgumentTests {
    @Test(
        "seconds, and minutes and hours before colons",
        arguments: [
            ("90", 90), ("1:30", 90), ("0.5", 0.5), ("0.1", 0.1), ("0:59.5", 59.5), ("1:00:00", 3600), ("24:00:00", 86_400),
        ] as [(String, Double)])
    func lengths(_ text: String, _ seconds: Double) throws {
        #expect(try #require(DurationArgument(argument: text)).duration == .milliseconds(Int64(seconds * 1000)))
    }

    @Test(
        "all else is rejected",
        arguments: [
            "", "0", "-1", "1:60", "1:75:00", "0:60:00", "1:-5", "1:2:3:4", ":", "1:", "nan", "inf", "1e1", "0x10", "+5",
            "1:+5", "1:-0", "a", "24:00:01", "70000:00",
        ])
    func rejected(_ text: String) {
        #expect(DurationArgument(argument: text) == nil)
    }
}
