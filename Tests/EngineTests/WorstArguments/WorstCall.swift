import NearshareBase
import NearshareDirect
import NearshareEngine
import NearshareInterfaces
import Testing

/// Public declarations of the library, and calls of them with their worst arguments. `.ci/check-api` compares the names with the
/// library's interface.
struct WorstCall: Sendable, CustomTestStringConvertible {
    private let names: [String]
    /// Makes all calls of an entry.
    let run: @Sendable () async throws -> Void

    var testDescription: String { names[0] }

    /// Calls of values, which need no node.
    init(_ names: String..., calls: @escaping @Sendable () async throws -> Void) {
        self.names = names
        run = {
            try await calls()
            try await Self.atOnce(calls)
        }
    }

    /// Calls of what is part of a scene.
    init(_ names: String..., in calls: @escaping @Sendable (WorstScene) async throws -> Void) {
        self.init(names, of: { _ in }, calls: { scene, _ in try await calls(scene) })
    }

    /// Calls of a subject: once, again, from several tasks at once, and after the end of the sessions and nodes.
    init<Subject: Sendable>(
        _ names: String..., of subject: @escaping @Sendable (WorstScene) async throws -> Subject,
        calls: @escaping @Sendable (WorstScene, Subject) async throws -> Void
    ) {
        self.init(names, of: subject, calls: calls)
    }

    private init<Subject: Sendable>(
        _ names: [String], of subject: @escaping @Sendable (WorstScene) async throws -> Subject,
        calls: @escaping @Sendable (WorstScene, Subject) async throws -> Void
    ) {
        self.names = names
        run = {
            let scene = try await WorstScene()
            do {
                let subject = try await subject(scene)
                try await calls(scene, subject)
                try await calls(scene, subject)
                try await Self.atOnce { try await calls(scene, subject) }
                await scene.end()
                try await calls(scene, subject)
            } catch {
                await scene.end()
                throw error
            }
        }
    }

    private static func atOnce(_ calls: @escaping @Sendable () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { try await calls() } }
            try await group.waitForAll()
        }
    }
}

/// Makes a call, whose task is cancelled after a moment. Fails the test for an error whose type is not the library's.
func attempt<Result: Sendable>(
    for time: Duration = .milliseconds(100), _ call: @escaping @Sendable () async throws -> Result,
    sourceLocation: SourceLocation = #_sourceLocation
) async {
    do {
        _ = try await withTimeout(time) { try await call() }
    } catch {
        expectTyped(error, sourceLocation: sourceLocation)
    }
}

/// Makes a call that returns at once.
@discardableResult
func attempt<Result>(_ call: () throws -> Result, sourceLocation: SourceLocation = #_sourceLocation) -> Result? {
    do {
        return try call()
    } catch {
        expectTyped(error, sourceLocation: sourceLocation)
        return nil
    }
}

private func expectTyped(_ error: any Error, sourceLocation: SourceLocation) {
    let isTyped =
        switch error {
        case is NodeError, is SessionError, is StorageError, is StreamError, is InvalidName: true
        case is EncodingError, is DecodingError, is CancellationError: true
        default: false
        }
    #expect(isTyped, "\(type(of: error)): \(error)", sourceLocation: sourceLocation)
    // A description can trap as well.
    _ = "\(error)"
}
