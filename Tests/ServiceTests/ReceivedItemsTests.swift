import FoundationEssentials
import Nearshare
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("items of the inbox") struct ReceivedItemsTests {
    private let scratch = ScratchFolder()

    private func entry(
        _ path: String, size: UInt64 = 3, type: String? = nil, isFolder: Bool = false, claimedName: String = "x",
        from digit: UInt8 = 1
    ) throws -> ReceiveHistory.Entry {
        ReceiveHistory.Entry(
            when: WallTime(milliseconds: 1), peer: try #require(Fingerprint(bytes: [UInt8](repeating: digit, count: 32))),
            peerName: try DisplayName("anna"), claimedName: claimedName, path: path, size: size, type: type, isFolder: isFolder)
    }

    /// A machine that has received items, the latest last.
    private func machine(received entries: [ReceiveHistory.Entry]) throws -> LocalMachine {
        let machine = try LocalMachine(environment: [
            "HOME": scratch("home"), "XDG_STATE_HOME": scratch("state"), "XDG_CONFIG_HOME": scratch("config"),
            "XDG_RUNTIME_DIR": scratch("run"),
        ])
        for entry in entries { try ReceiveHistory(in: machine.state).append(entry) }
        return machine
    }

    /// Writes three bytes, which is the size of an ``entry(_:size:isFolder:claimedName:)``.
    private func write(_ name: String) throws -> String {
        try Data("abc".utf8).write(to: URL(filePath: scratch(name)))
        return scratch(name)
    }

    @Test func `a path selects its item also where a later one has the name`() throws {
        let entries = [try entry("/here/a.txt"), try entry("/inbox/a.txt")]
        #expect(ReceivedItems.select("a.txt", absolute: "/here/a.txt", among: entries) == entries[0])
        #expect(ReceivedItems.select("a.txt", absolute: "/there/a.txt", among: entries) == entries[1])
        #expect(ReceivedItems.select("b.txt", absolute: "/here/b.txt", among: entries) == nil)
    }

    @Test func `the name that the sender gave an item selects it where none can be stored under that`() throws {
        let renamed = try entry("/inbox/_CON", claimedName: "CON")
        #expect(ReceivedItems.select("CON", absolute: "/here/CON", among: [renamed]) == renamed)
        let stored = try entry("/inbox/CON")
        #expect(ReceivedItems.select("CON", absolute: "/here/CON", among: [stored, renamed]) == stored)
        let second = try entry("/inbox/a (2).txt", claimedName: "a.txt")
        #expect(ReceivedItems.select("a.txt", absolute: "/here/a.txt", among: [second]) == nil)
    }

    @Test func `an item that is gone is told with the command that removes its record`() throws {
        let received = ReceivedItems(of: try machine(received: [entry(scratch("notes.txt"))]))
        let gone = #expect(throws: CommandFailure.self) { try received.find("notes.txt") }
        #expect(gone?.message.contains("notes.txt is no longer there; `nearshare inbox clean` removes") == true)
        let unknown = #expect(throws: CommandFailure.self) { try received.find("other.txt") }
        #expect(unknown?.message.contains("is no received item") == true)
        #expect(throws: CommandFailure.self) { try received.latest() }
    }

    @Test func `the latest item, and the names for completion, are those of items that are still there`() throws {
        let entries = [try entry(write("a.txt")), try entry(write("b.txt")), try entry(scratch("gone.txt"))]
        let received = ReceivedItems(of: try machine(received: entries))
        #expect(try received.latest() == entries[1])
        #expect(try received.fileNames() == ["a.txt", "b.txt"])
        #expect(try received.find("a.txt/") == entries[0])
    }

    @Test func `a picture is selected like another item, and what is none is named with the command that opens it`() throws {
        let entries = [
            try entry(write("a.png"), type: "image/png"), try entry(write("b.txt"), type: "text/plain"),
            try entry(scratch.path, type: "image/png", isFolder: true), try entry(write("c")),
        ]
        let received = ReceivedItems(of: try machine(received: entries))
        #expect(try received.findPicture("a.png") == entries[0])
        for (name, type) in [("b.txt", "text/plain"), (scratch.path, "a folder"), ("c", "of unknown type")] {
            let failure = #expect(throws: CommandFailure.self) { try received.findPicture(name) }
            let words = "is no picture (\(type)); `nearshare inbox open` opens it"
            #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
        }
        // The item received last.
        #expect(throws: CommandFailure.self) { try received.findPicture(nil) }
    }

    @Test func `the latest picture of a peer is one that is still there`() throws {
        let entries = [
            try entry(write("a.png"), type: "image/png"), try entry(write("b.jpg"), type: "image/jpeg", from: 2),
            try entry(write("c.txt"), type: "text/plain"), try entry(scratch("gone.png"), type: "image/png"),
        ]
        let received = ReceivedItems(of: try machine(received: entries))
        #expect(try received.latestPicture(from: nil) == entries[1])
        #expect(try received.latestPicture(from: entries[0].peer.peerID) == entries[0])
        let other = try #require(PeerID(hex: "1a2b3c4d5e6f7081"))
        let failure = #expect(throws: CommandFailure.self) { try received.latestPicture(from: other) }
        #expect(failure?.message.contains("no picture was received here") == true)
    }

    @Test func `what has the place of a received file is not removed`() throws {
        let path = try write("a.txt")
        try ReceivedItems.requireOnlyReceivedContent(entry(path))
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(entry(path, size: 4)) }
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(entry(path, isFolder: true)) }
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(entry(scratch("b.txt"))) }
        let link = scratch("abc")
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: "abc")
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(entry(link)) }
    }

    @Test func `a folder that may have been there before is not removed`() throws {
        var folder = try entry(scratch.path, isFolder: true)
        try ReceivedItems.requireOnlyReceivedContent(folder)
        folder.isMerged = true
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(folder) }
        folder.isMerged = nil
        #expect(throws: CommandFailure.self) { try ReceivedItems.requireOnlyReceivedContent(folder) }
    }

    @Test func `a removed item stays in the history only`() throws {
        let path = try write("a.txt")
        let machine = try machine(received: [entry(path)])
        let received = ReceivedItems(of: machine)
        try received.remove(try received.findRemovable("a.txt"))
        #expect(!FileManager.default.fileExists(atPath: path))
        let history = ReceiveHistory(in: machine.state)
        #expect(try history.entries().isEmpty)
        #expect(try history.entries(includesRemoved: true).map(\.path) == [path])
    }

    @Test func `an item that changes before it is removed stays`() throws {
        let received = ReceivedItems(of: try machine(received: [entry(write("a.txt"))]))
        let found = try received.findRemovable("a.txt")
        try Data("abcd".utf8).write(to: URL(filePath: found.path))
        #expect(throws: CommandFailure.self) { try received.remove(found) }
        #expect(FileManager.default.fileExists(atPath: found.path))
    }

    @Test func `the records of gone and removed items are removed, but not of those on a disk that is not mounted`() throws {
        let unmounted = scratch("disk/c.txt")
        let machine = try machine(received: [
            entry(write("a.txt")), entry(write("b.txt")), entry(scratch("gone.txt")), entry(unmounted),
        ])
        let received = ReceivedItems(of: machine)
        try received.remove(try received.findRemovable("b.txt"))
        #expect(try received.removeRecordsOfGoneItems() == 2)
        let history = ReceiveHistory(in: machine.state)
        #expect(try history.entries(includesRemoved: true).map(\.path) == [scratch("a.txt"), unmounted])
    }
}
