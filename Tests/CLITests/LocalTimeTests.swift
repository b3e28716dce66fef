import FoundationEssentials
import Nearshare
import NearshareBundles
import NearshareService
import NearshareTerminal
import Testing

@testable import NearshareCLI

@Suite("local time") struct LocalTimeTests {
    @Test func `day, clock and minute have fixed forms`() {
        let time = WallTime(milliseconds: 1_795_271_100_000)
        let local = LocalTime(time)
        #expect(local.clock.count == 5 && local.clock.contains(":"))
        #expect(local.day.split(separator: " ").count == 4)
        #expect(time.localText.count == 16 && time.localText.hasSuffix(local.clock))
        // Times before 1970 and after 9999 are claims of peers, and must not trap (R7).
        for claimed in [Int64.min, -1, 0, .max] { #expect(WallTime(milliseconds: claimed).localText.utf8.count < 64) }
    }
}
