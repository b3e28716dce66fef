internal import Glibc
internal import Nearshare
internal import NearshareService
internal import NearshareTerminal

/// Interrupts operations by signals.
struct SignalInterruption: InterruptionHandler {
    func run<Result: Sendable>(
        onInterrupt: @escaping @Sendable (Interruption) -> Void, _ body: @escaping @Sendable () async throws -> Result
    ) async throws -> Result {
        do {
            return try await SignalHandling.run(onSignal: { onInterrupt(Interruption(signal: $0)) }, body)
        } catch is SignalHandling.Interrupted {
            throw CommandFailure.silent(.interrupted)
        }
    }
}

extension Interruption {
    init(signal number: Int32) { self = number == SIGINT ? .cancelled : .terminated }
}

extension PromptDisplay where Self == TerminalPromptDisplay {
    /// nil for a process without a terminal.
    static var terminal: TerminalPromptDisplay? { TerminalDevice().map { TerminalPromptDisplay(terminal: $0) } }
}

extension UnsealedConfirmation {
    /// Asks on the controlling terminal; nil for a process without one.
    static var onTerminal: UnsealedConfirmation? {
        guard let terminal = TerminalDevice() else { return nil }
        return UnsealedConfirmation { name in
            await YesNoPrompt.ask("\(question(name)) [y]es, [n]o: ", on: terminal, timeout: timeout)
        }
    }
}

/// Asks on the controlling terminal.
struct TerminalPromptDisplay: PromptDisplay {
    let terminal: TerminalDevice

    var redraws: Bool { !StatusDisplay.shared.isPlain }
    var size: (columns: Int, rows: Int) { (terminal.size.columns, terminal.size.rows) }

    func keys() -> AsyncStream<AnswerKey> { terminal.answerKeys() }

    func show(_ text: String) {
        terminal.writeWrapped(text)
    }

    func setPrompt(_ prompt: String?, typed: String) {
        terminal.setReadsAnswer(prompt != nil)
        StatusDisplay.shared.ask(prompt.map { $0 + typed }, on: terminal)
    }

    func confirmAnswer() { StatusDisplay.shared.recordAnswer() }
    func discardTypedInput() { terminal.discardInput() }
}

extension NodeEnvironment {
    /// The environment of a node that serves one command.
    static let command = NodeEnvironment(interruption: SignalInterruption()) { TextReporter(output: .publish($0)) }
}
