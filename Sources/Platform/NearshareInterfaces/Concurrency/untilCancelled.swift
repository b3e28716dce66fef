/// Runs an operation of a program, which may never end, in a task of its own. When the calling task is cancelled, the operation is
/// cancelled as well, and not waited for: its result is dropped.
/// - Returns: nil when the calling task is cancelled first.
package func untilCancelled<Value: Sendable>(_ operation: @escaping @Sendable () async -> Value) async -> Value? {
    let result = Promise<Value>()
    // Owned: by the call, which waits for it or cancels it. A scope would wait for an operation that never ends.
    let task = Task { result.fulfil(await operation()) }
    return await withTaskCancellationHandler {
        await result.value
    } onCancel: {
        task.cancel()
    }
}
