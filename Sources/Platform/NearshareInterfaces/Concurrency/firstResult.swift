// Overloads rather than typed throws: with those, Swift 6.3 makes a call hang whose operations return an optional, and one of
// them a plain value.

/// Runs operations at the same time until one has ended; the others are cancelled, and waited for.
/// - Returns: the result of the one that ended first.
@discardableResult
package func firstResult<Value: Sendable>(of operations: (@Sendable () async -> Value)...) async -> Value {
    await withTaskGroup(of: Value.self) { group in
        for operation in operations { group.addTask { await operation() } }
        defer { group.cancelAll() }
        // Safe: there is at least one operation.
        return await group.next()!
    }
}

/// Runs operations at the same time until one has ended; the others are cancelled, and waited for.
/// - Returns: the result of the one that ended first.
/// - Throws: the error of the one that ended first.
@discardableResult
package func firstResult<Value: Sendable>(of operations: (@Sendable () async throws -> Value)...) async throws -> Value {
    try await withThrowingTaskGroup(of: Value.self) { group in
        for operation in operations { group.addTask { try await operation() } }
        defer { group.cancelAll() }
        // Safe: there is at least one operation.
        return try await group.next()!
    }
}

/// Runs an operation, which is cancelled after a while, and waited for.
/// - Returns: nil when the time was over first.
@discardableResult
package func withTimeout<Value: Sendable>(
    _ duration: Duration, _ operation: @escaping @Sendable () async -> Value
) async -> Value? {
    await firstResult(
        of: operation,
        { () -> Value? in
            try? await Task.sleep(for: max(duration, .zero))
            return nil
        })
}

/// Runs an operation, which is cancelled after a while, and waited for.
/// - Returns: nil when the time was over first.
@discardableResult
package func withTimeout<Value: Sendable>(
    _ duration: Duration, _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
    try await firstResult(
        of: operation,
        { () -> Value? in
            try? await Task.sleep(for: max(duration, .zero))
            return nil
        })
}
