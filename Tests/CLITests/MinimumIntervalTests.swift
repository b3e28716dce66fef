import Nearshare
import Testing

@testable import NearshareCLI

@Suite struct MinimumIntervalTests {
    private func admitted(_ interval: inout MinimumInterval, _ times: [Int64]) -> [Bool] {
        times.map { interval.admit(at: WallTime(milliseconds: $0)) }
    }

    @Test func `an action that is rejected does not put off the next one`() {
        var interval = MinimumInterval(.seconds(3))
        let results = admitted(&interval, [10_000, 12_999, 13_000, 13_001])
        #expect(results == [true, false, true, false])
    }

    @Test func `a clock that was set back refuses nothing`() {
        var interval = MinimumInterval(.seconds(3))
        let results = admitted(&interval, [10_000, 0, 2_999])
        #expect(results == [true, true, false])
    }

    @Test func `an action that is performed in any case counts as well`() {
        var interval = MinimumInterval(.seconds(3))
        interval.record(at: WallTime(milliseconds: 10_000))
        let results = admitted(&interval, [12_000, 13_000])
        #expect(results == [false, true])
    }
}
