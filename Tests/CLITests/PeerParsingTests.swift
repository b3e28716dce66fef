import ArgumentParser
import Nearshare
import NearshareAudio
import NearshareService
import Testing

@testable import NearshareCLI

@Suite("command lines of friends, peers, keys and identity") struct PeerParsingTests {
    @Test("the subcommand list is the default")
    func defaults() throws {
        _ = try parse(["friends"], as: FriendsListCommand.self)
        _ = try parse(["peers"], as: PeersListCommand.self)
        _ = try parse(["keys"], as: KeysListCommand.self)
        _ = try parse(["identity"], as: IdentityShowCommand.self)
    }

    @Test func `the subcommands of friends are parsed`() throws {
        let add: FriendsAddCommand = try parse(words("friends add anna --unverified --interface eth0 --adapter hci1"))
        #expect(
            add.peer == "anna" && add.unverified && add.nearby.interface == "eth0" && add.nearby.bluetooth.adapter == "hci1")
        let remove: FriendsRemoveCommand = try parse(words("friends remove anna"))
        #expect(remove.peer == "anna")
        #expect(try parse(words("friends list --json"), as: FriendsListCommand.self).output.json)
    }

    @Test func `the subcommands of peers are parsed`() throws {
        #expect(try parse(words("peers verify anna"), as: PeersVerifyCommand.self).peer == "anna")
        let rename: PeersRenameCommand = try parse(["peers", "rename", "anna", "Anna B."])
        #expect(rename.peerArgument.peer == "anna" && rename.name?.name.claimed == "Anna B.")
        #expect(try parse(words("peers rename anna"), as: PeersRenameCommand.self).name == nil)
        #expect(try parse(words("peers block anna"), as: PeersBlockCommand.self).peerArgument.peer == "anna")
        #expect(try parse(words("peers unblock anna"), as: PeersUnblockCommand.self).peerArgument.peer == "anna")
        #expect(try parse(words("peers forget anna"), as: PeersForgetCommand.self).peerArgument.peer == "anna")
    }

    @Test(
        "L1: a command whose process may become the node is confined",
        arguments: [
            "peers verify bitchat://verify?v=1", "message hi --to anna", "messages --follow", "chat anna", "mesh run",
            "receive",
        ])
    func confined(_ line: String) throws {
        #expect(try NearshareCommand.parseAsRoot(words(line)) is any ConfinedCommand)
    }

    @Test func `the subcommands of keys are parsed`() throws {
        #expect(try parse(words("keys export --output a.keys"), as: KeysExportCommand.self).output == "a.keys")
        let imported: KeysImportCommand = try parse(words("keys import a.keys --for anna"))
        #expect(imported.file == "a.keys" && imported.owner == "anna")
        #expect(try parse(words("keys forget anna"), as: KeysForgetCommand.self).peer == "anna")
    }

    @Test func `the subcommands of identity are parsed`() throws {
        #expect(try parse(words("identity show --json"), as: IdentityShowCommand.self).output.json)
        #expect(try parse(words("identity rename anna"), as: IdentityRenameCommand.self).name.name.claimed == "anna")
        #expect(try parse(words("identity destroy --yes"), as: IdentityDestroyCommand.self).yes)
    }

    @Test(
        "arguments are required, and nothing else is accepted",
        arguments: [
            "friends add", "friends remove", "friends add a b", "peers verify", "peers block", "peers rename", "keys import",
            "keys import a.keys", "keys forget", "identity rename", "identity destroy now", "peers list anna", "keys export a",
        ])
    func invalid(_ line: String) {
        #expect(usageError(words(line)) != nil, "\(line)")
    }

    @Test(
        "an empty peer is an error",
        arguments: [["friends", "add"], ["peers", "verify"], ["peers", "forget"], ["keys", "forget"]])
    func empty(_ line: [String]) {
        #expect(usageError(line + [" "]) != nil)
    }
}
