import Testing

@testable import NearshareCLI

@Suite("setup, as it is parsed") struct SetupParsingTests {
    @Test func `its answers are typed, not given as arguments`() throws {
        _ = try parse(["setup"], as: SetupCommand.self)
        for line in [["setup", "anna"], ["setup", "--name", "anna"], ["setup", "--accept", "friends"]] {
            #expect(usageError(line) != nil, "\(line)")
        }
    }
}
