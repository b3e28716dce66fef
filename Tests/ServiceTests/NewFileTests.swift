import Glibc
import NearshareInterfaces
import NearshareTesting
import Testing

@testable import NearshareService

@Suite("new files of text") struct NewFileTests {
    private let scratch = ScratchFolder()

    private func status(of name: String) throws -> stat {
        var status = stat()
        try #require(stat(scratch(name), &status) == 0)
        return status
    }

    @Test("a private file is for the user alone", arguments: [true, false]) func created(isPrivate: Bool) throws {
        try NewFile.create(scratch("a"), isPrivate: isPrivate, holding: "text")
        let status = try status(of: "a")
        #expect(status.st_size == 4)
        #expect(status.st_mode & 0o600 == 0o600 && (!isPrivate || status.st_mode & 0o077 == 0))
    }

    @Test("what has the path stays as it is, also a link that leads nowhere") func existing() throws {
        try NewFile.create(scratch("a"), isPrivate: true, holding: "first")
        let file = #expect(throws: SystemCallError.self) {
            try NewFile.create(scratch("a"), isPrivate: true, holding: "second one")
        }
        #expect(file?.code == EEXIST)
        #expect(try status(of: "a").st_size == 5)
        #expect(symlink(scratch("away"), scratch("link")) == 0)
        let link = #expect(throws: SystemCallError.self) {
            try NewFile.create(scratch("link"), isPrivate: true, holding: "text")
        }
        #expect(link?.code == EEXIST && access(scratch("away"), F_OK) != 0)
    }
}
