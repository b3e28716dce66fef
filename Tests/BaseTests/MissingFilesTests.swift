import NearshareBase
import Testing

@Suite("files that are missing") struct MissingFilesTests {
    private func names(_ count: Int) throws -> [ClaimedFileName] {
        try (0..<count).map { try #require(ClaimedFileName("f\($0)")) }
    }

    @Test func `a sentence names them`() throws {
        #expect(MissingFiles(try names(1), of: 3)?.sentence == "1 of 3 files was not stored: f0")
        #expect(MissingFiles(try names(2), of: 3)?.sentence == "2 of 3 files were not stored: f0 and f1")
        #expect(MissingFiles(try names(7), of: 9)?.sentence == "7 of 9 files were not stored: f0, f1, f2, f3, f4 and 2 more")
    }

    @Test func `all and none are no part`() throws {
        #expect(MissingFiles(try names(3), of: 3) == nil && MissingFiles([], of: 3) == nil)
    }
}
