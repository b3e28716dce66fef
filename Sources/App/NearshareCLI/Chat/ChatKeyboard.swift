internal import Nearshare
internal import Synchronization

/// What is pressed, read on a thread of its own. It belongs to the terminal, not to a node: what is pressed while there is nobody to take it
/// waits.
final class ChatKeyboard: Sendable {
    enum Press: Sendable {
        /// None when nothing was pressed for a while.
        case bytes([UInt8])
        case terminalGone
    }

    private struct State {
        var taker: (@Sendable (Press) -> Void)?
        var waiting: [Press] = []
        var isOver = OnceFlag()
        var ended: AsyncStream<Never>?
    }

    private let terminal: TerminalDevice
    private let state = Mutex(State())

    init(_ terminal: TerminalDevice) {
        self.terminal = terminal
    }

    /// Reads from now on.
    func begin() {
        let (ended, end) = AsyncStream.makeStream(of: Never.self)
        let isOver = OnceFlag()
        let isNew = state.withLock { state in
            guard state.ended == nil else { return false }
            (state.isOver, state.ended) = (isOver, ended)
            return true
        }
        guard isNew else { return }
        BlockingThread.start { [self] in
            var wasPressed = false
            terminal.readKeys(until: isOver) { bytes in
                // That nothing follows matters once.
                if wasPressed || !bytes.isEmpty { hand(.bytes(bytes)) }
                wasPressed = !bytes.isEmpty
            }
            if !isOver.isRaised { hand(.terminalGone) }
            end.finish()
        }
    }

    /// Afterwards nothing is read any more.
    func end() async {
        let ended = state.withLock { state in
            state.isOver.raise()
            defer { state.ended = nil }
            return state.ended
        }
        if let ended { for await _ in ended {} }
    }

    /// - Parameter taker: gets what is pressed, and first what has waited; nil to let it wait.
    func direct(to taker: (@Sendable (Press) -> Void)?) {
        state.withLock { state in
            state.taker = taker
            guard let taker else { return }
            for press in state.waiting { taker(press) }
            state.waiting = []
        }
    }

    private func hand(_ press: Press) {
        state.withLock { state in
            if let taker = state.taker { taker(press) } else { state.waiting.append(press) }
        }
    }
}
