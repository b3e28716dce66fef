internal import Synchronization

/// Keys of a command that shows several screens in a row: raw mode begins once and ends once, and each screen in turn
/// subscribes to the keys.
package final class SharedKeyboard: Sendable {
    private let subscriber = Mutex<AsyncStream<TerminalKey>.Continuation?>(nil)
    private let terminal: TerminalDevice

    package init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Reads keys until the task is cancelled or the terminal closes. Returns when no read is under way.
    package func run() async {
        await terminal.readKeys { [self] key in _ = subscriber.withLock { $0?.yield(key) } }
        subscriber.withLock { $0?.finish() }
    }

    /// The keys pressed from now on. Ends the stream of the previous subscriber.
    package func keys() -> AsyncStream<TerminalKey> {
        AsyncStream { continuation in
            subscriber.withLock { subscriber in
                subscriber?.finish()
                subscriber = continuation
            }
        }
    }
}
