import Nearshare
import NearshareTestTraits
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("the peer that a text means to a running node", .timeLimit(.minutes(1)), .leavesNothing)
struct ContactDirectoryTests {
    private let stage = ServiceStage()

    /// Runs a node of the user in the mesh, until `body` returns.
    /// - Parameter isAnnounced: whether other nodes discover it; one that is not discovers them.
    private func withMessenger<Result: Sendable>(
        of user: StageUser, isAnnounced: Bool = true, _ body: @Sendable (Messenger) async throws -> Result
    ) async throws -> Result {
        let stores = try NodeStores(directory: user.machine.state.path)
        return try await withNode(try user.settings()) { node in
            let listener = try isAnnounced ? node.listen() : nil
            let messenger = try node.startMessenger(
                MessengerSettings(bundles: stores.bundles, conversations: stores.conversations))
            let result = try await body(messenger)
            node.beginShutdown()
            withExtendedLifetime(listener) {}
            return result
        }
    }

    @Test("K2: of two unknown peers with one name, the one that is connected first is not meant", arguments: ["zoe", "Zoe"])
    func namesakes(_ otherName: String) async throws {
        let (ada, first, second) = (try stage.user("ada"), try stage.user("zoe"), try stage.user(otherName))
        try await withMessenger(of: ada, isAnnounced: false) { messenger in
            // Longer than the search: the second peer ends it.
            let directory = ContactDirectory(ada.machine, messenger: messenger, settlingTime: .seconds(600))
            try await withMessenger(of: first) { _ in
                let found = try await ContactDirectory(ada.machine, messenger: messenger, settlingTime: .zero)
                    .find("zoe", timeout: .seconds(20))
                #expect(found.id == first.id)
                let search = Task { try await directory.find("zoe", timeout: .seconds(50)) }
                let failure: ControlFailure? = try await withMessenger(of: second) { _ in
                    return await #expect(throws: ControlFailure.self) { try await search.value }
                }
                #expect(failure?.kind == .ambiguous)
                #expect(failure?.description.contains("\(first.id)  new") == true)
                #expect(failure?.description.contains("\(second.id)  new") == true)
            }
        }
    }

    @Test func `a peer that the user knows, and an id, are not waited for`() async throws {
        let (ada, bea) = (try stage.user("ada"), try stage.user("bea"))
        try await withMessenger(of: ada, isAnnounced: false) { messenger in
            let directory = ContactDirectory(ada.machine, messenger: messenger, settlingTime: .seconds(600))
            try await withMessenger(of: bea) { _ in
                #expect(try await directory.find(bea.id.hex, timeout: .seconds(600)).id == bea.id)
                try ada.introduce(bea.fingerprint, as: "bea")
                #expect(try await directory.find("bea", timeout: .seconds(600)).id == bea.id)
            }
        }
    }
}
