import FoundationEssentials
import Glibc
import Nearshare
import NearshareService
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("paths on the chat screen") struct PathCompletionTests {
    private let scratch = ScratchFolder()

    private func completion() throws -> PathCompletion {
        for folder in ["photos", "photos/old", ".hidden"] {
            try FileManager.default.createDirectory(atPath: scratch(folder), withIntermediateDirectories: true)
        }
        for file in ["photo.jpg", "photos/a.png", "photos/b\u{1b}.png", "notes.txt", ".profile"] {
            try Data("x".utf8).write(to: URL(filePath: scratch(file)))
        }
        return PathCompletion(home: scratch.path)
    }

    @Test func `names with the typed beginning are offered, folders with a slash`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: scratch("pho")) == [scratch("photo.jpg"), scratch("photos/")])
        #expect(completion.paths(beginningWith: scratch("x")).isEmpty)
        #expect(completion.paths(beginningWith: scratch("nowhere/")).isEmpty)
    }

    @Test func `a link to a directory is offered with a slash, as the directory itself`() throws {
        let completion = try completion()
        try FileManager.default.createSymbolicLink(atPath: scratch("pictures"), withDestinationPath: scratch("photos"))
        try FileManager.default.createSymbolicLink(atPath: scratch("picture"), withDestinationPath: scratch("photo.jpg"))
        #expect(completion.paths(beginningWith: scratch("pic")) == [scratch("picture"), scratch("pictures/")])
    }

    @Test("P11: a name that is no UTF-8 is not offered: its repaired form names no file")
    func invalidName() throws {
        let completion = try completion()
        let path = Array(scratch("pho").utf8CString.dropLast()) + [CChar(bitPattern: 0xff), 0]
        let descriptor = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0o600)
        try #require(descriptor >= 0)
        close(descriptor)
        #expect(completion.paths(beginningWith: scratch("pho")) == [scratch("photo.jpg"), scratch("photos/")])
    }

    @Test("T1: names that need escaping are not offered")
    func escaping() throws {
        #expect(try completion().paths(beginningWith: scratch("photos/")) == [scratch("photos/a.png"), scratch("photos/old/")])
    }

    @Test func `hidden names are offered after a dot only`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: "~/").allSatisfy { !$0.hasPrefix("~/.") })
        let hidden = completion.paths(beginningWith: "~/.")
        #expect(hidden.contains("~/.hidden/") && hidden.contains("~/.profile"))
    }

    @Test func `a tilde is the home directory, at the beginning only`() throws {
        let completion = try completion()
        #expect(completion.paths(beginningWith: "~/no") == ["~/notes.txt"])
        guard case .success(let path) = completion.resolve("~/photos/../notes.txt") else {
            Issue.record("the path was not resolved")
            return
        }
        #expect(path.hasSuffix("/notes.txt") && !path.contains("..") && path.hasPrefix("/"))
        guard case .failure(let failure) = completion.resolve(scratch("~/notes.txt")) else {
            Issue.record("a tilde in the middle was replaced")
            return
        }
        #expect(failure.kind == .storage && failure.description == "no such file or directory; Tab completes names")
        guard case .failure(let plain) = PathCompletion(hasTabKey: false).resolve(scratch("missing.txt")) else {
            Issue.record("a missing file was found")
            return
        }
        #expect(plain.description == "no such file or directory")
        guard case .failure(let other) = completion.resolve(scratch("notes.txt/x")) else {
            Issue.record("a file has no entries")
            return
        }
        #expect(other.description == "not a directory")
    }

    @Test func `a folder is not sent from the chat, with the command that sends it`() throws {
        let completion = try completion()
        guard case .failure(let failure) = completion.resolve(scratch("photos")) else {
            Issue.record("a folder was accepted")
            return
        }
        #expect(failure.description.contains("`nearshare send FOLDER --to NAME`"))
    }
}
