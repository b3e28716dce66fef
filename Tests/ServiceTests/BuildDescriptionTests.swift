import NearshareBase
import Testing

@testable import NearshareService

@Suite("the description of the build")
struct BuildDescriptionTests {
    @Test func `the version of a library is the number that the library states`() throws {
        let rows = BuildDescription().rows()
        let sqlite = try #require(rows.first { $0[0] == "sqlite" })
        #expect(sqlite[1].wholeMatch(of: /3\.\d+\.\d+/) != nil)
        #expect(rows.first?.first == "build" && rows.last?.first == "Bluetooth")
        #expect(rows.allSatisfy { $0.count == 2 && !$0[1].isEmpty })
    }

    @Test func `a missing library is named with what it is needed for and its package`() {
        let library = BuildDescription.Library("absent", file: "libabsent.so.9", for: "flying", package: "libabsent9")
        #expect(
            BuildDescription().rows(libraries: [library])[1]
                == ["absent", "missing; needed for flying (Debian: libabsent9)"])
    }
}
