import FoundationEssentials
import NearshareDirect
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI
@testable import NearshareEngine

/// The totals of `docs/THREATS.md` that no single part of the node knows.
@Suite struct TotalBudgetTests {
    private struct Cost {
        var threads: Int
        var descriptors: Int

        static func * (count: Int, cost: Self) -> Self {
            Self(threads: count * cost.threads, descriptors: count * cost.descriptors)
        }
        static func + (one: Self, other: Self) -> Self {
            Self(threads: one.threads + other.threads, descriptors: one.descriptors + other.descriptors)
        }
    }

    private let limits = NodeLimits()
    /// A reader, a writer and a socket; also those of the user's own commands.
    private let link = Cost(threads: 2, descriptors: 1)
    private let waitingLink = Cost(threads: 0, descriptors: 1)
    private let transfer = Cost(threads: 1, descriptors: 10)

    /// TasksMax= of the unit.
    private static func maximumThreadCount() throws -> Int {
        let unit = try Data(contentsOf: URL(filePath: "\(Vectors.checkout)/docs/nearshare.service"))
        let lines = String(decoding: unit, as: UTF8.self).split(separator: "\n").filter { $0.hasPrefix("TasksMax=") }
        try #require(lines.count == 1)
        return try #require(Int(lines[0].dropFirst("TasksMax=".count)))
    }

    @Test("R3: the budgets of links fit into what the unit and the process allow, also when each has all its transfers")
    func links() throws {
        let direct = limits.links * (link + limits.connection.incomingTransfers * transfer)
        // Incoming and outgoing ones together.
        let mesh = MeshMachine.maximumLinkCount * link
        // Direct ones, and those that wait for the rate of the mesh or for a slot in it.
        let waiting = 3 * WaitingLinks.maximumCount * waitingLink
        // Links whose first bytes are awaited, and those that are told that there is no slot: by the node, by the page for
        // browsers, and by the server for LocalSend devices.
        let refused = 2 * RefusedLinks.maximumCount + LocalSendServer.maximumRejectionCount
        let others = UnreadLinks.maximumCount * Cost(threads: 1, descriptors: 1) + refused * link
        // Each command sends over a link of its own.
        let commands = ControlServer.maximumClientCount * (link + link + transfer)
        let total = direct + mesh + waiting + others + commands
        #expect(total.threads < (try Self.maximumThreadCount()))
        #expect(total.descriptors < Int(NearshareCommand.descriptorLimit))
    }

    @Test("Q6: untrusted peers leave slots for friends") func friends() {
        // The number in THREATS.md.
        #expect(limits.links - limits.linksKeptForFriends == 48)
        #expect(limits.linksPerNetwork < limits.links - limits.linksKeptForFriends)
    }
}
