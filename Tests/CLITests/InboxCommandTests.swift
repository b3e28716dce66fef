import FoundationEssentials
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("items of the inbox") struct InboxCommandTests {
    private let scratch = ScratchFolder()

    private func entry(
        _ path: String, size: UInt64 = 3, isFolder: Bool = false, claimedName: String = "x"
    ) throws -> ReceiveHistory.Entry {
        ReceiveHistory.Entry(
            when: WallTime(milliseconds: 1), peer: try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32))),
            peerName: try DisplayName("anna"), claimedName: claimedName, path: path, size: size, type: nil, isFolder: isFolder)
    }

    @Test func `a path selects its item also where a later one has the name`() throws {
        let entries = [try entry("/here/a.txt"), try entry("/inbox/a.txt")]
        #expect(ReceivedItemArgument.select("a.txt", absolute: "/here/a.txt", among: entries) == entries[0])
        #expect(ReceivedItemArgument.select("a.txt", absolute: "/there/a.txt", among: entries) == entries[1])
        #expect(ReceivedItemArgument.select("b.txt", absolute: "/here/b.txt", among: entries) == nil)
    }

    @Test func `the name that the sender gave an item selects it where none can be stored under that`() throws {
        let renamed = try entry("/inbox/_CON", claimedName: "CON")
        #expect(ReceivedItemArgument.select("CON", absolute: "/here/CON", among: [renamed]) == renamed)
        let stored = try entry("/inbox/CON")
        #expect(ReceivedItemArgument.select("CON", absolute: "/here/CON", among: [stored, renamed]) == stored)
        let second = try entry("/inbox/a (2).txt", claimedName: "a.txt")
        #expect(ReceivedItemArgument.select("a.txt", absolute: "/here/a.txt", among: [second]) == nil)
    }

    @Test func `an item that is gone is told with the command that removes its record`() throws {
        let machine = try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
        try ReceiveHistory(in: machine.state).append(try entry(scratch("notes.txt")))
        let gone = #expect(throws: CommandFailure.self) { try ReceivedItemArgument.find("notes.txt", of: machine) }
        #expect(gone?.message.contains("notes.txt is no longer there; `nearshare inbox clean` removes") == true)
        let unknown = #expect(throws: CommandFailure.self) { try ReceivedItemArgument.find("other.txt", of: machine) }
        #expect(unknown?.message.contains("is no received item") == true)
    }

    @Test func `what has the place of a received file is not removed`() throws {
        let path = scratch("a.txt")
        try Data("abc".utf8).write(to: URL(filePath: path))
        try InboxRemoveCommand.requireOnlyReceivedContent(entry(path))
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(entry(path, size: 4)) }
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(entry(path, isFolder: true)) }
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(entry(scratch("b.txt"))) }
        let link = scratch("abc")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "abc")
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(entry(link)) }
    }

    @Test func `the other items are removed after a failure, which has another exit status than the failure of all`() {
        #expect(InboxRemoveCommand.status(after: [.failure], removedCount: 1) == .partly)
        #expect(InboxRemoveCommand.status(after: [.failure], removedCount: 0) == .failure)
        #expect(InboxRemoveCommand.status(after: [], removedCount: 2) == nil)
    }

    @Test func `a folder that may have been there before is not removed`() throws {
        var folder = try entry(scratch.path, isFolder: true)
        try InboxRemoveCommand.requireOnlyReceivedContent(folder)
        folder.isMerged = true
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(folder) }
        folder.isMerged = nil
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(folder) }
    }
}
