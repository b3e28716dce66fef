import NearshareDirect
import NearshareEngine
import Testing

/// The totals of `docs/THREATS.md` that no single part of the node knows.
@Suite struct TotalBudgetTests {
    private let limits = NodeLimits()
    /// A mesh node's links, of which each has a reader, a writer and a socket.
    private let meshLinks = 16

    @Test("R3: the budgets of links fit into what the unit and the process allow, also when each has all its transfers")
    func links() {
        let (threadsOfLink, threadsOfTransfer) = (2, 1)
        let (descriptorsOfLink, descriptorsOfTransfer) = (1, 10)
        let transfers = limits.connection.incomingTransfers
        let threads = limits.links * (threadsOfLink + transfers * threadsOfTransfer) + meshLinks * threadsOfLink
        let descriptors = limits.links * (descriptorsOfLink + transfers * descriptorsOfTransfer) + meshLinks * descriptorsOfLink
        // TasksMax= in docs/nearshare.service, and the number to which the tool raises its own limit.
        #expect(threads == 416)
        #expect(threads < 1_024)
        #expect(descriptors == 2_640)
        #expect(descriptors < 8_192)
    }

    @Test("Q6: untrusted peers leave places for friends") func friends() {
        #expect(limits.links - limits.linksKeptForFriends == 48)
        #expect(limits.linksPerNetwork < limits.links - limits.linksKeptForFriends)
    }
}
