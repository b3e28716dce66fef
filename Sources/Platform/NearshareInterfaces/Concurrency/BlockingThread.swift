internal import Glibc

/// A thread of its own for code that blocks: Swift's few must not wait for links, files and terminals.
package enum BlockingThread {
    /// Starts `body`. Whoever starts it sees to it that it ends, such as by closing what it reads from.
    package static func start(_ body: @escaping @Sendable () -> Void) {
        final class Start {
            let body: @Sendable () -> Void
            init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        }
        var thread = pthread_t()
        let start = Unmanaged.passRetained(Start(body)).toOpaque()
        let code = pthread_create(
            &thread, nil,
            { raw in
                Unmanaged<Start>.fromOpaque(raw!).takeRetainedValue().body()
                return nil
            }, start)
        // The number of threads is bounded by the number of links; if even these can't be had, nothing can go on.
        precondition(code == 0, "no thread to be had: \(String(cString: strerror(code)))")
        pthread_detach(thread)
    }
}
