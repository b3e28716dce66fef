import Dispatch

/// Runs blocking calls on separate threads, not on those of Swift's pool.
enum Blocking {
    static func run(_ body: @escaping @Sendable () -> Void) {
        // Each call has its own queue: shared queues run only a limited number at once.
        DispatchQueue(label: "blocking").async(execute: body)
    }
}
