import Nearshare
import NearshareBundles
import Testing

@testable import NearshareService

@Suite("the known keys of peers") struct KnownKeysTests {
    private let stage = ServiceStage()

    private func identity(_ byte: UInt8) -> LocalIdentity { LocalIdentity(seed: [UInt8](repeating: byte, count: 64)) }

    /// Imports the keys of an identity under a name.
    private func importKeys(of identity: LocalIdentity, as name: String, on machine: LocalMachine) throws {
        let text = ExportedKeys.export(RouterKeys(identity), name: try DisplayName(name))
        _ = try KeyImport(machine).run(ExportedKeys(decoding: text), of: name, from: "f")
    }

    @Test("keys are listed by the local names of their owners, sorted") func sorted() throws {
        let anna = try stage.user("anna")
        try importKeys(of: identity(3), as: "eve", on: anna.machine)
        try importKeys(of: identity(2), as: "Ben", on: anna.machine)
        try anna.machine.trust.update { $0.setFriend(identity(2).fingerprint, to: true) }
        let contacts = try KnownKeys(anna.machine).contacts
        #expect(contacts.map(\.name.claimed) == ["Ben", "eve"])
        #expect(contacts.map(\.fingerprint) == [identity(2).fingerprint, identity(3).fingerprint])
        #expect(contacts.map(\.isFriend) == [true, false] && contacts.allSatisfy { !$0.isNameTaken })
    }

    @Test("the keys of the peer that a text selects are removed") func removal() throws {
        let anna = try stage.user("anna")
        try importKeys(of: identity(2), as: "ben", on: anna.machine)
        try importKeys(of: identity(3), as: "bert", on: anna.machine)
        for text in ["b", "eve"] {
            let failure = #expect(throws: CommandFailure.self) { try KnownKeys.remove(text, from: anna.machine) }
            #expect(failure?.status == .peerNotFound)
        }
        #expect(try KnownKeys.remove("ben", from: anna.machine).fingerprint == identity(2).fingerprint)
        #expect(try KnownKeys(anna.machine).contacts.map(\.name.claimed) == ["bert"])
    }
}
