import Nearshare
import Testing

@testable import NearshareService
@testable import NearshareStorage

@Suite struct RecordedOutcomeTests {
    @Test("the history stores the words of JSON events")
    func words() {
        let outcomes: [TransferOutcome] = [
            .completed, .declined(.busy), .expired, .cancelled(by: .local), .failed(.noSpace, at: .remote), .interrupted,
        ]
        for outcome in outcomes { #expect(RecordedOutcome(outcome).rawValue == outcome.word) }
        #expect(RecordedOutcome.partial.rawValue == MissingFiles.word)
        #expect(RecordedOutcome.running.rawValue == TransferLog.runningOutcome)
    }
}
