import FoundationEssentials
import NearshareTesting
import Testing

@testable import NearshareCLI

@Suite("completion of programs") struct ProgramCompletionTests {
    @Test("T8: executable files of the path, whose names no shell gives a meaning")
    func names() throws {
        let scratch = ScratchFolder()
        let files = FileManager.default
        for folder in ["a/place", "b"] {
            try files.createDirectory(atPath: scratch(folder), withIntermediateDirectories: true)
        }
        for (name, mode) in [("a/play", 0o755), ("a/plain", 0o644), ("b/play", 0o755), ("b/pl$ay", 0o755), ("b/other", 0o755)] {
            #expect(files.createFile(atPath: scratch(name), contents: nil, attributes: [.posixPermissions: mode]))
        }
        let path = "\(scratch("a")):\(scratch("absent")):\(scratch("b"))"
        #expect(ProgramCompletion.programs(beginningWith: "pl", in: path) == ["play"])
        #expect(ProgramCompletion.programs(beginningWith: "", in: path) == ["other", "play"])
    }
}
