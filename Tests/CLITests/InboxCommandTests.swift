import FoundationEssentials
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("items of the inbox") struct InboxCommandTests {
    private let scratch = ScratchFolder()

    private func entry(_ path: String, size: UInt64 = 3, isFolder: Bool = false) throws -> ReceiveHistory.Entry {
        ReceiveHistory.Entry(
            when: WallTime(milliseconds: 1), peer: try #require(Fingerprint(bytes: [UInt8](repeating: 1, count: 32))),
            peerName: try DisplayName("anna"), claimedName: "x", path: path, size: size, type: nil, isFolder: isFolder)
    }

    @Test func `a path selects its item also where a later one has the name`() throws {
        let entries = [try entry("/here/a.txt"), try entry("/inbox/a.txt")]
        #expect(ReceivedItemArgument.select("a.txt", absolute: "/here/a.txt", among: entries) == entries[0])
        #expect(ReceivedItemArgument.select("a.txt", absolute: "/there/a.txt", among: entries) == entries[1])
        #expect(ReceivedItemArgument.select("b.txt", absolute: "/here/b.txt", among: entries) == nil)
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

    @Test func `a folder that may have been there before is not removed`() throws {
        var folder = try entry(scratch.path, isFolder: true)
        try InboxRemoveCommand.requireOnlyReceivedContent(folder)
        folder.isMerged = true
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(folder) }
        folder.isMerged = nil
        #expect(throws: CommandFailure.self) { try InboxRemoveCommand.requireOnlyReceivedContent(folder) }
    }
}
