internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Interrupts operations by signals.
struct SignalInterruption: InterruptionHandler {
    func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable () -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        do {
            return try await SignalHandling.run(onSignal: onInterrupt, body)
        } catch is SignalHandling.Interrupted {
            throw CommandFailure.silent(.interrupted)
        }
    }
}

extension PromptDisplay where Self == TerminalPromptDisplay {
    /// nil for a process without a terminal.
    static var terminal: TerminalPromptDisplay? { TerminalDevice().map { TerminalPromptDisplay(terminal: $0) } }
}

/// Asks on the controlling terminal.
struct TerminalPromptDisplay: PromptDisplay {
    let terminal: TerminalDevice

    func lines() -> AsyncStream<String> { terminal.lines() }
    func show(_ text: String) { terminal.write(text) }
    func setPrompt(_ prompt: String?) { StatusDisplay.shared.ask(prompt, on: terminal) }
    func confirmAnswer(_ line: String) { StatusDisplay.shared.recordAnswer(line) }
    func discardTypedInput() { terminal.discardInput() }
}

extension NodeEnvironment {
    /// For a node that serves one command.
    static let command = NodeEnvironment(interruption: SignalInterruption()) { TextReporter(output: .publish($0)) }
}
