import Dispatch

/// Calls that block run on threads of their own, not on those of Swift's pool.
enum Blocking {
    static func run(_ body: @escaping @Sendable () -> Void) {
        DispatchQueue.global().async(execute: body)
    }
}
