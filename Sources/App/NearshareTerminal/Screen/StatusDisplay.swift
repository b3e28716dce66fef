internal import Glibc
internal import Synchronization

/// The status area of the process's terminal, shared by all threads; other output appears above it.
package final class StatusDisplay: Sendable {
    package static let shared = StatusDisplay()

    private struct State {
        var area = StatusArea(isPlain: !TerminalProperties.canMoveCursor)
        /// Whether the output of this process reaches the terminal through another program as well.
        var hasPipedOutput = false
        /// The programs that write to the terminal at present.
        var foreignWriterCount = 0
        /// The terminal. Differs from standard error where that is redirected and a question is asked.
        var descriptor = STDERR_FILENO
        var columns: Int { TerminalProperties.size(of: descriptor).columns }
    }

    private let state = Mutex(State())

    /// Whether no control sequences are written.
    package var isPlain: Bool { state.withLock { $0.area.isPlain } }

    /// Begins plain mode for good: the lines of a pipe appear on the terminal at any time, if at all.
    package func recordPipedOutput() {
        state.withLock { state in
            state.hasPipedOutput = true
            updateMode(&state)
        }
    }

    /// Begins plain mode while a child process may write to the terminal. ``endForeignOutput()`` follows.
    package func beginForeignOutput() {
        state.withLock { state in
            state.foreignWriterCount += 1
            updateMode(&state)
        }
    }

    package func endForeignOutput() {
        state.withLock { state in
            state.foreignWriterCount -= 1
            updateMode(&state)
        }
    }

    private func updateMode(_ state: inout State) {
        let isPlain = state.hasPipedOutput || state.foreignWriterCount > 0 || !TerminalProperties.canMoveCursor
        DescriptorOutput.write(state.area.setPlain(isPlain, columns: state.columns), to: state.descriptor)
    }

    /// Replaces the status lines. Call it only when standard error is a terminal.
    package func show(_ lines: [String]) {
        state.withLock { DescriptorOutput.write($0.area.show(lines, columns: $0.columns), to: $0.descriptor) }
    }

    /// Asks a question on a terminal, below everything else; nil removes the question.
    package func ask(_ question: String?, on terminal: TerminalDevice) {
        state.withLock { state in
            state.descriptor = terminal.descriptor
            DescriptorOutput.write(state.area.ask(question, columns: state.columns), to: state.descriptor)
        }
    }

    /// Keeps the question and its answer on the screen above the area. Called after Enter was pressed.
    package func recordAnswer() {
        state.withLock { DescriptorOutput.write($0.area.recordAnswer(columns: $0.columns), to: $0.descriptor) }
    }

    /// Runs `body`, which writes whole lines, while the area is cleared.
    package func withAreaCleared(_ body: () -> Void) {
        state.withLock { state in
            DescriptorOutput.write(state.area.erase(columns: state.columns), to: state.descriptor)
            body()
            DescriptorOutput.write(state.area.draw(columns: state.columns), to: state.descriptor)
        }
    }

    /// Removes lines and question from the screen.
    /// - Returns: whether there were any.
    @discardableResult
    package func clear() -> Bool {
        state.withLock { state in
            let erased = state.area.erase(columns: state.columns)
            DescriptorOutput.write(erased, to: state.descriptor)
            state.area = StatusArea(isPlain: state.area.isPlain)
            return !erased.isEmpty
        }
    }
}
