import Glibc
import Nearshare
import NearshareEngine
import NearshareStorage
import NearshareTesting
import Testing

@Suite struct MachineIdentityTests {
    private let scratch = ScratchFolder()

    private func machine(_ identity: MachineIdentity) throws -> LocalMachine {
        try LocalMachine(
            identity: identity,
            environment: [
                "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
                "XDG_RUNTIME_DIR": scratch("run"),
            ])
    }

    @Test("an application has a key of its own, which it keeps") func applications() throws {
        let identities: [MachineIdentity] = [.user, .application("org.example.game"), .application("other"), .ephemeral]
        // The machines are kept: an ephemeral one is removed with its state.
        let machines = try (identities + identities).map { try machine($0) }
        let keys = try machines.map { try $0.state.identity().peerID }
        #expect(Set(keys.prefix(4)).count == 4)
        #expect(keys[4..<7] == keys[0..<3] && keys[7] != keys[3])
        #expect(try machine(identities[1]).state.path == scratch("state") + "/nearshare/applications/org.example.game")
    }

    @Test("an ephemeral identity is removed with the machine and its nodes") func ephemeral() throws {
        var machine: LocalMachine? = try machine(.ephemeral)
        let path = try #require(machine?.state.path)
        var settings = try machine?.nodeSettings(discovery: nil)
        machine = nil
        #expect(access(path + "/identity.key", F_OK) == 0)
        #expect(settings?.friends() == [])
        settings = nil
        #expect(access(path, F_OK) != 0)
    }

    @Test("the identifier of an application is no path", arguments: ["", ".", "..", "../x", "a/b", "ä", "a b"])
    func invalid(_ name: String) {
        #expect(throws: StorageError.self) { try machine(.application(name)) }
    }
}
