internal import Glibc
internal import Synchronization

/// The status area of the process's terminal, shared by all threads; other output appears above it.
package final class StatusDisplay: Sendable {
    package static let shared = StatusDisplay()

    private struct State {
        var area = StatusArea()
        /// The terminal. Differs from standard error where that is redirected and a question is asked.
        var descriptor = STDERR_FILENO
        var columns: Int { TerminalProperties.size(of: descriptor).columns }
    }

    private let state = Mutex(State())

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
            state.area = StatusArea()
            return !erased.isEmpty
        }
    }
}
