import Dispatch

/// Calls that block run on threads of their own, not on those of Swift's pool.
enum Blocking {
    static func run(_ body: @escaping @Sendable () -> Void) {
        // Each has a queue of its own: those that all share run only so many at once.
        DispatchQueue(label: "blocking").async(execute: body)
    }
}
