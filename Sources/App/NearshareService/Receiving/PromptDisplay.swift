/// The terminal on which the user is asked. The command line implements it.
package protocol PromptDisplay: Sendable {
    /// The lines that the user types, until the terminal is gone. An empty one comes also when the process returns to the foreground.
    func lines() -> AsyncStream<String>

    /// Writes whole lines above the prompt.
    func show(_ text: String)

    /// Replaces the prompt below everything else; nil removes it.
    func setPrompt(_ prompt: String?)

    /// Keeps the prompt and the typed answer as a line above.
    func confirmAnswer(_ line: String)

    /// Discards what was typed and not read yet.
    func discardTypedInput()
}
