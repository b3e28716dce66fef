import NearshareService
import Testing

@testable import NearshareCLI

@Suite("removal of received items") struct InboxCommandTests {
    @Test func `the other items are removed after a failure, which has another exit status than the failure of all`() {
        #expect(InboxRemoveCommand.status(after: [.failure], removedCount: 1) == .partly)
        #expect(InboxRemoveCommand.status(after: [.failure], removedCount: 0) == .failure)
        #expect(InboxRemoveCommand.status(after: [], removedCount: 2) == nil)
    }
}
