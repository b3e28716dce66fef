internal import Synchronization

/// Raw keyboard input of a full screen, read on a thread of its own. The reader outlives connections to a node: input that
/// arrives while there is no handler is queued.
package final class KeyboardReader: Sendable {
    package enum Event: Sendable, Hashable {
        /// Empty once when nothing follows: an incomplete escape sequence can then be resolved.
        case bytes([UInt8])
        case closed
    }

    private struct State {
        var handler: (@Sendable (Event) -> Void)?
        var queued: [Event] = []
        var wakeUp: InputWakeUp?
        /// Finishes with the running thread; nil when none runs.
        var finished: AsyncStream<Never>?
    }

    private let terminal: TerminalDevice
    private let state = Mutex(State())

    package init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Starts reading. Does nothing when it already runs.
    package func start() {
        let (finished, finish) = AsyncStream.makeStream(of: Never.self)
        let wakeUp = InputWakeUp()
        let isNew = state.withLock { state in
            guard state.finished == nil else { return false }
            (state.wakeUp, state.finished) = (wakeUp, finished)
            return true
        }
        guard isNew else { return }
        let early = terminal.pendingByteCount
        TerminalDevice.makeQueue("keyboard").async { [self] in
            var early = early
            terminal.readBytes(wakeUp) { bytes in
                emit(.bytes(Self.undoingLineMode(bytes, upTo: early)))
                early -= min(early, bytes.count)
            }
            if !wakeUp.isStopped { emit(.closed) }
            finish.finish()
        }
    }

    /// The bytes that were typed before the terminal was in raw mode, in which Enter is a carriage return: until then the terminal
    /// has replaced it by a line feed, which is the key for a line break.
    private static func undoingLineMode(_ bytes: [UInt8], upTo count: Int) -> [UInt8] {
        bytes.enumerated().map { $0 < count && $1 == 0x0a ? 0x0d : $1 }
    }

    /// Stops reading, and returns when no read is under way.
    package func stop() async {
        let finished = state.withLock { state in
            state.wakeUp?.stop()
            defer { (state.wakeUp, state.finished) = (nil, nil) }
            return state.finished
        }
        if let finished { for await _ in finished {} }
    }

    /// Sets the handler of events, which first receives the queued ones; nil queues events.
    package func setHandler(_ handler: (@Sendable (Event) -> Void)?) {
        state.withLock { state in
            state.handler = handler
            guard let handler else { return }
            for event in state.queued { handler(event) }
            state.queued = []
        }
    }

    private func emit(_ event: Event) {
        state.withLock { state in
            if let handler = state.handler { handler(event) } else { state.queued.append(event) }
        }
    }
}
