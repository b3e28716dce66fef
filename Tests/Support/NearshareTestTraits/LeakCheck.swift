internal import NearshareTesting
package import Testing

/// Fails a story that leaves threads, links or listeners behind.
///
/// Not in NearshareTesting, which benchmarks link without the library of tests.
package struct LeakCheck: TestTrait, SuiteTrait, TestScoping {
    private static let timeout = Duration.seconds(20)

    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing story: @Sendable () async throws -> Void
    ) async throws {
        let resources = StoryResources()
        try await resources.counting(story)
        let left = await resources.leftovers(within: Self.timeout)
        if !left.isEmpty {
            Issue.record("left behind: \(left.joined(separator: ", "))", sourceLocation: test.sourceLocation)
        }
    }
}

extension Trait where Self == LeakCheck {
    /// Everything that the story's nodes have started ends with it.
    package static var leavesNothing: Self { LeakCheck() }
}
