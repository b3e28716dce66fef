import NearshareInterfaces
import Testing

@Suite("polling before a sleep") struct AdaptivePollingTests {
    private static let short = Duration.microseconds(130)
    private static let quick = Duration.microseconds(30)
    private static let late = Duration.microseconds(200)

    private func polling() -> AdaptivePolling {
        var polling = AdaptivePolling()
        polling.recordSleep(Self.short)
        return polling
    }

    /// Records sleeps until a poll is due.
    /// - Returns: the number of sleeps.
    private func sleepUntilDue(_ polling: inout AdaptivePolling) -> Int {
        var count = 0
        while !polling.isDue, count < 10_000 {
            polling.recordSleep(Self.short)
            count += 1
        }
        return count
    }

    /// Records late polls until none is due.
    /// - Returns: the number of polls.
    private func pollUntilPaused(_ polling: inout AdaptivePolling) -> Int {
        var count = 0
        while polling.isDue, count < 10_000 {
            polling.recordPoll(Self.late)
            count += 1
        }
        return count
    }

    @Test("the first wait sleeps; after a short sleep the next one polls, after a long one it does not") func beginning() {
        var polling = AdaptivePolling()
        #expect(!polling.isDue)
        polling.recordSleep(AdaptivePolling.limit)
        #expect(!polling.isDue)
        polling.recordSleep(Self.short)
        #expect(polling.isDue)
        polling.recordSleep(.seconds(1))
        #expect(polling.isDue, "one long wait between two short ones")
    }

    @Test("a poll of 200 µs costs what four quick ones earn") func credit() {
        var polling = polling()
        for _ in 0..<100 {
            polling.recordPoll(Self.late)
            for _ in 0..<4 { polling.recordPoll(Self.quick) }
        }
        #expect(polling.isDue)
        #expect(pollUntilPaused(&polling) == 8)
        // A quick one before each late one earns too little.
        #expect(sleepUntilDue(&polling) == 2)
        var count = 0
        while polling.isDue, count < 100 {
            polling.recordPoll(Self.quick)
            polling.recordPoll(Self.late)
            count += 1
        }
        #expect(count == 11)
    }

    @Test("the pauses after late polls double, up to 256 short sleeps, and start again after 32 quick polls") func pauses() {
        var polling = polling()
        for pause in [2, 4, 8, 16, 32, 64, 128, 256, 256] {
            #expect(pollUntilPaused(&polling) == 8)
            #expect(sleepUntilDue(&polling) == pause)
        }
        for _ in 0..<32 { polling.recordPoll(Self.quick) }
        #expect(pollUntilPaused(&polling) == 16)
        #expect(sleepUntilDue(&polling) == 1)
    }
}
