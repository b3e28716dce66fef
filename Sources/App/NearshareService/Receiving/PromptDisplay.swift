/// The terminal on which the user is asked. The command line implements it.
package protocol PromptDisplay: Sendable {
    /// The lines that the user types, until the terminal closes. An empty line is also emitted when the process returns to the
    /// foreground.
    func lines() -> AsyncStream<String>

    /// Writes whole lines above the prompt.
    func show(_ text: String)

    /// Replaces the prompt below everything else; nil removes it.
    func setPrompt(_ prompt: String?)

    /// Keeps the prompt and the typed answer as a line above.
    func confirmAnswer(_ line: String)

    /// Discards typed input that was not read yet.
    func discardTypedInput()
}
