import Nearshare
import NearshareAudio
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite struct ClockArgumentTests {
    @Test(
        "seconds, and minutes and hours before colons",
        arguments: [("90", 90), ("1:30", 90), ("0.5", 0.5), ("1:00:00", 3600), ("24:00:00", 86_400)] as [(String, Double)])
    func lengths(_ text: String, _ seconds: Double) throws {
        #expect(try #require(ClockArgument(argument: text)).duration == .milliseconds(Int64(seconds * 1000)))
    }

    @Test(
        "what is none is refused",
        arguments: ["", "0", "-1", "1:60", "1:75:00", "0:60:00", "1:-5", "1:2:3:4", ":", "1:", "nan", "inf", "1e9", "25:00:00"])
    func refused(_ text: String) {
        #expect(ClockArgument(argument: text) == nil)
    }
}
